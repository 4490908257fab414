"""A container's process that another process moved out of its cgroup."""

from __future__ import annotations

from tests.agent.fixtures import Bench

MOVED = "d/a/app: process {} was moved out of /q/kubepods/burstable/poda/app: "


def moved(bench: Bench) -> list[str]:
    return [note for note in bench.turn(60.0).notes if "was moved out" in note]


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
