"""What a stall that goes on costs the guard: turns and samples."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.memory.sample import Pressure
from tests.agent.memory.test_throttle_guard import Throttled


class Cost:
    """Turns of a loop that sleeps as long as it may, and samples that they read."""

    def __init__(self, bench: Throttled, stuck: str, seconds: float) -> None:
        self.turns = self.samples = 0
        until, met = bench.clock.now + seconds, 0
        while bench.clock.now < until:
            at = bench.reconciler.next_at()
            bench.clock.now += 1.0 if at is None else min(1.0, max(0.01, at - bench.clock.now))
            met += 100
            waited = int(bench.clock.now * 9e5)
            bench.memory.set(stuck, local={"high": met}, events={"high": met})
            pressure = Pressure(90.0, waited, 10.0, waited // 10)
            bench.memory.machine = replace(bench.memory.machine, pressure=pressure)
            bench.memory.fired.add("")
            bench.turn()
            self.turns += 1
            self.samples += len(bench.memory.looked)
            bench.memory.looked.clear()


@pytest.mark.parametrize("own", ["off", "observe", "act"])
def test_a_group_that_goes_on_waiting_costs_little(own: Any) -> None:
    bench = Throttled()
    bench.available = 8000
    for number in range(30):
        bench.holds(bench.pod(f"quiet{number}"), 50)
    path = bench.pod("hog", guard=own)
    bench.stalls(path)
    bench.time(4)
    bench.memory.looked.clear()
    cost = Cost(bench, path, 30)
    assert cost.turns <= 30 * 2.5, "twice a second"
    assert cost.samples <= 30 * 2.5 * 6 + 6 * 70, "its own, those above it, all now and then"


def test_a_container_that_ended_while_it_was_watched_costs_nothing() -> None:
    bench = Throttled()
    path = bench.pod("hog", restart="Never")
    bench.stalls(path)
    assert bench.time(4), "it was answered"
    bench.pushing.clear()
    bench.keeper.end("hog", code=137)
    bench.turn()
    for group in sorted(bench.groups("hog"), key=len, reverse=True):
        if group.startswith(path):
            bench.kernel.rmdir(group)
    bench.time(8)
    turns, until = 0, bench.clock.now + 10
    while bench.clock.now < until:
        at = bench.reconciler.next_at()
        bench.clock.now += 1.0 if at is None else min(1.0, max(0.01, at - bench.clock.now))
        bench.turn()
        turns += 1
    assert turns <= 30
    assert bench.reconciler.memory.policies[0].rows() == []
