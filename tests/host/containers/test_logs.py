"""Logs on disk and their readers: bounds, what a full disk does, parts, runs, lines."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.workload.cri_log import LONGEST, MISSING, path_of
from qoslet.core.workload.life import Life, Phase
from qoslet.host.containers.log_files import (
    ContainerLogs,
    LogFile,
    LogLimits,
    Pipes,
    remove_tree,
    stamp,
)
from qoslet.host.containers.log_reader import LogFollower, LogRun, Tail, log_locations
from qoslet.host.containers.records import PodRecord, ProcessRecords
from tests.agent.fixtures import pod_of, spec_of

AT = b"2016-10-06T00:17:09.669794202Z"


def entry(text: str, stream: str = "stdout", tag: str = "F") -> bytes:
    return AT + f" {stream} {tag} {text}\n".encode()


def texts(path: Path) -> list[str]:
    return [one.text.decode() for one in Tail(str(path)).more()]


def test_time_has_nine_digits_in_utc() -> None:
    assert stamp(1475713029669794202) == AT
    assert stamp(1475713029000000001) == b"2016-10-06T00:17:09.000000001Z"


def test_a_log_is_begun_anew_when_it_is_full_and_the_oldest_part_goes(tmp_path: Path) -> None:
    notes: list[str] = []
    log = LogFile(str(tmp_path / "pod" / "app" / "0.log"), LogLimits(1000, 3), notes.append)
    for first in range(0, 100, 10):
        log.write(b"".join(entry(f"{n:02}") for n in range(first, first + 10)))
    log.close()
    folder = tmp_path / "pod" / "app"
    parts = sorted(folder.iterdir())
    assert [part.name.split(".2")[0] for part in parts] == ["0.log"] * 3
    assert all(part.stat().st_size <= 1000 for part in parts)
    assert (
        texts(folder / "0.log") == [f"{n:02}" for n in range(100)][-len(texts(folder / "0.log")) :]
    )
    assert len(texts(folder / "0.log")) > 40
    assert notes == []


def test_a_log_that_somebody_removes_begins_again_where_readers_look(tmp_path: Path) -> None:
    target, notes = tmp_path / "var", list[str]()
    target.mkdir()
    (tmp_path / "logs").symlink_to(target)
    path = tmp_path / "logs" / "pod" / "app" / "0.log"
    log = LogFile(str(path), LogLimits(), notes.append)
    log.write(entry("before"))
    shutil.rmtree(target)
    log.write(entry("after"))
    log.write(entry("more"))
    log.close()
    assert texts(path) == ["after", "more"]
    assert notes == [f"{path}: the log was removed: it begins again"]


def test_an_entry_that_is_longer_than_the_log_is_kept_whole(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "0.log"), LogLimits(100, 2), pytest.fail)
    log.write(entry("x" * 500) + entry("y"))
    log.close()
    assert texts(tmp_path / "0.log") == ["x" * 500, "y"]


@pytest.fixture
def small_files() -> Iterator[int]:
    """No file of this process may grow beyond 300 bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    yield soft
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_what_cannot_be_written_is_said_and_the_rest_goes_on(
    tmp_path: Path, small_files: int
) -> None:
    notes: set[str] = set()
    log = LogFile(str(tmp_path / "0.log"), LogLimits(), notes.add)
    for number in range(20):
        log.write(entry(f"{number:02} {'x' * 40}"))
    assert len(notes) <= 2
    assert all("logs are lost" in note for note in notes)
    assert notes
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (small_files, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    )
    log.write(entry("after"))
    log.close()
    found = texts(tmp_path / "0.log")
    assert found[-1] == "after"
    assert [text[:2] for text in found[:-1]] == ["00", "01", "02"], "no torn line is an entry"


def test_pipes_keep_both_streams_apart_and_survive_their_reader(tmp_path: Path) -> None:
    path = str(tmp_path / "logs" / "app" / "0.log")
    one = Pipes(str(tmp_path), "app", LogFile(path, LogLimits(), pytest.fail))
    out, err = one.make((os.geteuid(), os.getegid()))
    os.write(out, b"one\ntwo")
    os.write(err, b"wrong\n")
    one.leave(drain=False)
    os.write(out, b" halves\nlast")
    two = Pipes(str(tmp_path), "app", LogFile(path, LogLimits(), pytest.fail))
    two.take_up()
    for stream in two.streams:
        assert stream.take() >= 0
        assert stream.take() == -1, "nothing now"
    os.close(out)
    os.close(err)
    assert [stream.take() for stream in two.streams] == [-2, -2], "nothing any more"
    two.close()
    found = sorted((e.stream, e.partial, e.text) for e in Tail(path).more())
    assert found == [
        (b"stderr", False, b"wrong"),
        (b"stdout", False, b"one"),
        (b"stdout", False, b"two halves"),
        (b"stdout", True, b"last"),
    ]
    assert os.listdir(tmp_path) == ["logs"], "the pipes are gone"


def test_a_writer_never_meets_a_broken_pipe(tmp_path: Path) -> None:
    one = Pipes(str(tmp_path), "app", LogFile(str(tmp_path / "0.log"), LogLimits(), pytest.fail))
    out, err = one.make((os.geteuid(), os.getegid()))
    one.leave()
    assert os.write(out, b"x") == 1
    os.close(out)
    os.close(err)


