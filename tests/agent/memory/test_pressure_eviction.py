"""Memory pressure on a simulated node: who is ended, who is not, what is said, and what comes after."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.api.memory_annotations import GuardMode, MemoryPolicy
from qoslet.core.memory.sample import MemorySample, NodeMemory, Pressure
from qoslet.sim.memory import SimMemory
from tests.agent.memory.pressed import ACT, MIB, TOTAL, Pressed, short, usual


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


def test_a_pod_whose_memory_is_names_of_files_frees_nothing_and_is_spared() -> None:
    bench = Pressed()
    bench.pod("hog", 900, priority=1000)
    bench.pod("backup", 160, kernel=155, slab=155)
    bench.time(3)
    said = short(bench).time(2)
    assert said[0].startswith("evicting d/hog: "), said
    assert bench.keeper.running == {"backup"}


def test_a_heap_that_was_given_back_by_madv_free_frees_nothing_and_is_spared() -> None:
    bench = Pressed()
    bench.pod("hog", 900, priority=1000)
    bench.pod("heap", 160, lazy=155)
    bench.time(3)
    said = short(bench).time(2)
    assert said[0].startswith("evicting d/hog: "), said
    assert bench.keeper.running == {"heap"}


def test_pressure_with_free_memory_ends_nobody() -> None:
    bench = usual(Pressed())
    bench.stall = 0.9
    assert bench.time(60) == []
    assert bench.keeper.running == {"hog", "small", "b", "g"}


@pytest.mark.parametrize("scans", [0, 20_000])
def test_a_container_that_waits_at_its_own_limit_costs_nobody_beside_it(scans: int) -> None:
    """Three quarters of what is wanted can be had, and one pod that opted out waits all the time."""
    bench = usual(Pressed())
    bench.available, bench.stall, bench.scans, bench.takes = 150, 0.9, scans, 0.99
    path = next(one for one in bench.groups("b") if one.endswith("podb"))
    for number in range(60):
        waits = Pressure(90.0, number * 225_000, 90.0, number * 225_000)
        bench.memory.set(path, max=400 * MIB, events={"high": 40 * number}, pressure=waits)
        bench.time(0.25)
    assert bench.keeper.running == {"hog", "small", "b", "g"}, bench.said


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


@pytest.mark.parametrize(("outside", "ended"), [(900, {"hog"}), (0, set())])
def test_files_of_others_in_a_tmpfs_of_the_node_are_not_the_hogs(
    outside: int, ended: set[str]
) -> None:
    """1000 MiB lie in /dev/shm; what of all shared memory no pod is charged for may lie there."""
    bench = Pressed()
    bench.memory.surviving = 1000 * MIB
    bench.memory.machine = replace(bench.memory.machine, shmem=(1000 + outside) * MIB)
    bench.pod("hog", 1003, shmem=1000)
    bench.time(2)
    short(bench).time(2)
    assert {"hog"} - bench.keeper.running == ended


def test_locked_files_end_with_their_pod() -> None:
    """The kernel counts them as page cache, and as nothing that can be had."""
    bench = Pressed()
    bench.pod("hog", 3, cache=1300, locked=1290)
    bench.pod("quiet", 120)
    bench.time(2)
    said = short(bench).time(2)
    assert "evicting d/hog: memory is short on the node: best-effort: uses 1293 MiB" in said[0]
    assert bench.keeper.running == {"quiet"}


def test_page_cache_in_pipes_is_its_holders() -> None:
    """It looks available, and nobody can take it: without a victim a guest of 6.12 stood still."""
    bench = Pressed()
    bench.pod("hog", 3, cache=1300)
    bench.pod("quiet", 120)
    bench.time(12)
    bench.available, bench.free = 1330, 50
    bench.stall, bench.scans, bench.takes = 0.4, 50_000, 0.0
    said = bench.time(4)
    assert "evicting d/hog: memory is short on the node: best-effort: uses 1303 MiB" in said[0]
    assert "page cache was scanned over and over and not taken" in said[0]
    assert bench.keeper.running == {"quiet"}


@pytest.mark.parametrize("after", [0.5, 1.0, 1.5])
def test_nobody_goes_for_a_hog_that_lets_go_while_it_is_looked_at(after: float) -> None:
    bench = Pressed()
    bench.pod("hog", 1300)
    bench.pod("quiet", 120)
    bench.time(12)
    lets_go_at, hog, asked = bench.clock.now + after, bench.groups("hog")[0], [0.0]

    class LetsGo(SimMemory):
        def node(self) -> NodeMemory:
            asked.append(bench.clock.now)
            return super().node()

        def sample(self, path: str) -> MemorySample | None:
            if path == hog and asked[-1] == bench.clock.now >= lets_go_at:
                bench.holds["hog"]["held"], bench.available = 0, 1360
                bench.stall, bench.scans = 0.0, 0
                bench._pass(0.0)
            return super().sample(path)

    bench.memory.__class__ = LetsGo
    short(bench).time(5, 0.5)
    assert bench.keeper.running >= {"quiet"}


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


def test_nobody_goes_while_what_the_machine_has_cannot_be_read() -> None:
    bench = short(usual(Pressed()))
    bench.available = 0
    bench.memory.machine = replace(bench.memory.machine, total=0)
    assert bench.time(15) == []
    assert bench.keeper.running == {"hog", "small", "b", "g"}
    bench.memory.machine = replace(bench.memory.machine, total=TOTAL)
    bench.time(3)
    assert "hog" not in bench.keeper.running


def test_a_pod_that_ended_delays_nobody() -> None:
    """Its cgroup is gone: what is not there is not waited for."""
    bench = usual(Pressed())
    bench.pod("job", 20)
    bench.time(3)
    bench.keeper.end("job")
    bench.time(12)
    assert not bench.groups("job")
    short(bench).time(1.5)
    assert bench.keeper.running == {"small", "b", "g"}
