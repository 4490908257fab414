"""Memory pressure at a limit below the node: of a QoS cgroup, of a pod; protected page cache."""

from __future__ import annotations

import pytest

from qoslet.core.memory.sample import Pressure
from tests.agent.fixtures import ROOT
from tests.agent.memory.pressed import MIB, Pressed


def test_a_tier_at_its_limit_takes_one_below_it_and_nobody_beside_it() -> None:
    bench = Pressed()
    bench.pod("hog", 1300)
    bench.pod("leak", 700, "cpu=100m memory=100Mi")
    bench.pod("b", 50, "cpu=100m memory=100Mi")
    bench.time(3)
    tier = next(path for path in bench.groups() if path.endswith("/burstable"))
    for number in range(12):
        bench.memory.fired.add(tier)
        bench.memory.set(
            tier,
            current=760 * MIB,
            max=762 * MIB,
            local={"max": 40 * number},
            pressure=Pressure(80.0, number * 200_000, 80.0, number * 200_000),
        )
        bench.stall = 0.5
        bench.time(0.25)
    assert bench.keeper.running == {"hog", "b"}
    assert any(f"evicting d/leak: memory is short on {tier}: " in line for line in bench.said)


def out_of_memory(bench: Pressed, tier: str, kills: int, used: int = 195) -> None:
    """The kernel kills in a tier for its own limit."""
    bench.memory.set(
        tier, current=used * MIB, max=200 * MIB, local={"max": 90 * kills, "oom": kills}
    )


def test_a_tier_that_is_out_of_memory_again_and_again_ends_the_pod_that_held_most() -> None:
    bench = Pressed()
    bench.pod("hog", 150, "cpu=100m memory=20Mi")
    bench.pod("second", 40, "cpu=100m memory=20Mi")
    bench.pod("quiet", 10, "cpu=100m memory=20Mi")
    bench.pod("beside", 300)
    bench.time(3)
    tier = next(path for path in bench.groups() if path.endswith("/burstable"))
    out_of_memory(bench, tier, 0)
    bench.memory.fired.add(tier)
    bench.time(1)
    out_of_memory(bench, tier, 1)
    assert bench.time(3) == [], "what the kernel killed may be enough"
    bench.holds["hog"]["held"] = 0
    out_of_memory(bench, tier, 2, used=50)
    said = bench.time(3)
    assert bench.keeper.running == {"second", "quiet", "beside"}
    assert any(f"evicting d/hog: memory is short on {tier}: burstable" in s for s in said)
    assert any("out of memory 2 times in " in line for line in said)
    bench.time(60)
    assert sum(line.startswith("evicting d/") for line in bench.said) == 1, "one decision"


def test_a_tier_of_which_the_first_thing_seen_is_that_it_was_out_of_memory_has_two_tries() -> None:
    bench = Pressed()
    bench.pod("hog", 150, "cpu=100m memory=20Mi")
    bench.pod("quiet", 10, "cpu=100m memory=20Mi")
    tier = f"{ROOT}/kubepods/burstable"
    out_of_memory(bench, tier, 0)
    bench.turn()
    for kills in (1, 2):
        assert bench.keeper.running == {"hog", "quiet"}
        out_of_memory(bench, tier, kills)
        bench.time(20)
    assert bench.keeper.running == {"quiet"}
    assert any("out of memory 2 times in " in line for line in bench.said)


def killing(bench: Pressed, *pods: tuple[str, int]) -> str:
    """A tier with these pods that was out of memory once, and is out of memory again now."""
    for name, held in pods:
        bench.pod(name, held, "cpu=100m memory=20Mi")
    bench.time(3)
    tier = next(path for path in bench.groups() if path.endswith("/burstable"))
    out_of_memory(bench, tier, 0)
    bench.memory.fired.add(tier)
    bench.time(1)
    out_of_memory(bench, tier, 1)
    bench.time(3)
    return tier


def test_what_a_pod_held_long_before_a_tier_was_out_of_memory_is_not_held_against_it() -> None:
    bench = Pressed()
    bench.pod("batch", 600, "cpu=100m memory=20Mi")
    bench.time(3)
    bench.memory.fired.update(bench.groups("batch"))
    bench.time(2)
    bench.holds["batch"]["held"] = 30
    bench.time(60)
    tier = killing(bench, ("hog", 150))
    out_of_memory(bench, tier, 2)
    bench.time(3)
    assert bench.keeper.running == {"batch"}, bench.said


def test_nobody_else_goes_for_kills_in_a_tier_whose_hog_ends_already() -> None:
    bench = Pressed()
    tier = killing(bench, ("hog", 150), ("quiet", 40))
    bench.keeper.slow.add("hog")
    bench.source.drop("hog")
    bench.time(0.5)
    out_of_memory(bench, tier, 2, used=50)
    bench.time(8)
    assert "quiet" in bench.keeper.running, bench.said


def test_kills_of_a_while_ago_are_no_reason_to_end_who_keeps_below_its_request() -> None:
    bench = Pressed()
    bench.pod("quiet", 40, "cpu=100m memory=100Mi")
    tier = killing(bench)
    out_of_memory(bench, tier, 2)
    bench.time(40)
    assert bench.keeper.running == {"quiet"}, bench.said
    assert any("candidates are below their request" in line for line in bench.said)


