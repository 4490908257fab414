"""Whether a cgroup waits for memory: looks at its totals to a beginning and an end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qoslet.core.memory.counter_store import CounterStore
from qoslet.core.memory.event_log import MemoryEventLog
from qoslet.core.memory.rows import MemoryEvent, TrackedCgroup
from qoslet.core.memory.sample import MemorySample, Pressure
from qoslet.core.memory.stall_episodes import CALM_SECONDS, StallEpisodes

POD = TrackedCgroup("/q/podu", "pod", "d/a", "u", "d/a")
APP = TrackedCgroup("/q/podu/app", "container", "d/a/app", "u", "d/a", "app")


def looks(
    *waits: tuple[float, float, float], path: str = APP.path, identity: int = 1
) -> list[MemorySample]:
    """The first look at 10, and one after so many seconds with so many of full and of some."""
    at, full, some = 10.0, 3.0, 4.0
    found = []
    for seconds, all_of, one_of in ((0.0, 0.0, 0.0), *waits):
        at, full, some = at + seconds, full + all_of, some + one_of
        psi = Pressure(0.0, round(some * 1e6), 0.0, round(full * 1e6))
        found.append(MemorySample(path, at, identity, 1 << 20, pressure=psi))
    return found


def told(samples: Sequence[MemorySample]) -> list[tuple[float, str]]:
    episodes = StallEpisodes()
    found = [(one.at, episodes.record(one)) for one in samples]
    return [(at, one.kind) for at, one in found if one is not None]


@pytest.mark.parametrize(
    ("waits", "found"),
    [
        # what it waited before anybody looked is no news
        ([(1, 0, 0)], []),
        ([(1, 0.1, 0.1)], [(11, "pressure")]),
        ([(1, 0.09, 0.29)], []),
        ([(1, 0, 0.3)], [(11, "pressure")]),
        ([(60, 5, 5)], []),
        # said once, however long
        ([(1, 0.5, 0.5)] * 9, [(11, "pressure")]),
        # a look that is too short says nothing by itself
        ([(0.1, 0.09, 0.09)], []),
        ([(0.15, 0.1, 0.1)] * 5, [(10.45, "pressure")]),
        # over after a while only
        ([(1, 0.5, 0.5), (1, 0, 0), (1, 0, 0)], [(11, "pressure")]),
        ([(1, 0.5, 0.5), (1, 0, 0), (1, 0.5, 0.5), (2, 0, 0)], [(11, "pressure")]),
        (
            [(1, 0.5, 0.5), *[(1, 0, 0)] * 6],
            [(11, "pressure"), (11 + CALM_SECONDS, "pressure_end")],
        ),
        ([(1, 0.5, 0.5), (30, 0, 0)], [(11, "pressure"), (41, "pressure_end")]),
        (
            [(1, 0.5, 0.5), (30, 0, 0), (1, 0.5, 0.5)],
            [(11, "pressure"), (41, "pressure_end"), (42, "pressure")],
        ),
    ],
)
def test_a_beginning_and_an_end(
    waits: list[tuple[float, float, float]], found: list[tuple[float, str]]
) -> None:
    assert [(round(at, 2), kind) for at, kind in told(looks(*waits))] == found


def test_the_numbers() -> None:
    episodes = StallEpisodes()
    found = [episodes.record(one) for one in looks((1, 0.5, 0.75), (1, 0.25, 0.25), (9, 0, 0.1))]
    begun, _, over = found[1:]
    assert begun is not None
    assert over is not None
    assert begun.why == "all processes waited 50% and some 75% of 1.0 s"
    assert over.why == "in 2.0 s all processes waited 0.8 s and some 1.0 s"


def test_without_pressure_of_groups_nothing_is_said_and_one_made_anew_ends_it() -> None:
    assert StallEpisodes().record(MemorySample(APP.path, 1.0, 1, 1)) is None
    again = looks((1, 0, 0), identity=2)
    assert told([*looks((1, 0.5, 0.5)), again[0]]) == [(11, "pressure"), (10, "pressure_end")]
    # a machine that was started again: its clock and its totals begin anew
    rebooted = [MemorySample(APP.path, at, 1, 1, pressure=Pressure(0, 0, 0, 0)) for at in (1, 5)]
    assert told([*looks((1, 0.5, 0.5)), *rebooted]) == [(11, "pressure"), (1, "pressure_end")]


def run(
    tallies: CounterStore, group: TrackedCgroup, samples: Sequence[MemorySample]
) -> list[MemoryEvent]:
    return [one for sample in samples for one in tallies.record_sample(sample, group, (), 5.0)]


def test_counted_at_every_level_kept_over_the_agent_and_ended_with_the_group() -> None:
    tallies = CounterStore()
    tallies.add([POD, APP])
    events = run(tallies, POD, looks((1, 0.5, 0.5), path=POD.path))
    events += run(tallies, APP, looks((1, 0.5, 0.5)))
    assert [(one.kind, one.path, one.count) for one in events] == [
        ("pressure", POD.path, 1),
        ("pressure", APP.path, 1),
    ]
    assert tallies.under_pressure() == {POD.path, APP.path}
    pod, app = tallies.rows(20.0)
    assert (app.events, app.pressed, app.stalled, app.waited) == ({"pressure": 1}, True, 3.5, 4.5)
    assert pod.events == {"pressure": 1}
    again = CounterStore()
    assert again.load(tallies.dump())
    again.add([POD, APP])
    assert again.under_pressure() == {POD.path, APP.path}
    (over,) = again.remove([APP], 7.0)
    assert (over.kind, over.at, over.title) == ("pressure_end", 7.0, "d/a/app")
    assert again.under_pressure() == {POD.path}
    assert not again.rows(20.0)[-1].pressed


def test_what_is_said_of_a_container_is_not_said_of_its_pod() -> None:
    def waits(group: TrackedCgroup, kind: str) -> MemoryEvent:
        return MemoryEvent(1.0, kind, 1, group.path, group.level, group.title, why="much")  # type: ignore[arg-type]

    lines = MemoryEventLog()
    both = [waits(POD, "pressure"), waits(APP, "pressure")]
    assert lines.lines(both, 0.0) == ["d/a/app: memory pressure started: much"]
    assert lines.lines(both[1:], 1.0) == []
    over = [waits(POD, "pressure_end"), waits(APP, "pressure_end")]
    assert lines.lines(over, 2.0) == ["d/a/app: memory pressure ended: much"]
    assert lines.lines([waits(POD, "pressure")], 3.0) == ["d/a: memory pressure started: much"]
    assert lines.lines([waits(APP, "pressure")], 700.0) == [
        "d/a/app: memory pressure started (2 times): much"
    ]
