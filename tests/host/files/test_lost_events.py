"""Where nothing can be watched, events are lost, or files change in any order."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.host.files.watched_manifests import RESCAN, ManifestFiles
from qoslet.host.linux.inotify import DirectoryWatch, Event
from tests.host.files.followed import (
    POD,
    Heard,
    Opening,
    Time,
    folder,
    opened,
    rows,
    said,
    told,
    write,
)

__all__ = ["folder", "opened"]


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
