"""Memory pressure on a simulated node: who is ended, who is not, what is said, and what comes after."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.ports import MemoryParts
from qoslet.agent.reconciler import Reconciler
from qoslet.core.api.memory_annotations import GuardMode, MemoryPolicy
from qoslet.core.memory.sample import Pressure
from qoslet.core.workload.lifecycle import Backoff
from qoslet.sim.memory import SimMemory
from tests.agent.fixtures import ROOT, Bench, pod_of, resources, spec_of

MIB = 1 << 20
TOTAL = 2048 * MIB
ACT = Config(root=ROOT, interval_seconds=None, guard="act")


class Pressed(Bench):
    """A node of 2 GiB whose pods hold what they are told; ``stall`` is the share of time for
    which everything waits from then on, ``scans`` pages a second."""

    def __init__(self, config: Config = ACT, *, psi: bool = True) -> None:
        self.psi = psi
        self.holds: dict[str, dict[str, int]] = {}
        self.available = 1500
        self.stall = 0.0
        self.scans = 0
        self._waited = self._scanned = 0.0
        super().__init__("v2", config=config)

    def begin(self) -> None:
        self.memory = SimMemory(self.kernel, self.clock.monotonic, TOTAL)
        self.reconciler = Reconciler(
            self.config,
            self.driver,
            self.kernel,
            self.keeper,
            self.disk,
            self.clock,
            self.kernel,
            memory=MemoryParts(self.memory, self.memory, self.memory),
        )

    def pod(self, name: str, held: int, request: str = "", limit: str = "", **more: Any) -> None:
        """A pod that holds so many MiB, of which ``cache`` are page cache, ``shmem`` lie in a
        tmpfs and ``kernel`` is kept by the kernel."""
        stat = {key: more.pop(key, 0) for key in ("cache", "shmem", "kernel")}
        pod = replace(pod_of(name, resources(request, limit)), **more)
        self.source.put(pod, spec_of(pod))
        self.holds[name] = {"held": held, **stat}

    def time(self, seconds: float, step: float = 0.25) -> list[str]:
        """Let time pass; what was said of memory meanwhile."""
        before = len(self.said)
        for _ in range(round(seconds / step)):
            self.clock.now += step
            self._pass(step)
            self.turn()
        words = ("memory is short", "evicted", "removed", "still exists")
        return [line for line in self.said[before:] if any(word in line for word in words)]

    def _pass(self, seconds: float) -> None:
        """What happens in the kernel."""
        self._waited += self.stall * seconds * 1e6
        self._scanned += self.scans * seconds
        waited = Pressure(self.stall * 100, int(self._waited), self.stall * 100, int(self._waited))
        had = self.available * MIB
        self.memory.machine = replace(
            self.memory.machine,
            available=had,
            free=had,
            pressure=waited if self.psi else None,
            scanned=int(self._scanned),
            stolen=int(self._scanned / 10),
        )
        if self.stall >= 0.1 and self.psi:
            self.memory.fired.add("")
        for name, parts in self.holds.items():
            for path in self.groups(name):
                self.memory.set(path, **_sample(parts))

    def frees(self, name: str) -> None:
        """The pod's end ends the pressure."""
        self.available += self.holds.pop(name)["held"]
        self.stall, self.scans = 0.0, 0


def _sample(parts: dict[str, int]) -> dict[str, Any]:
    held, cache, shmem = (parts[key] * MIB for key in ("held", "cache", "shmem"))
    stat = {
        "anon": held - shmem - parts.get("kernel", 0) * MIB,
        "file": cache + shmem,
        "shmem": shmem,
    }
    return {"current": held + cache, "stat": stat}


def usual(bench: Pressed) -> Pressed:
    """A best-effort hog beside a burstable and a guaranteed pod with page cache."""
    bench.pod("hog", 1300)
    bench.pod("small", 20)
    bench.pod("b", 100, "cpu=100m memory=200Mi", cache=150)
    bench.pod("g", 100, "cpu=100m memory=200Mi", "cpu=100m memory=200Mi", cache=90)
    bench.time(3)
    assert bench.keeper.running == {"hog", "small", "b", "g"}
    return bench


