"""Directories that are removed whole, however they were made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoslet.host.linux.mount_syscalls import BIND, mount, unmount
from qoslet.host.linux.remove_tree import BATCH, remove_tree


def test_depth_and_width_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("stays")
    deep = os.open(tmp_path, os.O_RDONLY)
    for name in ("tree", *["d"] * 1200):
        os.mkdir(name, dir_fd=deep)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.symlink(tmp_path / "other", "link", dir_fd=deep)
    os.close(deep)
    (tmp_path / "tree/wide").mkdir()
    for number in range(BATCH + 5):
        os.close(os.open(tmp_path / f"tree/wide/{number}", os.O_CREAT | os.O_WRONLY))
    remove_tree(f"{tmp_path}/tree")
    assert os.listdir(tmp_path) == ["other"]
    remove_tree(f"{tmp_path}/tree")
    remove_tree(f"{tmp_path}/none/tree")


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("stays")
    (tmp_path / "link").symlink_to("kept")
    remove_tree(f"{tmp_path}/link")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to("../kept")
    remove_tree(f"{tmp_path}/tree")
    assert [one.name for one in tmp_path.rglob("*")] == ["kept", "file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("point", ["tree", "tree/d", "tree/d/d"])
def test_what_is_mounted_in_it_is_not_touched(tmp_path: Path, point: str) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("stays")
    (tmp_path / "tree/d/d").mkdir(parents=True)
    try:
        mount(str(tmp_path / "kept"), str(tmp_path / point), "", BIND)
    except PermissionError:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(OSError, match="busy"):
            remove_tree(f"{tmp_path}/tree")
        assert (tmp_path / "kept/file").read_text() == "stays"
    finally:
        for folder, _, names in os.walk(tmp_path / "tree"):
            if "file" in names:
                unmount(folder)
                break
