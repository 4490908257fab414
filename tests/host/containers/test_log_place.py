"""Where logs are, and how large they become together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.host.containers.log_files import (
    CHUNK,
    ContainerLogs,
    LogLimits,
    make_room,
    stamp,
)
from qoslet.host.containers.log_place import place_logs, remove_logs
from qoslet.host.state.folder import log_directory

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run" / "qoslet%2Fa"
    made.mkdir(parents=True, mode=0o700)
    return made


def test_logs_are_not_on_the_file_system_of_the_state(folder: Path, tmp_path: Path) -> None:
    disk = tmp_path / "log" / "qoslet"
    assert place_logs(str(folder), str(disk)) == ""
    assert (folder / "logs").is_symlink()
    log = ContainerLogs(str(folder / "logs")).file(f"{folder}/logs/d_p_u/c/0.log", pytest.fail)
    log.write(stamp(0) + b" stdout F x\n")
    log.close()
    written = disk / folder.name / "d_p_u" / "c" / "0.log"
    assert written.read_bytes().endswith(b"stdout F x\n")
    modes = {path.stat().st_mode & 0o777 for path in (disk, disk / folder.name, written.parent)}
    assert modes == {0o700}
    assert place_logs(str(folder), str(disk)) == ""
    assert written.exists(), "the next agent goes on with them"
    remove_logs(str(folder))
    assert not (folder / "logs").is_symlink()
    assert not (disk / folder.name).exists()


def test_logs_of_a_boot_before_are_gone_with_the_next_root_of_that_name(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "disk" / folder.name / "d_p_old").mkdir(parents=True)
    (tmp_path / "disk").chmod(0o700)
    assert place_logs(str(folder), str(tmp_path / "disk")) == ""
    assert os.listdir(folder / "logs") == []


def test_the_directory_of_an_earlier_version_stays_while_it_has_logs(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "logs" / "d_p_u").mkdir(parents=True)
    assert place_logs(str(folder), str(tmp_path / "disk")) == ""
    assert (folder / "logs" / "d_p_u").is_dir()
    assert not (folder / "logs").is_symlink()
    remove_logs(str(folder))
    assert os.listdir(folder) == []
    (folder / "logs").mkdir()
    assert place_logs(str(folder), str(tmp_path / "disk")) == ""
    assert (folder / "logs").is_symlink()


def test_where_the_disk_cannot_be_used_logs_stay_and_it_is_said(
    folder: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    disk.chmod(0o777)
    said = place_logs(str(folder), str(disk))
    assert said.endswith(f"{disk} can be written by other users (mode 0777)")
    if os.geteuid() == 0:
        os.chown(disk, 1234, 0)
        assert place_logs(str(folder), str(disk)).endswith("belongs to user 1234")
    (tmp_path / "file").write_text("")
    said = place_logs(str(folder), str(tmp_path / "file" / "x"))
    assert "cannot use" in said
    assert not (folder / "logs").exists()


def test_a_target_that_was_removed_is_made_again(folder: Path, tmp_path: Path) -> None:
    place_logs(str(folder), str(tmp_path / "disk"))
    (tmp_path / "disk" / folder.name).rmdir()
    log = ContainerLogs(str(folder / "logs")).file(f"{folder}/logs/d_p_u/c/0.log", pytest.fail)
    log.begin()
    log.close()
    assert (tmp_path / "disk" / folder.name / "d_p_u" / "c" / "0.log").exists()


def test_users_have_their_own_place() -> None:
    assert log_directory({}, 0) == "/var/log/qoslet"
    assert log_directory({"HOME": "/home/a"}, 1000) == "/home/a/.local/state/qoslet/logs"
    assert log_directory({"XDG_STATE_HOME": "/s/"}, 1000) == "/s/qoslet/logs"


@pytest.mark.parametrize("containers", [1, 3, 20])
def test_all_logs_together_have_a_bound(tmp_path: Path, containers: int) -> None:
    """Containers that print without end: what they print is memory where logs are on a tmpfs."""
    limits = LogLimits(size=MIB, files=5, total=4 * MIB)
    logs = ContainerLogs(str(tmp_path / "logs"), limits)
    files = [logs.file(logs.path(f"d/p{at}", "u", "c", 0), pytest.fail) for at in range(containers)]
    for file in files:
        file.begin()
    entry = stamp(0) + b" stdout F " + b"x" * 16000 + b"\n"
    for _ in range(30 * MIB // len(entry) // containers):
        for file in files:
            file.write(entry)
    used = sum(path.stat().st_size for path in (tmp_path / "logs").rglob("*") if path.is_file())
    # each was begun when there were fewer of them
    assert used <= limits.total + containers * CHUNK
    for file in files:
        assert os.stat(file.path).st_size
        file.close()


def test_the_oldest_parts_go_first_and_what_grows_stays(tmp_path: Path) -> None:
    for name, age in (("a/0.log.1", 1), ("b/0.log.2", 3), ("a/0.log.3", 2), ("a/0.log", 0)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (age, age))
    make_room(str(tmp_path), LogLimits(total=400))
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.log*"))
    assert left == ["a/0.log", "a/0.log.3", "b/0.log.2"]


def test_a_small_file_system_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:
        f_frsize, f_blocks = 4096, 2048

    monkeypatch.setattr(os, "statvfs", lambda _: Small)
    (tmp_path / "0.log").write_bytes(b"")
    assert make_room(str(tmp_path), LogLimits()) == 8 * MIB // 4 // 2


def test_logs_that_begin_together_cost_one_look_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    walk = os.walk

    def counted(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
        looks.append(top)
        return walk(top)

    monkeypatch.setattr(os, "walk", counted)
    logs = ContainerLogs(str(tmp_path), LogLimits(size=CHUNK))
    files = [logs.file(f"{tmp_path}/d_p_u/c{number}/0.log", pytest.fail) for number in range(50)]
    for file in files:
        file.begin()
    assert len(looks) == 1
    files[0].write(b"x" * (CHUNK - 1) + b"\n")
    files[0].write(b"y\n")
    assert len(looks) == 2, "for an older part there must be room"
    for file in files:
        file.close()
