"""What is kept of the directories that manifests are in."""

from __future__ import annotations

import os
from pathlib import Path

from qoslet.host.state.folder import is_of_pods
from qoslet.host.state.manifest_directories import ManifestDirectories

NAME = "manifest-directories"


def test_they_are_kept_and_written_where_they_change_or_went(tmp_path: Path) -> None:
    kept = ManifestDirectories(str(tmp_path))
    assert kept.load() == {}
    kept.save({})
    assert not (tmp_path / NAME).exists()
    kept.save({"/m": (1, 2)})
    assert ManifestDirectories(str(tmp_path)).load() == {"/m": (1, 2)}
    inode = os.stat(tmp_path / NAME).st_ino
    kept.save({"/m": (1, 2)})
    assert os.stat(tmp_path / NAME).st_ino == inode
    (tmp_path / NAME).unlink()
    kept.save({"/m": (1, 2)})
    assert ManifestDirectories(str(tmp_path)).load() == {"/m": (1, 2)}
    assert is_of_pods(NAME), "it goes with the last pod"


def test_what_is_damaged_or_cannot_be_written_counts_for_nothing(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"/m": [1]}'):
        (tmp_path / NAME).write_text(text)
        assert ManifestDirectories(str(tmp_path)).load() == {}
    ManifestDirectories(str(tmp_path / "nowhere")).save({"/m": (1, 2)})
