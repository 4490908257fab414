"""Files of a volume, replaced all at once, whatever happens in between."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from qoslet.core.workload.folders.types import VolumeFile
from qoslet.host.containers.payload import DATA, write_payload

ONE = [VolumeFile("a", 0o644, b"1"), VolumeFile("d/e/f", 0o400, b"2")]
TWO = [VolumeFile("a", 0o600, b"other"), VolumeFile("g", 0o644, b"")]


def seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    """What a container sees below the volume, by the names that it opens."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith(".."):
            continue
        assert (folder / name).is_symlink()
        top = folder / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file():
                mode = stat.S_IMODE(path.stat().st_mode)
                found[str(path.relative_to(folder))] = (mode, path.read_bytes())
    return found


def expected(files: list[VolumeFile]) -> dict[str, tuple[int, bytes]]:
    return {one.path: (one.mode, one.data) for one in files}


def hidden(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith("..") and name != DATA]


def test_files_come_change_and_go_at_once(tmp_path: Path) -> None:
    assert write_payload(str(tmp_path), ONE, None)
    assert seen(tmp_path) == expected(ONE)
    before = os.readlink(tmp_path / DATA)
    assert not write_payload(str(tmp_path), ONE, None), "what is right stays"
    assert os.readlink(tmp_path / DATA) == before
    held = os.open(tmp_path / "a", os.O_RDONLY)
    assert write_payload(str(tmp_path), TWO, None)
    assert seen(tmp_path) == expected(TWO)
    assert os.read(held, 10) == b"1", "who has a file open keeps it"
    os.close(held)
    assert hidden(tmp_path) == [os.readlink(tmp_path / DATA)]
    assert write_payload(str(tmp_path), [], None)
    assert (seen(tmp_path), len(hidden(tmp_path))) == ({}, 1)


def test_another_mode_is_a_change_and_the_umask_is_none(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        write_payload(str(tmp_path), ONE, None)
        other = [VolumeFile("a", 0o666, b"1"), ONE[1]]
        assert write_payload(str(tmp_path), other, None)
    finally:
        os.umask(old)
    assert seen(tmp_path) == expected(other)
    assert stat.S_IMODE((tmp_path / DATA).stat().st_mode) == 0o755


def test_a_group_may_read(tmp_path: Path) -> None:
    write_payload(str(tmp_path), ONE, os.getegid())
    modes = {path: mode for path, (mode, _) in seen(tmp_path).items()}
    assert modes == {"a": 0o644, "d/e/f": 0o440}
    assert stat.S_IMODE((tmp_path / DATA / "d").stat().st_mode) == 0o2755


class Killed(Exception):
    """Stands for kill -9."""


@pytest.mark.parametrize("step", range(60))
def test_a_writer_that_is_killed_leaves_all_old_or_all_new_ones(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each system call that changes a name may be the last one."""
    write_payload(str(tmp_path), ONE, None)
    left = [step]

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*args: object, **more: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*args, **more)

        monkeypatch.setattr(os, name, call)

    for name in ("mkdir", "open", "write", "symlink", "rename", "unlink", "rmdir", "fchmod"):
        counted(name)
    try:
        write_payload(str(tmp_path), TWO, None)
    except Killed:
        pass
    monkeypatch.undo()
    through = {
        str(path.relative_to(tmp_path / DATA)): path.read_bytes()
        for path in sorted((tmp_path / DATA).rglob("*"))
        if path.is_file()
    }
    assert through in ({one.path: one.data for one in files} for files in (ONE, TWO))
    write_payload(str(tmp_path), TWO, None)
    assert (seen(tmp_path), len(hidden(tmp_path))) == (expected(TWO), 1)
