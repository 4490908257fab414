"""inotify on this machine: what each way of making, changing and removing a file tells."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.host.linux.inotify import Event, Inotify, PollingWatch

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.fixture
def watch() -> Iterator[Inotify]:
    found = Inotify()
    yield found
    found.close()


def told(watch: Inotify) -> list[tuple[str, str]]:
    return [(event.kind, event.name) for event in watch.events()]


def test_a_file_is_there_when_it_is_closed(watch: Inotify, tmp_path: Path) -> None:
    watch.add(str(tmp_path))
    with open(tmp_path / "a", "w") as file:
        assert told(watch) == [("made", "a")]
        file.write("half")
        file.flush()
        assert told(watch) == []
    assert told(watch) == [("there", "a")]


def test_renames_and_removals(watch: Inotify, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    watch.add(str(tmp_path))
    os.rename(tmp_path / "a", tmp_path / "b")
    assert told(watch) == [("taken", "a"), ("there", "b")]
    os.symlink("b", tmp_path / "c")
    os.link(tmp_path / "b", tmp_path / "d")
    assert told(watch) == [("made", "c"), ("made", "d")]
    os.chmod(tmp_path / "b", 0o600)
    os.remove(tmp_path / "b")
    assert told(watch)[-1] == ("taken", "b")


def test_a_directory_tells_its_end_once(watch: Inotify, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    watch.add(str(inside))
    inside.rmdir()
    assert watch.events() == [Event("ended", str(inside), "")]
    assert watch.events() == []
    inside.mkdir()
    watch.add(str(inside))
    (inside / "a").mkdir()
    assert told(watch) == [("made", "a")]


def test_a_directory_that_is_moved_has_ended(watch: Inotify, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    watch.add(str(inside))
    os.rename(inside, tmp_path / "out")
    (tmp_path / "out" / "a").touch()
    assert watch.events() == [Event("ended", str(inside), "")]


def test_two_paths_to_one_directory_both_tell(watch: Inotify, tmp_path: Path) -> None:
    inside, link = tmp_path / "in", tmp_path / "link"
    inside.mkdir()
    link.symlink_to("in")
    watch.add(str(inside))
    watch.add(str(link))
    (inside / "a").mkdir()
    assert watch.events() == [Event("made", str(inside), "a"), Event("made", str(link), "a")]
    watch.drop(str(inside))
    (inside / "b").mkdir()
    assert watch.events() == [Event("made", str(link), "b")]


def test_a_link_that_leads_elsewhere_is_followed_when_added_again(
    watch: Inotify, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to("one")
    watch.add(str(link))
    link.unlink()
    link.symlink_to("two")
    watch.add(str(link))
    (tmp_path / "one" / "a").mkdir()
    (tmp_path / "two" / "b").mkdir()
    assert watch.events() == [Event("made", str(link), "b")]


def test_what_cannot_be_watched_is_an_error(watch: Inotify, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError):
        watch.add(str(tmp_path / "nothing"))
    with pytest.raises(NotADirectoryError):
        watch.add(str(tmp_path / "file"))


def test_more_than_the_queue_holds_is_told_as_lost(watch: Inotify, tmp_path: Path) -> None:
    limit = int(QUEUE.read_text())
    if limit > 100_000:
        pytest.skip(f"the queue holds {limit} events")
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    watch.add(str(tmp_path))
    for _ in range(limit // 2 + 1):
        os.utime(tmp_path / "a")
        os.utime(tmp_path / "b")
    kinds = {event.kind for event in watch.events()}
    assert kinds == {"there", "lost"}


def test_names_of_any_bytes_come_through(watch: Inotify, tmp_path: Path) -> None:
    watch.add(str(tmp_path))
    name = os.fsdecode(b"\xff" + b"x" * 200 + b".yaml")
    os.mkdir(tmp_path / name)
    assert told(watch) == [("made", name)]


def test_the_descriptor_is_readable_when_there_is_something(watch: Inotify, tmp_path: Path) -> None:
    watch.add(str(tmp_path))
    assert select.select(watch.descriptors(), [], [], 0)[0] == []
    (tmp_path / "a").touch()
    assert select.select(watch.descriptors(), [], [], 10)[0] == watch.descriptors()


def test_a_ticking_watch_says_that_anything_may_have_happened() -> None:
    watch = PollingWatch(0.001)
    assert select.select(watch.descriptors(), [], [], 10)[0] == watch.descriptors()
    assert watch.events() == [Event("lost", "", "")]
    watch.close()


def test_a_closed_watch_gives_its_descriptor_back() -> None:
    for make in (Inotify, lambda: PollingWatch(1.0)):
        watch = make()
        (fd,) = watch.descriptors()
        watch.close()
        watch.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
