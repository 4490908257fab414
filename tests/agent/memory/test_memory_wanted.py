"""A stalled container for which the node has no memory, beside a pod that comes before it."""

from __future__ import annotations

import pytest

from qoslet.core.pressure.guard_mode import Mode
from tests.agent.fixtures import pod_of, resources, spec_of
from tests.agent.memory.test_throttle_guard import MIB, Throttled


class Crowded(Throttled):
    """A node of which hogs have all but 110 MiB: more than its eviction threshold, and quiet."""

    def beside(self, name: str, held: int, request: str = "") -> None:
        pod = pod_of(name, resources(request, ""))
        self.source.put(pod, spec_of(pod))
        self.turn()
        for path in self.groups(name):
            self.holds(path, held)

    def stalled(self, **more: str) -> str:
        self.available = 110
        path = self.pod("app", high=200 * MIB, limit="memory=600Mi", **more)
        for group in self.groups("app"):
            self.holds(group, 205)
        self.pushing.add(path)
        return path

    def answers(self, seconds: float) -> list[str]:
        before = len(self.said)
        self.time(seconds)
        words = ("guard: ", "evicting ", "no victim", "would evict")
        return [line.partition(" (")[0] for line in self.said[before:] if line.startswith(words)]


def test_who_comes_before_it_is_evicted_and_it_is_not_killed() -> None:
    bench = Crowded()
    bench.beside("hog", 1300)
    path = bench.stalled()
    said = bench.answers(2)
    assert [line.partition(":")[0] for line in said] == ["evicting d/hog"], said
    assert "d/app stalled at memory.high and cannot be given 16 MiB" in said[0]
    bench.available = 1400
    said = bench.answers(3)
    assert any("removed memory.high of d/app/app" in line for line in said)
    assert bench.high(path) == "max"
    assert not any(call[0] == "restart" for call in bench.keeper.calls)


def test_it_does_not_wait_for_one_that_ends_until_the_guard_kills_the_container() -> None:
    bench = Crowded()
    bench.beside("hog", 900)
    bench.beside("leaving", 400)
    bench.keeper.slow.add("leaving")
    bench.source.drop("leaving")
    bench.stalled()
    said = bench.answers(2)
    assert said[0].startswith("evicting d/hog: "), said
    bench.available = 1400
    bench.time(3)
    assert not any(call[0] == "restart" for call in bench.keeper.calls)


@pytest.mark.parametrize(
    ("held", "asked"), [(40, ""), (300, "memory=400Mi"), (150, "memory=100Mi")]
)
def test_nobody_who_comes_after_it_is_evicted_for_it(held: int, asked: str) -> None:
    bench = Crowded()
    bench.beside("other", held, asked)
    bench.stalled()
    said = bench.answers(5)
    assert not any("evicting d/other" in line for line in said), said
    assert any("killed container d/app/app" in line for line in said)


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_one_that_is_not_acted_on_ends_nobody(mode: Mode) -> None:
    bench = Crowded()
    bench.beside("hog", 1300)
    bench.stalled(guard=mode)
    assert not any("evicting" in line for line in bench.answers(5))