def short(bench: Pressed) -> Pressed:
    """From now on the node is short of memory."""
    bench.available, bench.stall, bench.scans = 60, 0.4, 20_000
    return bench


@pytest.mark.parametrize("psi", [True, False])
def test_the_hog_is_ended_within_two_seconds_and_nobody_else(psi: bool) -> None:
    bench = short(usual(Pressed(psi=psi)))
    said = bench.time(2)
    assert "hog" not in bench.keeper.running
    assert ("stop", "hog", 0.0) in bench.keeper.calls
    assert said[0].startswith(
        "evicting d/hog: memory is short on the node: best-effort: uses 1300 MiB, "
        "request 0 MiB, protected 0 MiB, 1300 MiB above, priority 0; evicting it frees 1300 MiB of "
        "145 MiB missing; "
    ), said
    assert "60 MiB available of 205 MiB wanted" in said[0]
    bench.frees("hog")
    said = bench.time(20)
    assert bench.keeper.running == {"small", "b", "g"}
    row = bench.rows["hog"]
    assert (row.phase, row.reason) == ("Failed", "Evicted")
    assert row.message.startswith("the node was low on memory: best-effort: uses 1300 MiB")
    assert not bench.groups("hog")


def test_what_was_freed_is_measured() -> None:
    bench = short(usual(Pressed()))
    while "hog" in bench.keeper.running:
        bench.time(0.25)
    bench.frees("hog")
    (said,) = bench.time(2)
    assert said.startswith("d/hog was removed 0."), said
    assert said.endswith("1300 MiB expected, 1300 MiB freed, 1360 MiB available")


def test_pressure_that_goes_on_takes_one_at_a_time_and_spares_those_under_their_request() -> None:
    bench = short(usual(Pressed()))
    order = []
    for _ in range(200):
        before = set(bench.keeper.running)
        bench.time(0.25)
        gone = before - bench.keeper.running
        assert len(gone) <= 1
        order += [(one, bench.clock.now) for one in gone]
    names = [name for name, _ in order]
    assert names[0] == "hog"
    assert names[1] == "small"
    assert order[1][1] - order[0][1] >= 2.0, "what the first freed is waited for"
    assert names[2:] == ["b", "g"], "they are under their request: last of all, and not soon"
    assert order[2][1] - order[1][1] >= 10.0


def test_a_pod_begins_anew_after_its_back_off_once_memory_is_there() -> None:
    config = replace(ACT, eviction_backoff=Backoff(first=20.0, longest=60.0, reset_after=300.0))
    bench = short(usual(Pressed(config)))
    bench.time(2)
    bench.frees("hog")
    bench.time(15)
    assert "hog" not in bench.keeper.running
    said = bench.time(10)
    assert "hog" in bench.keeper.running
    assert any("was evicted 20 s ago; restarting it" in line for line in said)
    assert bench.rows["hog"].reason == ""
    bench.holds["hog"] = {"held": 1300, "cache": 0, "shmem": 0}
    short(bench).time(2)
    assert "hog" not in bench.keeper.running
    bench.frees("hog")
    bench.time(30)
    assert "hog" not in bench.keeper.running, "twice as long the second time"
    bench.time(15)
    assert "hog" in bench.keeper.running


def test_where_it_never_restarts_it_stays_failed() -> None:
    config = replace(ACT, eviction_backoff=Backoff(first=5.0, longest=60.0, reset_after=300.0))
    bench = Pressed(config)
    pod = pod_of("hog", resources())
    bench.source.put(pod, spec_of(pod, restart="Never"))
    bench.holds["hog"] = {"held": 1300, "cache": 0, "shmem": 0}
    bench.time(3)
    short(bench).time(2)
    bench.frees("hog")
    bench.time(60)
    assert bench.keeper.running == set()
    assert bench.rows["hog"].phase == "Failed"


