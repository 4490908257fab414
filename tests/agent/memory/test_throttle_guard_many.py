"""Many stalls at memory.high at once on a machine on which each look takes its time, and a trickle."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.memory.sample import MemorySample
from tests.agent.memory.test_throttle_guard import HIGH, MIB, Read, Throttled


class SlowRead(Read):
    """Each look at a group takes ``seconds``."""

    clock: Any = None
    seconds = 0.0

    def sample(self, path: str) -> MemorySample | None:
        if self.clock is not None and not self.telling:
            self.clock.now += self.seconds
        return super().sample(path)


class SlowThrottled(Throttled):
    """A machine on which each look at a group takes its time."""

    reads = SlowRead


@pytest.mark.parametrize("doubtful", [False, True])
def test_ten_stalls_are_answered_as_soon_as_one_on_a_slow_machine(doubtful: bool) -> None:
    waited = {}
    for count in (1, 10):
        bench = SlowThrottled()
        bench.available, bench.cold.refuses = 8000, True
        paths = [bench.pod(f"p{number}") for number in range(count)]
        for path in paths:
            bench.holds(path, 250 if not doubtful else 200, cache=50 if doubtful else 0)
            bench.pushing.add(path)
        assert isinstance(bench.memory, SlowRead)
        bench.memory.clock, bench.memory.seconds = bench.clock, 0.03
        begun, answered = bench.clock.now, dict[str, float]()
        while len(answered) < count and bench.clock.now < begun + 20:
            bench.time(0.05, 0.05)
            for path in paths:
                if bench.high(path) == "max":
                    answered.setdefault(path, bench.clock.now - begun)
        waited[count] = answered
    assert len(waited[10]) == 10
    assert max(waited[10].values()) <= 3.0
    assert max(waited[10].values()) - max(waited[1].values()) <= 1.2, "what reading them takes"
    assert max(waited[10].values()) - min(waited[10].values()) <= 0.6, (
        "one does not wait for another"
    )


def test_a_load_that_trickles_over_its_memory_high_once_does_not_lose_it() -> None:
    bench = Throttled()
    path = bench.pod("trickle")
    for amount in (241, 242, 243, 244):
        bench.stalls(path, amount)
        bench.time(2)
    assert bench.high(path) == "max"
    bench.pushing.clear()
    bench.holds(path, 232)
    assert bench.time(110) == []
    (said,) = bench.time(20)
    assert (
        "restored the planned memory.high of d/trickle/app: usage below memory.high for 12" in said
    )
    assert bench.high(path) == str(HIGH)


def urgent(bench: Throttled) -> bool:
    """Whether the agent thinks that somebody may stand still."""
    return bench.reconciler.memory.urgent


@pytest.mark.parametrize("own", ["act", "observe", "off"])
def test_a_stall_that_may_be_acted_on_is_urgent(own: Any) -> None:
    bench = Throttled()
    path = bench.pod("hog", guard=own)
    bench.time(2)
    assert not urgent(bench)
    bench.stalls(path, 250)
    bench.time(0.5)
    assert urgent(bench) == (own == "act")
    bench.time(2)
    assert (bench.high(path) == "max") == (own == "act")
    bench.pushing.clear()
    bench.holds(path, 100)
    bench.time(10)
    assert not urgent(bench)


@pytest.mark.parametrize(
    ("node", "own", "first"), [("act", None, True), ("observe", None, False), ("off", "act", True)]
)
def test_the_loop_goes_before_others_until_memory_was_looked_at(
    node: Any, own: Any, first: bool
) -> None:
    bench = Throttled(node)
    bench.pod("web", guard=own)
    bench.time(1)
    bench.hurries.clear()
    bench.turn()
    assert bench.hurries == [False, first], "what else a sync does has no hurry"


def test_a_reader_at_its_memory_high_is_no_hurry_for_long() -> None:
    bench = Throttled()
    path = bench.pod("reader")
    bench.holds(path, 50, cache=195)
    bench.pushing.add(path)
    bench.stolen[path] = 20_000
    bench.time(2)
    assert urgent(bench)
    bench.time(10)
    assert not urgent(bench)
    assert bench.reconciler.memory.policies[0].rows()[0].what == "reclaiming"


def test_a_container_that_may_be_reclaimable_is_not_killed_soon() -> None:
    bench = Throttled(reclaim=False)
    path = bench.pod("hog", limit="", high=200 * MIB)
    bench.available = 100
    bench.holds(path, 150, cache=55)
    bench.pushing.add(path)
    (said,) = bench.time(5)
    assert "no memory to grant, 0.0 MiB free; 55.0 MiB look reclaimable, waiting " in said
    (said,) = bench.time(8)
    assert "killed container d/" in said


def test_another_reason_to_do_nothing_is_said_at_once_and_the_same_one_not_again() -> None:
    bench = Throttled(reclaim=False)
    path = bench.pod("hog", limit="", high=200 * MIB)
    bench.available = 100
    said = []
    for dirty in (0, 50, 0, 50):
        bench.pushing.add(path)
        bench.holds(path, 150, cache=55)
        stat = {"anon": 150 * MIB, "inactive_file": 55 * MIB, "file_dirty": dirty * MIB}
        bench.memory.set(path, stat=stat)
        said += bench.time(2)
    reasons = [line.partition("; ")[2].partition(", waiting")[0] for line in said]
    assert reasons == [
        "55.0 MiB look reclaimable",
        "50.0 MiB of its files wait to be written to a disk",
    ], said
