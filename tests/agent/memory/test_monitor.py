"""The agent's room for memory on a simulated kernel: who is looked at when, what is counted."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.agent.memory.monitor import LIMIT_POLL_SECONDS, VIEW_SECONDS
from qoslet.core.memory.events import OomKill
from qoslet.core.memory.sample import Pressure
from tests.agent.memory.monitored import MIB, Counted
from tests.agent.memory.monitored import bench as bench


def test_nobody_is_looked_at_while_nothing_happens(bench: Counted) -> None:
    for _ in range(20):
        bench.turn(1.0)
    assert bench.quiet
    assert bench.reconciler.snapshot().memory_view.events == ()


def test_a_group_that_wakes_us_is_counted_at_every_level(bench: Counted) -> None:
    app = bench.app("a")
    bench.happen(app, "oom_kill", 1)
    bench.memory.log.append(OomKill(31, "hog", app, app, 64 * MIB))
    bench.turn(1.0)
    view = bench.reconciler.snapshot().memory_view
    [event] = view.events
    assert (event.kind, event.title, event.process, event.pid) == ("oom_kill", "d/a/app", "hog", 31)
    assert event.at == 1e9 + bench.clock.now
    for row in view.groups:
        mine = f"{app}/".startswith(f"{row.path}/")
        assert row.events == ({"oom_kill": 1} if mine else {}), row.path
    assert "d/a/app: the kernel OOM-killed process 31 (hog): 64 MiB, at its limit" in bench.said


def test_what_a_surface_sees_first_is_told_at_once_and_once(bench: Counted) -> None:
    app = bench.app("a")
    bench.clock.now += VIEW_SECONDS
    bench.happen(app, "oom_kill", 1)
    bench.memory.log.append(OomKill(31, "hog", app, app, 64 * MIB))
    [event] = bench.reconciler.snapshot().memory_view.events
    assert event.process == "hog"
    assert (bench.reconciler.next_at() or 0) <= bench.clock.now
    for _ in range(3):
        bench.turn(0.1)
    line = "d/a/app: the kernel OOM-killed process 31 (hog): 64 MiB, at its limit"
    assert bench.said.count(line) == 1
    assert (bench.reconciler.next_at() or 0) > bench.clock.now


def test_what_could_not_be_read_for_a_moment_is_not_counted_again(bench: Counted) -> None:
    app = bench.app("a")
    bench.happen(app, "oom_kill", 2, current=30 * MIB)
    bench.memory.fired.update(bench.groups("a"))
    bench.turn(1.0)
    read = bench.memory.sample
    bench.memory.sample = lambda path: None  # type: ignore[method-assign]
    bench.memory.fired.update(bench.groups("a"))
    bench.turn(1.0)
    assert not bench.row("d/a/app").gone
    bench.memory.sample = read  # type: ignore[method-assign]
    bench.memory.fired.update(bench.groups("a"))
    bench.turn(1.0)
    assert bench.row("d/a/app").events == {"oom_kill": 2}


def test_a_kill_that_the_log_does_not_tell_is_of_an_unknown_process(bench: Counted) -> None:
    bench.happen(bench.app("a"), "oom_kill", 2)
    bench.turn(1.0)
    assert not any("OOM-killed" in line for line in bench.said)
    at = bench.reconciler.memory.next_at()
    assert at is not None
    bench.turn(at - bench.clock.now)
    assert bench.said[-1] == "d/a/app: the kernel OOM-killed 2 processes"
    [event] = bench.reconciler.snapshot().memory_view.events
    assert (event.process, event.pid, event.count) == ("", 0, 2)


def test_without_the_kernel_s_log_nobody_waits_for_a_name(bench: Counted) -> None:
    bench.memory.readable = False
    bench.happen(bench.app("a"), "oom_kill", 1)
    bench.turn(1.0)
    assert bench.said[-1] == "d/a/app: the kernel OOM-killed a process"
    assert "cannot read the kernel log" in bench.reconciler.snapshot().memory_view.how[-1]


def test_a_group_that_is_throttled_without_end_is_looked_at_once_a_second(bench: Counted) -> None:
    app = bench.app("a")
    bench.memory.descriptors = lambda: [7]  # type: ignore[method-assign]
    assert bench.reconciler.memory.descriptors() == [7]
    looks = []
    for tick in range(100):
        bench.happen(app, "high", 10 * (tick + 1), current=MIB * 70, high=MIB * 70)
        before = len(bench.looked)
        bench.turn(0.1)
        looks.append(app in bench.looked[before:])
        assert not bench.reconciler.memory.descriptors(), "it would wake us all the time"
        assert bench.reconciler.memory.next_at() is not None
    assert sum(looks) <= 10 / LIMIT_POLL_SECONDS + 1
    assert bench.row("d/a/app").events["high"] >= 900
    assert sum("throttled" in line for line in bench.said) == 1
    bench.memory.set(app, current=MIB, high=MIB * 70)
    for _ in range(4):
        bench.turn(1.0)
    assert bench.quiet, "nothing happens any more"
    assert bench.reconciler.memory.descriptors() == [7]


def test_pressure_of_the_machine_looks_at_everybody(bench: Counted) -> None:
    bench.memory.fired.add("")
    bench.memory.set(bench.app("b"), pressure=Pressure(9.0, 10, 5.0, 4_000_000))
    bench.turn(1.0)
    groups = bench.reconciler.memory.groups.groups
    assert groups.keys() <= set(bench.looked)
    assert bench.row("d/b/app").stalled == 4.0
    bench.looked.clear()
    bench.turn(1.0)
    assert bench.app("b") in bench.looked, "it still waits for memory"


def test_a_group_that_waits_is_said_once_and_so_is_its_end(bench: Counted) -> None:
    app, waited = bench.app("b"), 0.0
    for tick in range(40):
        share = 0.5 if tick < 10 else 0.0
        waited += share * 1e6
        psi = Pressure(50 * share, int(waited), 50 * share, int(waited))
        for path in (app, app.rpartition("/")[0]):
            bench.memory.set(path, pressure=psi)
        if share:
            bench.memory.fired.add("")
        else:
            bench.memory.machine = replace(bench.memory.machine, stolen=1)
        bench.turn(1.0)
    assert bench.quiet, "nobody is polled for it"
    said = [line for line in bench.said if "memory pressure" in line]
    assert [line.partition(": all")[0].partition(": in")[0] for line in said] == [
        "d/b/app: memory pressure started",
        "d/b/app: memory pressure ended",
    ], said
    row = bench.row("d/b/app")
    assert (row.events, row.stalled, row.waited) == ({"pressure": 1, "pressure_end": 1}, 5.0, 5.0)
    events = bench.reconciler.snapshot().memory_view.events
    assert [(one.kind, one.level) for one in events] == [
        ("pressure", "pod"),
        ("pressure", "container"),
        ("pressure_end", "pod"),
        ("pressure_end", "container"),
    ]


def test_counters_are_kept_after_a_pod_and_by_the_next_agent(bench: Counted) -> None:
    app = bench.app("a")
    bench.happen(app, "high", 7)
    bench.turn(1.0)
    bench.source.drop("a")
    for _ in range(4):
        bench.turn(1.0)
    assert bench.groups("a") == []
    row = bench.row("d/a/app")
    assert (row.events, row.gone) == ({"high": 7}, True)
    bench.reconciler.memory.close()
    bench.begin()
    bench.turn(1.0)
    row = bench.row("d/a/app")
    assert (row.events, row.gone) == ({"high": 7}, True)
    assert bench.row("d/b/app").gone is False
    bench.memory.kept.text = b"nonsense"
    bench.begin()
    bench.turn(1.0)
    assert "cannot read the memory counters of the previous agent; counting from zero" in bench.said


def test_a_kill_right_before_a_pod_s_end_is_not_lost(bench: Counted) -> None:
    app = bench.app("a")
    bench.happen(app, "high", 1)
    bench.turn(1.0)
    bench.happen(app, "oom_kill", 1)
    bench.memory.log.append(OomKill(31, "hog", app, app))
    bench.source.drop("a")
    bench.turn(0.1)
    bench.turn(0.1)
    assert bench.groups("a") == []
    assert bench.row("d/a/app").events["oom_kill"] == 1


def test_a_pod_that_ends_is_looked_at_when_its_groups_go(bench: Counted) -> None:
    mine = {one for one in bench.groups("a") if "pod" in one}
    bench.keeper.slow.add("a")
    bench.source.drop("a")
    bench.turn(0.1)
    bench.memory.woken = frozenset  # type: ignore[method-assign]
    bench.looked.clear()
    for _ in range(3):
        bench.turn(0.1)
    assert mine.isdisjoint(bench.looked), "its container runs: the groups stay"
    bench.keeper.end("a", code=143)
    bench.turn(0.1)
    assert mine & set(bench.looked)
    assert bench.groups("a") == []


def test_v1_counts_a_container_s_kills_for_those_above() -> None:
    bench = Counted("v1")
    bench.put("a", "memory=64Mi")
    bench.turn()
    bench.turn(1.0)
    app = bench.app("a")
    bench.memory.set(app, local={"oom_kill": 1, "max": 3})
    bench.memory.fired.add("")
    bench.turn(1.0)
    bench.turn(1.0)
    for title in ("d/a/app", "d/a", "burstable", "kubepods"):
        assert bench.row(title).events == {"oom_kill": 1, "max": 3}


def test_a_kill_in_a_group_that_went_before_anybody_looked(bench: Counted) -> None:
    app = bench.app("a")
    pod = app.rpartition("/")[0]
    at = pod
    while at:
        bench.memory.set(at, events={"oom_kill": 2})
        at = at.rpartition("/")[0]
    bench.memory.log.append(OomKill(31, "hog", f"/outer{app}/deep", pod))
    bench.turn(1.0)
    bench.turn(1.0)
    view = bench.reconciler.snapshot().memory_view
    assert [(one.title, one.container, one.process, one.count) for one in view.events] == [
        ("d/a/app", "app", "hog", 1),
        ("d/a", "", "", 1),
    ]
    assert bench.row("d/a/app").events == {"oom_kill": 1}
    assert bench.row("d/a").events == {"oom_kill": 2}
    bench.memory.fired.add("")
    bench.turn(2.0)
    assert len(bench.reconciler.snapshot().memory_view.events) == 2, "each is told once"


def test_v1_wakes_before_it_counts_and_the_pod_goes_at_once() -> None:
    bench = Counted("v1")
    bench.put("a", "memory=64Mi", restart="Never")
    bench.turn()
    bench.turn(5.0)
    app = bench.app("a")
    bench.memory.fired.add("")
    bench.turn(0.1)
    bench.memory.set(app, local={"oom_kill": 1})
    bench.memory.woken = frozenset  # type: ignore[method-assign]
    bench.keeper.end("a", code=137)
    bench.turn(0.1)
    bench.turn(0.1)
    assert bench.groups("a") == []
    assert bench.row("d/a/app").events == {"oom_kill": 1}
