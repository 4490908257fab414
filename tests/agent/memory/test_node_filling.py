"""Who is ended where a node fills before a verdict, or has no memory for a stalled container."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.pressure.guard_mode import Mode
from tests.agent.fixtures import pod_of, resources, spec_of
from tests.agent.memory.pressed import Pressed, short
from tests.agent.memory.test_throttle_guard import MIB, Throttled


def filling(bench: Pressed, *names: str, until: int, rate: int = 130) -> list[str]:
    """These pods take so many MiB a second each until so many are available; what was said."""
    said, step = [], rate // 4
    while bench.available - step * len(names) >= until and set(names) <= bench.keeper.running:
        for name in names:
            bench.holds[name]["held"] += step
            bench.available -= step
        said += bench.time(0.25)
    return said


def prepared() -> Pressed:
    """A quiet pod that holds most beside one that will grow."""
    bench = Pressed()
    bench.pod("quiet", 900)
    bench.pod("hog", 100)
    bench.pod("b", 100, "cpu=100m memory=200Mi")
    bench.available = 800
    bench.time(12)
    return bench


def test_who_fills_the_node_is_ended_before_it_is_full() -> None:
    bench = prepared()
    said = filling(bench, "hog", until=0)
    assert bench.keeper.running == {"quiet", "b"}
    assert bench.available >= 50, "half a second before"
    assert said[0].startswith("evicting d/hog: memory is short on the node: best-effort: uses "), (
        said
    )
    assert "MiB/s less: nothing is left in 0." in said[0]


@pytest.mark.parametrize("left", [100, 104, 150])
def test_nobody_is_ended_where_it_stops_in_time(left: int) -> None:
    bench = prepared()
    assert filling(bench, "hog", until=left) == []
    assert bench.time(60) == []
    assert bench.keeper.running == {"quiet", "hog", "b"}


@pytest.mark.parametrize(("may_swap", "left"), [(0, {"quiet", "b"}), (700, {"quiet", "hog", "b"})])
def test_swap_that_a_pod_may_not_use_is_no_room_for_it(may_swap: int, left: set[str]) -> None:
    bench = prepared()
    swap = {"swap_total": 900 * MIB, "swap_free": 800 * MIB}
    bench.memory.machine = replace(bench.memory.machine, **swap)
    for path in bench.groups("hog"):
        is_pod = path.endswith("/podhog")
        bench.memory.set(path, swap=0, swap_max=900 * MIB if is_pod else may_swap * MIB)
    filling(bench, "hog", until=0)
    assert bench.keeper.running == left


@pytest.mark.parametrize("rate", [130, 8])
def test_who_fills_the_node_is_ended_though_its_files_outlive_it(rate: int) -> None:
    """Quiet pods would only make room for what it puts into a tmpfs of the node."""
    bench = Pressed()
    bench.pod("quiet", 120)
    bench.pod("hog", 200, shmem=198)
    bench.available = 800 if rate > 100 else 120
    bench.memory.surviving = 1000 * MIB
    bench.time(12)
    bench.scans, bench.stall = (0, 0.0) if rate > 100 else (20_000, 0.4)
    said = []
    while bench.keeper.running == {"quiet", "hog"} and bench.available > 0:
        bench.holds["hog"]["held"] += rate // 4
        bench.holds["hog"]["shmem"] += rate // 4
        bench.available -= rate // 4
        said += bench.time(0.25)
    assert bench.keeper.running == {"quiet"}, said


def test_several_that_fill_it_are_ended_one_after_the_other() -> None:
    """What the first freed is used at once: the next one is not waited with."""
    bench = prepared()
    bench.pod("other", 100)
    bench.time(12)
    filling(bench, "hog", "other", until=0)
    (first,) = {"hog", "other"} - bench.keeper.running
    (second,) = {"hog", "other"} - {first}
    bench.frees(first)
    filling(bench, second, until=0)
    assert bench.keeper.running == {"quiet", "b"}
    assert bench.available >= 30


def test_what_fills_it_outside_of_pods_is_left_to_the_verdict() -> None:
    bench = prepared()
    said = []
    while bench.available >= 34:
        bench.available -= 34
        bench.holds["hog"]["held"] += 2
        said += bench.time(0.25)
    assert said == []
    assert bench.keeper.running == {"quiet", "hog", "b"}
    short(bench).time(2)
    assert bench.keeper.running == {"hog", "b"}, "the order of a verdict"


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
