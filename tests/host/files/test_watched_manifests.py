"""Manifest files that change while they are watched, on this machine's file system."""

from __future__ import annotations

import errno
import io
import os
import select
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.manifest_set import FileChange
from qoslet.core.problem import ProblemCode
from qoslet.errors import BadInput
from qoslet.host.files.bounds import FOLLOWED
from qoslet.host.files.watched_manifests import RESCAN, SLICE, ManifestFiles
from qoslet.host.linux.inotify import DirectoryWatch, Event, Inotify

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {0}}}\nspec: {{containers: [{{name: c}}]}}\n"


class Time:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Heard:
    """A watch that tells what a test says, and refuses what it says."""

    def __init__(self, refuses: OSError | None = None) -> None:
        self.waiting: list[Event] = []
        self.later: list[Event] = []
        self.refuses = refuses

    def add(self, directory: str) -> None:
        if self.refuses is not None:
            raise self.refuses

    def drop(self, directory: str) -> None:
        pass

    def events(self) -> list[Event]:
        found, self.waiting = self.waiting, []
        self.waiting, self.later = self.later, []
        return found

    def descriptors(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


Opening = Callable[..., ManifestFiles]


@pytest.fixture
def opened() -> Iterator[Opening]:
    made: list[ManifestFiles] = []

    def opening(
        *paths: Path | str,
        time: Time | None = None,
        stdin: bytes = b"",
        strict: bool = False,
        watch: Callable[[], DirectoryWatch] = Inotify,
        progress: Callable[[], None] = lambda: None,
    ) -> ManifestFiles:
        texts = [str(path) for path in paths]
        made.append(
            ManifestFiles(
                texts,
                time or Time(),
                stdin=io.BytesIO(stdin),
                strict=strict,
                watch=watch,
                progress=progress,
            )
        )
        return made[-1]

    yield opening
    for files in made:
        files.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "manifests"
    found.mkdir(mode=0o755)
    return found


def write(path: Path, name: str) -> None:
    """As a careful writer does."""
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text(POD.format(name))
    os.rename(hidden, path)


def said(change: FileChange) -> str:
    """What a file says: its pods, its fault, or that it is gone."""
    if change.documents is None:
        return "gone"
    found = []
    for one in change.documents:
        if isinstance(one, BadInput):
            found.append(f"fault: {one.message}")
        else:
            value = bytes(one.data)
            found.append(value.split(b'"metadata":{"name":"')[1].split(b'"')[0].decode())
    return " ".join(found)


def told(files: ManifestFiles) -> dict[str, str]:
    return {os.path.basename(change.file): said(change) for change in files.changes()}


def rows(files: ManifestFiles) -> list[str]:
    return [f"{row.severity} {row.where}: {row.message}" for row in files.rows()]


# --- what a directory holds -------------------------------------------------------------------


def test_each_file_is_told_once_and_in_order(opened: Opening, folder: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", ".d.yaml", "e.txt"):
        write(folder / name, name[:1].strip(".") or "d")
    (folder / "sub.yaml").mkdir()
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
    found = told(opened(folder))
    assert found.pop("a.yaml").startswith("fault: broken YAML")
    assert found == {
        "b.yaml": "fault: is a FIFO",
        "c.yaml": "fault: is a dangling link",
        "d.yaml": "fault: is 3.0 MiB, at most 3 are read",
        "e.yaml": "fault: is binary: byte 1 is NUL",
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


def test_a_directory_goes_and_comes_again(opened: Opening, folder: Path) -> None:
    write(folder / "a.yaml", "one")
    files = opened(folder)
    files.changes()
    for _ in range(3):
        shutil.rmtree(folder)
        assert told(files) == {}, "its pods stay"
        assert rows(files) == [f"error {folder}: does not exist"]
        assert [row.code for row in files.rows()] == [ProblemCode.UNREAD]
        folder.mkdir()
        write(folder / "a.yaml", "again")
        assert told(files) == {"a.yaml": "again"}
        write(folder / "a.yaml", "more")
        assert told(files) == {"a.yaml": "more"}
        assert rows(files) == []


def test_the_directories_above_go_and_come_again(opened: Opening, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    write(deep / "a.yaml", "one")
    files = opened(deep)
    files.changes()
    shutil.rmtree(tmp_path / "a")
    assert told(files) == {}
    for made in (tmp_path / "a", tmp_path / "a" / "b", deep):
        made.mkdir()
        assert told(files) == {}
        assert len(rows(files)) == 1
    write(deep / "a.yaml", "two")
    assert told(files) == {"a.yaml": "two"}


@pytest.mark.parametrize("only", [False, True], ids=["directory", "file"])
def test_a_directory_that_is_moved_away_keeps_its_files(
    opened: Opening, folder: Path, only: bool
) -> None:
    """Unmounted, renamed, or its parent is gone: nobody has removed a file from it."""
    write(folder / "a.yaml", "one")
    files = opened(folder / "a.yaml" if only else folder)
    files.changes()
    away = folder.with_name("away")
    for place in (folder, folder.parent / "other"):
        os.rename(folder, away)
        place.touch()
        if place != folder:
            os.rename(place, folder)
        assert "gone" not in told(files).values()
        assert rows(files) or only
        folder.unlink()
        assert "gone" not in told(files).values()
        os.rename(away, folder)
        assert set(told(files).values()) <= {"one"}
        assert rows(files) == []
    (folder / "a.yaml").unlink()
    assert told(files) == {"a.yaml": "gone"}


def test_an_empty_directory_in_place_of_another_is_a_fault(opened: Opening, folder: Path) -> None:
    """What is seen where a mount goes: the directory below it."""
    write(folder / "a.yaml", "one")
    files = opened(folder)
    files.changes()
    os.rename(folder, folder.with_name("away"))
    folder.mkdir(mode=0o755)
    for _ in range(2):
        assert told(files) == {}
        assert rows(files) == [f"error {folder}: is another directory now, and empty"]
        files.wake()
    write(folder / "b.yaml", "two")
    assert told(files) == {"a.yaml": "gone", "b.yaml": "two"}
    (folder / "b.yaml").unlink()
    assert told(files) == {"b.yaml": "gone"}, "removed from the same directory"
    assert rows(files) == []


@pytest.mark.parametrize("text", ["", "\n \n", "# half\n", "---\n", "---\n# a\n---\n", "\ufeff"])
def test_a_file_that_says_nothing_is_a_fault(opened: Opening, folder: Path, text: str) -> None:
    write(folder / "a.yaml", "one")
    files = opened(folder)
    files.changes()
    (folder / "a.yaml").write_text(text)
    assert told(files) == {"a.yaml": "fault: is empty"}
    write(folder / "a.yaml", "one")
    assert told(files) == {"a.yaml": "one"}


def test_a_directory_is_replaced_at_once(opened: Opening, folder: Path) -> None:
    write(folder / "a.yaml", "old")
    files = opened(folder)
    files.changes()
    other = folder.with_name("other")
    other.mkdir()
    write(other / "b.yaml", "new")
    os.rename(folder, folder.with_name("away"))
    os.rename(other, folder)
    assert told(files) == {"a.yaml": "gone", "b.yaml": "new"}
    write(folder / "c.yaml", "later")
    assert told(files) == {"c.yaml": "later"}


def test_a_directory_behind_a_link_changes_with_the_link(opened: Opening, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.yaml", name)
    link = tmp_path / "link"
    link.symlink_to("one")
    files = opened(link)
    assert told(files) == {"a.yaml": "one"}
    (tmp_path / "new").symlink_to("two")
    os.rename(tmp_path / "new", link)
    assert told(files) == {"a.yaml": "two"}
    write(tmp_path / "two" / "a.yaml", "three")
    assert told(files) == {"a.yaml": "three"}


# --- links ------------------------------------------------------------------------------------


def test_a_mounted_configmap_changes_by_one_link(opened: Opening, folder: Path) -> None:
    def version(number: int) -> None:
        inside = folder / f"..{number}"
        inside.mkdir()
        for name in ("a", "b"):
            (inside / f"{name}.yaml").write_text(POD.format(f"{name}{number}"))
        (folder / "..data_tmp").symlink_to(inside.name)
        os.rename(folder / "..data_tmp", folder / "..data")
        if number:
            shutil.rmtree(folder / f"..{number - 1}")

    version(0)
    for name in ("a.yaml", "b.yaml"):
        (folder / name).symlink_to(f"..data/{name}")
    files = opened(folder)
    assert told(files) == {"a.yaml": "a0", "b.yaml": "b0"}
    for number in range(1, 5):
        version(number)
        assert told(files) == {"a.yaml": f"a{number}", "b.yaml": f"b{number}"}
        assert told(files) == {}


def test_what_a_link_leads_to_is_watched(opened: Opening, folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    write(store / "real", "one")
    (folder / "a.yaml").symlink_to(store / "real")
    files = opened(folder)
    assert told(files) == {"a.yaml": "one"}
    write(store / "real", "two")
    assert told(files) == {"a.yaml": "two"}
    (store / "real").unlink()
    assert told(files) == {"a.yaml": "fault: is a dangling link"}
    write(store / "real", "three")
    assert told(files) == {"a.yaml": "three"}
    write(folder / "a.yaml", "four")
    assert told(files) == {"a.yaml": "four"}
    write(store / "real", "five")
    assert told(files) == {}


# --- files, standard input --------------------------------------------------------------------


def test_a_file_that_a_person_names_is_watched(opened: Opening, tmp_path: Path) -> None:
    path, other = tmp_path / "pod.anything", tmp_path / "other.yaml"
    write(path, "one")
    files = opened(path)
    (change,) = files.changes()
    assert (said(change), change.given, change.file) == ("one", True, str(path))
    write(other, "other")
    assert told(files) == {}
    write(path, "two")
    assert told(files) == {path.name: "two"}
    path.unlink()
    assert told(files) == {path.name: "gone"}
    write(path, "three")
    assert told(files) == {path.name: "three"}
    os.chmod(path, 0o666)
    assert told(files) == {path.name: "three"}


def test_a_file_of_the_working_directory_is_watched(
    opened: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.yaml", "one")
    files = opened("a.yaml")
    assert told(files) == {"a.yaml": "one"}
    write(tmp_path / "a.yaml", "two")
    assert told(files) == {"a.yaml": "two"}


def test_a_path_that_is_not_there_is_a_fault(opened: Opening, tmp_path: Path) -> None:
    files = opened(tmp_path / "nothing")
    assert told(files) == {}
    assert [str(fault) for fault in files.faults] == [
        f"{tmp_path}/nothing: does not exist (check the path)"
    ]


def test_standard_input_is_read_once(opened: Opening) -> None:
    files = opened("-", stdin=POD.format("piped").encode())
    assert told(files) == {"stdin": "piped"}
    assert told(files) == {}
    assert rows(files) == []


def test_paths_keep_their_order(opened: Opening, folder: Path, tmp_path: Path) -> None:
    write(folder / "b.yaml", "b")
    write(tmp_path / "a.yaml", "a")
    files = opened(tmp_path / "a.yaml", "-", folder, stdin=POD.format("x").encode())
    assert [change.order[0] for change in files.changes()] == [0, 1, 2]


# --- without inotify, and when it loses events ------------------------------------------------


def limits() -> Sequence[tuple[Callable[[], DirectoryWatch], str]]:
    def none() -> DirectoryWatch:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return [(none, "Too many open files"), (lambda: Heard(full), "No space left on device")]


@pytest.mark.parametrize(("watch", "reason"), limits())
def test_where_nothing_can_be_watched_files_are_polled(
    opened: Opening, folder: Path, watch: Callable[[], DirectoryWatch], reason: str
) -> None:
    time = Time()
    write(folder / "a.yaml", "one")
    files = opened(folder, time=time, watch=watch)
    assert told(files) == {"a.yaml": "one"}
    assert rows(files) == [f"warning manifests: not watched ({reason}): polled every 1 s"]
    write(folder / "a.yaml", "two")
    assert files.descriptors()
    time.now += RESCAN
    assert told(files) == {"a.yaml": "two"}


def test_a_directory_that_may_not_be_read_ends_no_watch_of_others(
    opened: Opening, folder: Path
) -> None:
    """Root reads everything: the kernel's answer to another user is given here."""
    write(folder / "a.yaml", "one")
    heard = Heard(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    files = opened(folder, watch=lambda: heard)
    files.changes()
    assert rows(files) == [], "the limits of inotify are not what is wrong"
    heard.refuses = None
    write(folder / "b.yaml", "two")
    heard.waiting.append(Event("there", str(folder), "b.yaml"))
    assert told(files) == {"b.yaml": "two"}


def test_after_lost_events_everything_is_looked_at(opened: Opening, folder: Path) -> None:
    heard = Heard()
    write(folder / "a.yaml", "one")
    write(folder / "b.yaml", "one")
    files = opened(folder, watch=lambda: heard)
    files.changes()
    write(folder / "a.yaml", "two")
    (folder / "b.yaml").unlink()
    assert told(files) == {}
    heard.waiting.append(Event("lost", "", ""))
    assert told(files) == {"a.yaml": "two", "b.yaml": "gone"}


def test_what_no_event_told_is_found_by_the_next_look(opened: Opening, folder: Path) -> None:
    time = Time()
    files = opened(folder, time=time, watch=Heard)
    files.changes()
    write(folder / "a.yaml", "one")
    assert told(files) == {}
    time.now += RESCAN
    assert told(files) == {"a.yaml": "one"}


# --- races ------------------------------------------------------------------------------------

REPLACER = """
import os, sys
path, count, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
pod = "apiVersion: v1\\nkind: Pod\\nmetadata: {name: n%d}\\nspec: {containers: [{name: c}]}\\n"
for number in range(1, count + 1):
    place = path + ".tmp" if how == "rename" else path
    with open(place, "w") as file:
        for _ in range(40):
            file.write((pod % number) + "---\\n")
            file.flush()
    if how == "rename":
        os.rename(place, path)
"""


@pytest.mark.parametrize("how", ["rename", "write"])
def test_a_file_is_whole_while_it_is_replaced(opened: Opening, folder: Path, how: str) -> None:
    count = 1000 if how == "rename" else 300
    path = folder / "a.yaml"
    path.write_text(POD.format("n0"))
    files = opened(folder)
    files.changes()
    program = [sys.executable, "-c", textwrap.dedent(REPLACER), str(path), str(count), how]
    writer = subprocess.Popen(program)
    seen: list[str] = []
    try:
        while writer.poll() is None or not seen or seen[-1] != f"n{count}":
            for change in files.changes():
                words = said(change).split()
                assert words == [words[0]] * 40, "a file was read in part"
                seen.append(words[0])
            assert writer.poll() in (None, 0)
    finally:
        writer.kill()
        writer.wait()
    numbers = [int(name[1:]) for name in seen]
    assert numbers == sorted(numbers)
    assert seen
    # read whole before it was closed: its closing tells of the same text once more
    assert {word for change in files.changes() for word in said(change).split()} <= {f"n{count}"}
    assert files.changes() == []
    assert rows(files) == []


def test_a_rename_that_is_told_in_two_halves_is_one_change(opened: Opening, folder: Path) -> None:
    heard = Heard()
    write(folder / "a.yaml", "one")
    files = opened(folder, watch=lambda: heard)
    files.changes()
    os.rename(folder / "a.yaml", folder / "b.yaml")
    heard.waiting.append(Event("taken", str(folder), "a.yaml"))
    heard.later.append(Event("there", str(folder), "b.yaml"))
    assert told(files) == {"a.yaml": "gone", "b.yaml": "one"}


NAMES = st.sampled_from(["a.yaml", "b.yaml", "c.yaml", ".hidden", "other"])
DOINGS = st.one_of(
    st.tuples(st.sampled_from(["write", "replace", "remove", "fifo", "folder"]), NAMES, NAMES),
    st.tuples(st.sampled_from(["rename", "link", "bad", "away"]), NAMES, NAMES),
)


def do(folder: Path, what: str, name: str, other: str, number: int) -> None:
    """One thing that a person may do to a directory."""
    path = folder / name
    match what:
        case "write":
            path.write_text(POD.format(f"n{number}"))
        case "bad":
            path.write_text("a: [")
        case "replace":
            write(path, f"n{number}")
        case "remove":
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "rename":
            os.rename(path, folder / other)
        case "link":
            path.symlink_to(other)
        case "away":
            os.rename(folder, folder.with_name(f"away{number}"))
            folder.mkdir()


@settings(max_examples=40)
@given(st.lists(st.lists(DOINGS, min_size=1, max_size=4), max_size=8))
def test_what_is_told_adds_up_to_what_is_there(
    moves: list[list[tuple[str, str, str]]],
) -> None:
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above) / "manifests"
        folder.mkdir()
        files = ManifestFiles([str(folder)], Time())
        known: dict[str, str] = {}
        for number, move in enumerate(moves):
            for what, name, other in move:
                # a FIFO that nobody reads is not written to
                if what in ("write", "bad") and (folder / name).is_fifo():
                    continue
                with suppress(OSError):
                    do(folder, what, name, other, number)
            known |= told(files)
            found = {name: text for name, text in known.items() if text != "gone"}
            if any(fault.message.startswith("is another") for fault in files.faults):
                assert not told(files), "an empty directory took its place: nothing is gone"
                continue
            fresh = ManifestFiles([str(folder)], Time())
            assert found == told(fresh)
            assert files.faults == fresh.faults == []
            fresh.close()
        assert told(files) == {}
        files.close()


def test_fifty_files_at_once_are_one_look(opened: Opening, folder: Path) -> None:
    files = opened(folder)
    files.changes()
    for number in range(50):
        write(folder / f"{number}.yaml", f"n{number}")
    assert len(files.changes()) == 50
    for path in folder.iterdir():
        path.unlink()
    assert set(told(files).values()) == {"gone"}


def test_no_descriptor_is_left_behind(opened: Opening, folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    files = opened(folder)
    for _ in range(20):
        write(folder / "a.yaml", "one")
        os.mkfifo(folder / "b.yaml")
        files.changes()
        (folder / "b.yaml").unlink()
    files.close()
    assert len(os.listdir("/proc/self/fd")) == before
