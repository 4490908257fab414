"""A container's process that another process moved out of its cgroup."""

from __future__ import annotations

from tests.agent.fixtures import Bench

MOVED = "d/a/app: process {} was moved out of /q/kubepods/burstable/poda/app: "


def moved(bench: Bench) -> list[str]:
    return [note for note in bench.turn(60.0).notes if "was moved out" in note]


def bench_without_process() -> tuple[Bench, int]:
    """A pod whose process is outside of its cgroup, and its ID."""
    bench = Bench()
    bench.put("a")
    bench.turn()
    pid = bench.keeper.kept["a"].pids["app"]
    assert pid is not None
    bench.kernel.attach("/", pid)
    return bench, pid


def test_it_is_told_once_where_it_stays_away() -> None:
    bench = Bench()
    bench.put("a")
    bench.put("b")
    bench.turn()
    assert moved(bench) == []
    pid = bench.keeper.kept["a"].pids["app"]
    assert pid is not None
    bench.kernel.attach("/", pid)
    assert moved(bench) == [], "it may have started between two looks"
    (note,) = moved(bench)
    assert note.startswith(MOVED.format(pid))
    assert moved(bench) == []
    bench.kernel.attach("/q/kubepods/burstable/poda/app", pid)
    assert moved(bench) == []
    bench.kernel.attach("/q", pid)
    assert moved(bench) == []
    assert len(moved(bench)) == 1, "again"


def test_one_that_ended_and_was_not_collected_was_not_moved() -> None:
    """As while its keeper is stopped: the kernel takes what ended out of its cgroup."""
    bench, pid = bench_without_process()
    bench.kernel.end(pid, 3)
    assert [moved(bench) for _ in range(3)] == [[], [], []]


def test_one_that_has_not_joined_its_cgroup_yet_was_not_moved() -> None:
    """On a busy machine a start takes longer than two looks at everything."""
    bench, _ = bench_without_process()
    bench.keeper.starting = {"a"}
    assert [moved(bench) for _ in range(3)] == [[], [], []]
    bench.keeper.starting = set()
    assert [len(moved(bench)) for _ in range(4)] == [0, 0, 1, 0]
