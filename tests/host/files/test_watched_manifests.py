"""Manifest files that come, change and go while they are watched, on this machine's file system."""

from __future__ import annotations

import errno
import os
import select
import time
from pathlib import Path

import pytest

from qoslet.core.api.documents import Document
from qoslet.errors import BadInput
from qoslet.host.files.bounds import FOLLOWED
from qoslet.host.files.watched_manifests import RESCAN, SLICE
from qoslet.host.linux.inotify import Event
from tests.host.files.followed import POD, Heard, Opening, Time, folder, opened, rows, told, write

__all__ = ["folder", "opened"]


def test_each_file_is_told_once_and_in_order(opened: Opening, folder: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", ".d.yaml", "e.txt"):
        write(folder / name, name[:1].strip(".") or "d")
    (folder / "sub.yaml").mkdir()
    write(folder / "sub.yaml/f.yaml", "f")
    files = opened(folder)
    changes = files.changes()
    assert [change.order for change in changes] == [(0, "a.yml"), (0, "b.yaml"), (0, "c.json")]
    assert changes[0].file == f"{folder}/a.yml"
    assert not any(change.given for change in changes)
    assert files.changes() == []
    assert rows(files) == []


def test_files_come_change_and_go(opened: Opening, folder: Path) -> None:
    files = opened(folder)
    assert told(files) == {}
    write(folder / "a.yaml", "one")
    assert told(files) == {"a.yaml": "one"}
    write(folder / "a.yaml", "two")
    assert told(files) == {"a.yaml": "two"}
    (folder / "a.yaml").write_text(POD.format("three"))
    assert told(files) == {"a.yaml": "three"}
    os.rename(folder / "a.yaml", folder / "b.yaml")
    assert told(files) == {"a.yaml": "gone", "b.yaml": "three"}
    (folder / "b.yaml").unlink()
    assert told(files) == {"b.yaml": "gone"}
    write(folder / "c.yaml", "short")
    (folder / "c.yaml").unlink()
    assert told(files) == {}


def test_a_link_that_a_file_replaces_while_it_is_followed(
    opened: Opening, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source: readlink(2), EINVAL for what is no link any more; os.path.realpath passes it on."""
    real = os.readlink
    (folder / "..data").mkdir()
    write(folder / "..data/a.yaml", "linked")

    def readlink(path: str, *, dir_fd: int | None = None) -> str:
        if str(path).endswith("a.yaml") and dir_fd is None:
            write(folder / "a.yaml", "own")
        return real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "readlink", readlink)
    files = opened(folder)
    assert told(files) == {}
    os.symlink("..data/a.yaml", folder / "a.yaml")
    assert told(files) == {"a.yaml": "linked"}
    assert told(files) == {"a.yaml": "own"}


def test_a_half_written_file_is_waited_for(opened: Opening, folder: Path) -> None:
    files = opened(folder)
    files.changes()
    with open(folder / "a.yaml", "w") as file:
        file.write("apiVersion: v1\nkind: Pod\n")
        file.flush()
        assert told(files) == {}
        assert rows(files) == [
            f"info {folder}/a.yaml: is open for writing; qoslet reads it when it is closed"
        ]
        file.write("metadata: {name: whole}\nspec: {containers: [{name: c}]}\n")
    assert told(files) == {"a.yaml": "whole"}
    assert rows(files) == []


def test_a_file_that_is_written_when_we_come_is_waited_for(opened: Opening, folder: Path) -> None:
    time = Time()
    with open(folder / "a.yaml", "w") as file:
        file.write("apiVersion: v1\nkind: Pod\nmetadata: {name: half}\n")
        file.flush()
        files = opened(folder, time=time)
        assert told(files) == {}
        time.now += RESCAN
        assert told(files) == {}
        file.write("spec: {containers: [{name: c}]}\n")
    assert told(files) == {"a.yaml": "half"}


def test_a_file_that_stays_open_for_writing_is_worth_a_warning(
    opened: Opening, folder: Path
) -> None:
    time = Time()
    write(folder / "a.yaml", "one")
    files = opened(folder, time=time)
    files.changes()
    with open(folder / "a.yaml", "a"):
        for _ in range(2):
            time.now += RESCAN
            os.utime(folder / "a.yaml")
            files.changes()
        hint = f"fuser -v {folder}/a.yaml lists the processes"
        assert [(row.severity, row.hint) for row in files.rows()] == [("warning", hint)]
    assert told(files) == {"a.yaml": "one"}
    with open(folder / "a.yaml", "a"):
        os.utime(folder / "a.yaml")
        files.changes()
        assert [row.severity for row in files.rows()] == ["info"], "the time counts anew"


def test_a_list_that_ends_after_items_may_be_written_still(opened: Opening, folder: Path) -> None:
    (folder / "a.yaml").write_text("apiVersion: v1\nkind: List\nitems:\n")
    (folder / "b.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    changes = opened(folder).changes()
    assert [str(row) for row in changes[0].documents or ()] == [
        f"{folder}/a.yaml: items: is null (write an empty list as items: [])"
    ]
    assert [type(row) for row in changes[1].documents or ()] == [Document]


def test_a_file_that_only_came_may_be_written_still(opened: Opening, folder: Path) -> None:
    heard = Heard()
    files = opened(folder, watch=lambda: heard)
    files.changes()
    write(folder / "a.yaml", "linked")
    heard.waiting.append(Event("made", str(folder), "a.yaml"))
    assert told(files) == {"a.yaml": "linked"}, "nobody has it open"


def test_faults_are_told_in_place_of_the_file(opened: Opening, folder: Path) -> None:
    (folder / "a.yaml").write_text("a: [")
    os.mkfifo(folder / "b.yaml")
    os.symlink("nothing", folder / "c.yaml")
    with open(folder / "d.yaml", "wb") as file:
        file.truncate(FOLLOWED.size + 1)
    (folder / "e.yaml").write_bytes(b"a\0b")
    os.symlink("/proc/uptime", folder / "f.yaml")
    found = told(opened(folder))
    assert found.pop("a.yaml").startswith("fault: broken YAML")
    assert found == {
        "b.yaml": "fault: is a FIFO",
        "c.yaml": "fault: is a dangling link",
        "d.yaml": "fault: is 3.0 MiB, at most 3 are read",
        "e.yaml": "fault: is binary: byte 1 is NUL",
        "f.yaml": "fault: is the kernel's, whose size is unknown",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_a_fault(opened: Opening, folder: Path) -> None:
    write(folder / "a.yaml", "one")
    os.chmod(folder / "a.yaml", 0)
    files = opened(folder)
    assert told(files) == {"a.yaml": "fault: cannot be read: Permission denied"}
    os.chmod(folder / "a.yaml", 0o600)
    assert told(files) == {"a.yaml": "one"}


def test_a_fault_is_told_once(opened: Opening, folder: Path) -> None:
    time = Time()
    os.mkfifo(folder / "b.yaml")
    os.symlink("nothing", folder / "c.yaml")
    files = opened(folder, time=time)
    assert len(files.changes()) == 2
    time.now += RESCAN
    assert [change.file for change in files.changes()] == [f"{folder}/c.yaml"]


# --- what reading costs -----------------------------------------------------------------------


def test_reading_is_cut_into_slices_and_told_at_once(opened: Opening, folder: Path) -> None:
    """Between two calls the loop gives signs of life and hears SIGTERM."""

    class Slow(Time):
        def __call__(self) -> float:
            self.now += SLICE / 2
            return self.now

    files = opened(folder, time=Slow())
    assert told(files) == {}
    for name in "abcdef":
        write(folder / f"{name}.yaml", name)
    calls = 0
    while not (found := told(files)):
        calls += 1
        assert select.select(files.descriptors(), [], [], 1)[0], "it is called again at once"
    assert found == {f"{name}.yaml": name for name in "abcdef"}
    assert calls >= 2


def test_the_first_call_reads_everything_and_tells_of_each_file(
    opened: Opening, folder: Path
) -> None:
    class Slow(Time):
        def __call__(self) -> float:
            self.now += SLICE
            return self.now

    for name in "abc":
        write(folder / f"{name}.yaml", name)
    signs: list[None] = []
    files = opened(folder, time=Slow(), progress=lambda: signs.append(None))
    assert sorted(told(files)) == ["a.yaml", "b.yaml", "c.yaml"]
    assert len(signs) == 3


def test_a_pod_that_moves_while_files_are_read_in_slices_is_told_with_its_new_file(
    opened: Opening, folder: Path
) -> None:
    class Slow(Time):
        def __call__(self) -> float:
            self.now += SLICE
            return self.now

    for name in "abc":
        write(folder / f"{name}.yaml", name)
    files = opened(folder, time=Slow())
    files.changes()
    os.rename(folder / "a.yaml", folder / "z.yaml")
    write(folder / "b.yaml", "b2")
    while not (found := told(files)):
        pass
    assert found == {"a.yaml": "gone", "b.yaml": "b2", "z.yaml": "a"}


BOMBS = {
    "values": (b"a: [" + b"1," * 250_000 + b"1]", "has more than 200000 values"),
    "lists": (b"a: [" + b"[[1]]," * 100_000 + b"1]", "has more than 200000 values"),
    "small documents": (b"---\n- 1\n" * 150_000, "has more than 10000 documents"),
    "JSON documents": (b"{}\n" * 500_000, "has more than 10000 documents and list items"),
    "list items": (
        b'{"apiVersion":"v1","kind":"List","items":[' + b"0," * 900_000 + b"0]}",
        "has more than 10000 documents and list items",
    ),
    "size": (b"#" * (3 << 20) + b"\n", "is 3.0 MiB, at most 3 are read"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_a_followed_file_costs_is_bounded(opened: Opening, folder: Path, name: str) -> None:
    """CPU, not wall: WatchdogSec of the shipped unit is 30 s."""
    data, message = BOMBS[name]
    path = folder / "a.json" if name.startswith(("JSON", "list items")) else folder / "a.yaml"
    path.write_bytes(data)
    files = opened(folder)
    begun = time.process_time()
    (change,) = files.changes()
    assert time.process_time() - begun < 5
    fault = (change.documents or ())[-1]
    assert isinstance(fault, BadInput)
    assert fault.message == message


def test_a_file_that_could_not_be_read_for_a_while_is_read_again(
    opened: Opening, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "a.yaml", "one")
    time = Time()
    files = opened(folder, time=time)

    def short(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("qoslet.host.files.stable_read.open_file", short)
    assert told(files) == {"a.yaml": "fault: cannot be read: Too many open files"}
    monkeypatch.undo()
    time.now += RESCAN
    assert told(files) == {"a.yaml": "one"}


# --- who may write ----------------------------------------------------------------------------


def test_what_everybody_can_write_is_refused(opened: Opening, folder: Path) -> None:
    write(folder / "a.yaml", "one")
    os.chmod(folder, 0o777)
    files = opened(folder, strict=True)
    assert told(files) == {}
    assert [fault.hint for fault in files.faults] == [f"chmod go-w {folder}"]
    os.chmod(folder, 0o755)
    assert told(files) == {"a.yaml": "one"}
    os.chmod(folder / "a.yaml", 0o666)
    assert f"they can change the file {folder}/a.yaml" in told(files)["a.yaml"]
    os.chmod(folder / "a.yaml", 0o644)
    assert told(files) == {"a.yaml": "one"}
    assert files.faults == []


def test_a_directory_that_is_opened_to_everybody_is_read_no_longer(
    opened: Opening, folder: Path
) -> None:
    write(folder / "a.yaml", "one")
    heard = Heard()
    files = opened(folder, strict=True, watch=lambda: heard)
    files.changes()
    os.chmod(folder, 0o777)
    write(folder / "a.yaml", "anybody")
    write(folder / "b.yaml", "anybody")
    (folder / "a.yaml").unlink()
    heard.waiting += [Event("there", str(folder), name) for name in ("a.yaml", "b.yaml")]
    assert told(files) == {}
    (row,) = rows(files)
    assert row.startswith(f"error {folder}: ")
    assert f"the directory {folder} (owner" in row
    os.chmod(folder, 0o755)
    heard.waiting.append(Event("there", str(folder), ""))
    assert told(files) == {"a.yaml": "gone", "b.yaml": "anybody"}


def test_a_named_file_that_becomes_unsafe_is_its_fault_and_does_not_go(
    opened: Opening, folder: Path
) -> None:
    path = folder / "a.yaml"
    write(path, "one")
    files = opened(path, strict=True)
    assert told(files) == {"a.yaml": "one"}
    os.chmod(path, 0o664)
    assert f"they can change the file {path}" in told(files)["a.yaml"]
    os.chmod(path, 0o644)
    assert told(files) == {"a.yaml": "one"}
    # whoever can write the directory can also take the file away: its pods must stay
    os.chmod(folder, 0o775)
    path.unlink()
    assert f"they can change the directory {folder}" in told(files)["a.yaml"]
    os.chmod(folder, 0o755)


# --- directories ------------------------------------------------------------------------------


def test_it_knows_which_files_it_follows(opened: Opening, folder: Path) -> None:
    write(folder / "a.yaml", "a")
    (folder / "sub").mkdir()
    write(folder / "sub" / "b.yaml", "b")
    one = opened(folder, folder / "sub" / "b.yaml")
    assert one.follows(f"{folder}/a.yaml")
    assert one.follows(f"{folder}/removed.yaml")
    assert one.follows(f"{folder}/sub/b.yaml")
    assert not one.follows(f"{folder}/sub/c.yaml")
    assert not one.follows(f"{folder}/a.txt")
    assert not one.follows("stdin")
    assert opened("-").follows("stdin")
    assert opened(f"{folder}/").follows(f"{folder}/a.yaml")