def test_only_the_last_run_and_the_one_before_stay(tmp_path: Path) -> None:
    logs = ContainerLogs(str(tmp_path))
    for run in range(12):
        log = logs.file(logs.path("d/p", "u", "app", run), pytest.fail)
        log.write(entry(str(run)))
        log.close()
        (tmp_path / "d_p_u" / "app" / f"{run}.log.20200101-000000").touch()
    names = sorted(os.listdir(tmp_path / "d_p_u" / "app"))
    assert names == sorted([f"{n}.log{e}" for n in (10, 11) for e in ("", ".20200101-000000")])
    (place,) = log_locations(str(tmp_path))
    assert (place.namespace, place.pod, place.uid, place.container) == ("d", "p", "u", "app")
    assert place.runs() == [10, 11]
    logs.drop("d/p", "u")
    assert os.listdir(tmp_path) == []


def test_fresh_lines_come_once_whole_and_over_parts_and_runs(tmp_path: Path) -> None:
    logs = ContainerLogs(str(tmp_path), LogLimits(400, 9))
    fresh = LogFollower(str(tmp_path))
    log = logs.file(logs.path("d/p", "u", "app", 0), pytest.fail)
    log.write(entry("one") + entry("ha", tag="P"))
    log.write(entry("wrong", "stderr"))
    assert list(fresh.lines()) == [("p/app", "one"), ("p/app", "wrong")]
    log.write(entry("lf"))
    assert list(fresh.lines()) == [("p/app", "half")]
    assert list(fresh.lines()) == []
    for number in range(8):
        log.write(entry(str(number)))
        assert list(fresh.lines()) == [("p/app", str(number))]
    log.write(entry("late"))
    log.close()
    second = logs.file(logs.path("d/p", "u", "app", 1), pytest.fail)
    second.write(entry("again"))
    assert list(fresh.lines()) == [("p/app", "late"), ("p/app", "again")]
    second.write(entry("end"))
    second.close()
    remove_tree(str(tmp_path / "d_p_u"))
    assert list(fresh.lines()) == [("p/app", "end")], "what is removed is read to its end"
    assert list(fresh.lines()) == []


def test_what_is_no_entry_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"\xff\n" + entry("a") + b"\n\0\n" + entry("b")[:-5] + b"\n" + entry("c") + AT)
    assert [one.text for one in Tail(str(path)).more()] == [b"a", b"c"]
    assert texts(tmp_path / "absent.log") == []


def test_a_log_that_is_begun_anew_often_between_two_looks_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "d_p_u" / "app" / "0.log"
    notes: list[str] = []
    log = LogFile(str(path), LogLimits(200, 5), notes.append)
    log.write(entry("00"))
    tail, follower = Tail(str(path)), LogFollower(str(tmp_path))
    read = [one.text for one in tail.more()] + [line.encode() for _, line in follower.lines()]
    assert read == [b"00", b"00"]
    for number in range(1, 13):
        log.write(entry(f"{number:02}"))
    wanted = [f"{number:02}" for number in range(1, 13)]
    assert [one.text.decode() for one in tail.more()] == wanted
    assert [line for _, line in follower.lines()] == wanted
    assert tail.gaps == 0
    for number in range(60):
        log.write(entry(f"{number:02}"))
    said = [line for _, line in follower.lines()]
    assert (said[-1], said.count(said[-1])) == (f"({MISSING})", 1)
    assert [one.text.decode() for one in tail.more()] == said[:-1]
    assert said[-2] == "59"
    assert tail.gaps == 1
    assert list(follower.lines()) == []
    log.close()
    tail.close()
    assert notes == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(entry("secret"))
    (tmp_path / "0.log").symlink_to("secret")
    assert texts(tmp_path / "0.log") == []
    notes: list[str] = []
    LogFile(str(tmp_path / "0.log"), LogLimits(), notes.append).write(entry("x"))
    assert len(notes) == 1
    assert (tmp_path / "secret").read_bytes() == entry("secret")


def test_a_pipe_is_taken_in_bounded_pieces(tmp_path: Path) -> None:
    one = Pipes(str(tmp_path), "app", LogFile(str(tmp_path / "0.log"), LogLimits(), pytest.fail))
    out, err = one.make((os.geteuid(), os.getegid()))
    os.set_blocking(out, False)
    filled = os.write(out, b"y\n" * LONGEST * 4)
    assert 0 < one.streams[0].take() < filled * 40
    os.close(out)
    os.close(err)
    one.close()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_place_of_a_log_has_no_entries(
    tmp_path: Path, make: Callable[[str], None]
) -> None:
    make(str(tmp_path / "0.log"))
    assert texts(tmp_path / "0.log") == []


@pytest.mark.parametrize("uid", ["1", "u" * 253], ids=["short", "long"])
@pytest.mark.parametrize("phase", ["running", "ended"])
def test_a_run_is_over_when_its_container_is(tmp_path: Path, uid: str, phase: Phase) -> None:
    spec = replace(spec_of(pod_of("web")), uid=uid)
    (tmp_path / "keeper").mkdir(mode=0o700)
    records = ProcessRecords(str(tmp_path / "keeper"), "b1")
    records.save(PodRecord(1, "b1", spec, "d", {"app": "/q/app"}, {"app": Life(phase)}))
    (tmp_path / "logs" / path_of("d/web", uid) / "app").mkdir(parents=True)
    (place,) = log_locations(str(tmp_path / "logs"))
    assert LogRun(place, 0, records.folder).over() == (phase == "ended")