@pytest.mark.parametrize(("cache", "ended"), [(0, True), (40, False)])
def test_a_pod_stuck_at_its_own_limit_has_time_and_one_with_page_cache_all_of_it(
    cache: int, ended: bool
) -> None:
    bench = Pressed()
    bench.pod("other", 1300)
    bench.pod("stuck", 255 - cache, "cpu=100m memory=256Mi", "cpu=1 memory=256Mi", cache=cache)
    bench.time(3)
    path = next(one for one in bench.groups("stuck") if one.endswith("podstuck"))
    begun = bench.clock.now
    for number in range(240):
        waits = Pressure(90.0, number * 240_000, 90.0, number * 240_000)
        bench.memory.fired.add(path)
        bench.memory.set(path, max=256 * MIB, local={"max": 40 * number}, pressure=waits)
        bench.stall = 0.5
        bench.time(0.25)
        if "stuck" not in bench.keeper.running:
            break
    assert ("stuck" not in bench.keeper.running) == ended
    assert "other" in bench.keeper.running
    if ended:
        assert bench.clock.now - begun >= 10.0
        assert any("it has been at its own limit for" in line for line in bench.said)


@pytest.mark.parametrize(
    ("what", "ended"), [("", True), ("kill", False), ("swap", False), ("computes", False)]
)
def test_a_pod_whose_processes_may_not_be_killed_has_ten_seconds_since_it_last_got_on(
    what: str, ended: bool
) -> None:
    """Tries stop for 0.75 s of each 1.5; what gets on does so every seven seconds."""
    bench = Pressed()
    bench.pod("other", 1300)
    bench.pod("stuck", 255, "cpu=100m memory=256Mi", "cpu=1 memory=256Mi")
    bench.time(3)
    path = next(one for one in bench.groups("stuck") if one.endswith("podstuck"))
    begun, outs, times = bench.clock.now, 0, 0
    for number in range(120):
        outs += 9 if number % 6 < 3 else 0
        times += number % 28 == 27
        bench.memory.fired.add(path)
        bench.memory.set(
            path,
            max=256 * MIB,
            events={"oom": outs, "oom_kill": times if what == "kill" else 0},
            swap=20 * times * MIB if what == "swap" else 0,
            user_usec=900_000 * times if what == "computes" else 0,
        )
        bench.stall = 0.15
        bench.time(0.25)
        if "stuck" not in bench.keeper.running:
            break
    assert bench.keeper.running == ({"other"} if ended else {"other", "stuck"}), bench.said
    assert not ended or 10.0 <= bench.clock.now - begun <= 12.5


def test_page_cache_that_is_protected_does_not_count_as_memory_to_be_had() -> None:
    for low in (0, 600):
        bench = Pressed()
        bench.pod("hog", 1000)
        bench.pod("b", 50, "cpu=100m memory=600Mi", cache=500)
        bench.time(2)
        bench.kernel.write(ROOT, "memory.low", str(low * MIB))
        bench.kernel.members(ROOT, below=True)[0].memory = 1550 * MIB
        for path in [*bench.groups("b"), f"{ROOT}/kubepods", f"{ROOT}/kubepods/burstable"]:
            bench.memory.set(path, low=low * MIB, current=550 * MIB)
        bench.available, bench.stall, bench.scans = 520, 0.4, 20_000
        bench.time(3)
        assert ("hog" in bench.keeper.running) == (low == 0), bench.said


@pytest.mark.parametrize(("file", "ended"), [("low", False), ("min", True)])
def test_soft_protection_ends_nobody_while_hardly_anybody_waits(file: str, ended: bool) -> None:
    """480 of 520 MiB that can be had are page cache below the request of a burstable pod."""
    bench = Pressed()
    bench.pod("hog", 1000)
    bench.pod("b", 50, "cpu=100m memory=600Mi", cache=480)
    bench.time(2)
    bench.kernel.write(ROOT, f"memory.{file}", str(600 * MIB))
    bench.kernel.members(ROOT, below=True)[0].memory = 1530 * MIB
    for path in [*bench.groups("b"), f"{ROOT}/kubepods", f"{ROOT}/kubepods/burstable"]:
        bench.memory.set(path, **{file: 600 * MIB}, current=530 * MIB)
    bench.available, bench.stall = 520, 0.06
    bench.memory.fired.add("")
    bench.time(20)
    assert ("hog" not in bench.keeper.running) == ended, bench.said


@pytest.mark.parametrize(("cache", "least"), [(50, 2.0), (1290, 0.0)])
def test_protection_that_holds_no_page_cache_is_no_reason_to_look_closely(
    cache: int, least: float
) -> None:
    bench = Pressed()
    bench.pod("b", 100, "cpu=100m memory=1200Mi", cache=cache)
    bench.time(3)
    bench.kernel.write(ROOT, "memory.low", str(1400 * MIB))
    bench.kernel.members(ROOT, below=True)[0].memory = 1400 * MIB
    for path in [*bench.groups("b"), f"{ROOT}/kubepods", f"{ROOT}/kubepods/burstable"]:
        bench.memory.set(path, low=1400 * MIB, current=(100 + cache) * MIB)
    bench.memory.fired.add("")
    bench.time(20)
    watcher = bench.reconciler.memory.policies[-1]
    looks, at = 0, None
    for _ in range(40):
        bench.time(0.25)
        looks, at = looks + (watcher.next_at() != at), watcher.next_at()
    assert watcher.watching() == frozenset()
    assert (looks <= 10 / least) if least else (looks >= 18), looks