def test_pressure_with_free_memory_ends_nobody() -> None:
    bench = usual(Pressed())
    bench.stall = 0.9
    assert bench.time(60) == []
    assert bench.keeper.running == {"hog", "small", "b", "g"}


def test_observed_only_it_is_said_and_nobody_is_ended() -> None:
    bench = short(usual(Pressed(replace(ACT, guard="observe"))))
    said = bench.time(20)
    assert bench.keeper.running == {"hog", "small", "b", "g"}
    assert len(said) == 1, "the same is not said again and again"
    assert "would evict d/hog (observe only): memory is short on the node: best-effort" in said[0]
    (row,) = bench.reconciler.memory.policies[-1].rows()
    assert (row.path, row.who, row.what) == ("", "pressure", "would end")


@pytest.mark.parametrize(
    ("node", "own", "ended"),
    [
        ("off", "act", {"hog"}),
        ("off", None, set()),
        ("observe", "act", {"hog"}),
        ("act", "observe", set()),
        ("act", "off", {"small"}),
    ],
)
def test_the_pods_own_word_counts(node: Any, own: Any, ended: set[str]) -> None:
    bench = Pressed(replace(ACT, guard=node))
    bench.pod("hog", 1300, memory=MemoryPolicy(guard=own))
    bench.pod("small", 100)
    bench.time(2)
    short(bench).time(3)
    assert {"hog", "small"} - bench.keeper.running == ended


def test_nobody_is_ended_whose_end_frees_nothing() -> None:
    bench = Pressed()
    bench.pod("cached", 2, cache=800)
    bench.pod("shared", 400, shmem=398)
    bench.pod("critical", 500, critical=True)
    bench.memory.surviving = 398 * MIB
    bench.time(2)
    said = short(bench).time(20)
    assert bench.keeper.running == {"cached", "shared", "critical"}
    assert (
        "no victim: memory is short on the node: none of 3 pods can be evicted: 1 critical, 2 that would free "
        in (said[0])
    )


def test_shared_memory_that_no_mount_keeps_ends_with_its_pod() -> None:
    bench = Pressed()
    bench.memory.surviving = 30 * MIB
    bench.pod("hog", 1500, shmem=1497)
    for number in range(5):
        bench.pod(f"small{number}", 20 + number)
        bench.pod(f"b{number}", 40, "cpu=100m memory=30Mi")
    bench.time(2)
    said = short(bench).time(2)
    assert "evicting d/hog: memory is short on the node: best-effort: uses 1500 MiB" in said[0]
    assert "evicting it frees 1470 MiB of 145 MiB missing" in said[0]
    bench.frees("hog")
    bench.time(20)
    assert len(bench.keeper.running) == 10, "nobody else"


def test_nobody_is_chosen_while_a_pod_was_not_looked_at() -> None:
    bench = Pressed()
    bench.pod("hog", 1300, "cpu=100m memory=10Mi")
    bench.pod("other", 200)
    bench.time(12)
    policy = bench.reconciler.memory.policies[-1]
    now = bench.clock.now
    paths = {name: bench.groups(name)[0] for name in ("hog", "other")}
    bench.available = 60
    for step in range(6):
        bench.stall, bench.scans = 0.4, 20_000
        bench.clock.now = now + (step + 1) / 4
        bench._pass(0.25)
        node = bench.memory.node()
        sample = bench.memory.sample(paths["other"])
        assert sample is not None
        policy.consider({paths["other"]: sample}, node, bench.clock.now)
    assert bench.keeper.running == {"hog", "other"}, "the hog was not seen"
    bench.time(2)
    assert bench.keeper.running == {"other"}


def test_kernel_memory_ends_with_its_pod_even_if_nothing_waits_for_memory() -> None:
    bench = Pressed()
    bench.pod("hog", 1300, kernel=1290)
    bench.pod("small", 20)
    bench.time(2)
    bench.available = 34
    assert bench.time(8) == []
    said = bench.time(4)
    assert "evicting d/hog: memory is short on the node: best-effort" in said[0]
    assert bench.keeper.running == {"small"}


def test_what_a_pod_held_is_measured_when_its_volumes_are_gone() -> None:
    bench = Pressed()
    bench.pod("hog", 1400, shmem=1382)
    bench.pod("small", 100)
    bench.time(2)
    bench.disk.held.add("hog")
    short(bench).time(5)
    assert bench.keeper.running == {"small"}, "the second is not considered before"
    bench.disk.held.clear()
    bench.frees("hog")
    said = bench.time(4)
    assert any("1400 MiB expected, 1400 MiB freed" in line for line in said), said
    assert bench.keeper.running == {"small"}


def test_a_pod_that_does_not_end_holds_up_others_for_a_while_only() -> None:
    bench = usual(Pressed())
    bench.keeper.stuck.add("hog")
    said = short(bench).time(9)
    assert bench.keeper.running == {"hog", "small", "b", "g"}
    assert any("d/hog has been stopping for" in line for line in said)
    said = bench.time(5)
    assert "small" not in bench.keeper.running
    assert any(
        "d/hog still exists 10 s after its eviction and holds 1300 MiB" in one for one in said
    )


def test_an_end_that_the_runtime_refuses_is_asked_for_again_as_it_was() -> None:
    bench = usual(Pressed())
    bench.keeper.deaf.add("hog")
    short(bench).time(2)
    assert "hog" in bench.keeper.running
    bench.keeper.deaf.clear()
    bench.stall, bench.scans, bench.available = 0.0, 0, 1000
    bench.time(5)
    assert "hog" not in bench.keeper.running, "it was decided"
    asked = [call for call in bench.keeper.calls if call[:2] == ("stop", "hog")]
    assert len(asked) >= 2
    assert set(asked) == {("stop", "hog", 0.0)}


@pytest.mark.parametrize("edited", [True, False])
def test_a_victim_on_its_way_down_does_not_keep_the_loop_awake(edited: bool) -> None:
    config = replace(ACT, eviction_backoff=Backoff(first=5.0, longest=60.0, reset_after=300.0))
    bench = usual(Pressed(config))
    bench.keeper.stuck.add("hog")
    short(bench).time(2)
    if edited:
        pod = pod_of("hog", resources())
        bench.source.put(pod, spec_of(pod, command="other"))
        bench.keeper.stuck.clear()
        bench.keeper.end("hog", code=137)
    bench.frees("hog")
    bench.time(8)
    assert ("hog" in bench.keeper.running) == (edited or "hog" in bench.keeper.stuck)
    at = bench.reconciler.next_at()
    assert at is None or at > bench.clock.now


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


def test_an_agent_that_sees_nothing_looks_at_nothing_but_the_node() -> None:
    bench = usual(Pressed())
    bench.time(10)
    watcher = bench.reconciler.memory.policies[-1]
    assert watcher.watching() == frozenset()
    later = watcher.next_at()
    assert later is not None
    assert later - bench.clock.now <= 1295 / 512, "it may be filled by then"
    bench.available = 100_000
    bench.time(10)
    later = watcher.next_at()
    assert later is not None
    assert later - bench.clock.now > 15.0


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


def test_it_looks_at_the_node_as_long_as_a_pod_wants_it() -> None:
    bench = Pressed(replace(ACT, guard="off"))
    eviction = bench.reconciler.memory.policies[1]

    def looks(own: GuardMode | None) -> bool:
        bench.pod("own", 10, memory=MemoryPolicy(guard=own))
        bench.time(1)
        return eviction.next_at() is not None

    bench.pod("other", 10)
    modes: tuple[GuardMode | None, ...] = (None, "act", "off", "observe")
    assert [looks(own) for own in modes] == [False, True, False, True]
    bench.source.drop("own")
    bench.time(3)
    assert eviction.next_at() is None
