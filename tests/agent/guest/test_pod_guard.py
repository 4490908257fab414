"""The guard over a kubelet's pods: it raises and reports, and ends a container only where asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.api.memory_annotations import MemoryPolicy
from qoslet.core.api.pod import Pod
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.node.cluster.pod_eviction import EvictionOutcome
from tests.agent.guest.beside import (
    GUARD,
    KUBEPODS,
    MIB,
    PROTECT,
    Beside,
    Kubelet,
    Source,
    kubelet_pod,
    texts,
)
from tests.agent.world import World

APP = f"{KUBEPODS}/burstable/podhog/hogapp"
HIGH = str(243 * MIB + 204 * 1024)


class Stalled:
    """A node whose pod hangs at its memory.high; ``available`` MiB of the node can be had."""

    def __init__(
        self, folder: Path, policy: GuestPolicy, pod: Pod | None = None, available: int = 1500
    ) -> None:
        self.pod = pod or kubelet_pod("hog", "memory=128Mi")
        self.available = available
        self.world = World("v2")
        Kubelet(self.world).run(self.pod)
        self.before = texts(self.world)
        self.pid = self.world.kernel.spawn(APP)
        source = Source([self.pod])
        source.policy = policy
        self.beside = Beside(self.world, folder, source)
        self.beside.memory.machine = replace(self.beside.memory.machine, scanned=0, stolen=0)
        self.met = 0

    def time(self, seconds: float, held: int = 250) -> list[str]:
        """Let time pass; what the guard said meanwhile."""
        before, memory = len(self.beside.said), self.beside.memory
        for _ in range(round(seconds * 4)):
            self.met += 100
            stat = {"anon": held * MIB, "inactive_anon": held * MIB, "file": 0}
            memory.set(APP, current=held * MIB, stat=stat, usage_usec=0)
            if held >= 243:
                memory.set(APP, local={"high": self.met}, events={"high": self.met})
            had = self.available * MIB
            memory.machine = replace(memory.machine, available=had, free=had)
            self.beside.sync(0.25)
        return [line for line in self.beside.said[before:] if line.startswith("guard: ")]

    def is_urgent(self) -> bool:
        return self.beside.guard.urgent

    @property
    def high(self) -> str:
        return self.world.kernel.read(APP, "memory.high")

    @property
    def alive(self) -> bool:
        return self.world.kernel.processes[self.pid].exit_code is None


def test_a_stalled_container_gets_room_and_gives_it_back(tmp_path: Path) -> None:
    node = Stalled(tmp_path, GUARD)
    [said] = node.time(4)
    assert said.startswith("guard: removed memory.high of d/hog/app: stalled at memory.high")
    assert node.high == "max"
    [override] = node.beside.status.guard.held
    assert (override.path, str(override.planned)) == (APP, HIGH)
    assert node.beside.status.contested == (), "what the guard raised is no reset"
    [restored] = node.time(60, held=100)
    assert restored.startswith("guard: restored the planned memory.high of d/hog/app")
    assert node.high == HIGH
    assert node.beside.agent.release() == []
    assert texts(node.world) == node.before


def test_a_pod_of_another_namespace_is_left_alone(tmp_path: Path) -> None:
    policy = replace(GUARD, ends="container", namespaces=frozenset({"shop"}))
    node = Stalled(tmp_path, policy, available=10)
    assert node.time(30) == []
    assert node.alive
    assert texts(node.world)[APP] == node.before[APP]


def test_looks_at_everything_wait_for_a_stall(tmp_path: Path) -> None:
    node = Stalled(tmp_path, GUARD)
    node.time(11, held=100)
    node.time(0.25)
    assert node.is_urgent()
    audits = len(node.beside.auditor.plans)
    node.world.kernel.write(APP, "memory.low", "4096")
    node.beside.auditor.woken = True
    node.time(0.5)
    assert len(node.beside.auditor.plans) == audits
    assert node.world.kernel.read(APP, "memory.low") == "4096"
    node.time(12)
    assert not node.is_urgent()
    assert len(node.beside.auditor.plans) > audits
    assert node.world.kernel.read(APP, "memory.low") == str(128 * MIB)


def test_a_slow_kubelet_is_not_asked_while_a_container_may_stall(tmp_path: Path) -> None:
    node = Stalled(tmp_path, GUARD)
    source, agent = node.beside.source, node.beside.agent
    node.time(11, held=100)
    node.time(0.25)
    assert node.is_urgent()
    reads, source.policy = source.reads, replace(GUARD, ends="container")
    node.time(1)
    assert source.reads == reads
    assert agent.view is not None
    assert agent.view.policy == source.policy, "the policy asks nobody"
    node.time(20, held=100)
    assert not node.is_urgent()
    assert source.reads > reads


def test_what_was_raised_is_given_back_from_any_moment(tmp_path: Path) -> None:
    node = Stalled(tmp_path, GUARD)
    node.time(4)
    node.beside.leave()
    after = Beside(node.world, tmp_path, node.beside.source)
    assert after.released().refusals == ()
    assert texts(node.world) == node.before


def test_protect_only_says_what_a_guard_would_do(tmp_path: Path) -> None:
    node = Stalled(tmp_path, PROTECT)
    [said] = node.time(10)
    assert "would remove memory.high of d/hog/app" in said
    assert node.high == HIGH


def test_no_annotation_enables_what_the_node_does_not(tmp_path: Path) -> None:
    pod = replace(kubelet_pod("hog", "memory=128Mi"), memory=MemoryPolicy(guard="act"))
    node = Stalled(tmp_path, PROTECT, pod)
    node.time(10)
    assert node.high == HIGH


def test_a_pod_may_leave_the_guard(tmp_path: Path) -> None:
    pod = replace(kubelet_pod("hog", "memory=128Mi"), memory=MemoryPolicy(guard="off"))
    node = Stalled(tmp_path, GUARD, pod)
    assert node.time(10) == []
    assert node.high == HIGH


def test_no_guard_writes_a_file_that_the_policy_does_not_name(tmp_path: Path) -> None:
    policy = replace(GUARD, files=frozenset({"memory.low"}))
    node = Stalled(tmp_path, policy)
    node.world.kernel.write(APP, "memory.high", HIGH)
    node.time(10)
    assert node.high == HIGH


@pytest.mark.parametrize(
    ("ends", "critical", "named", "ended", "why"),
    [
        ("none", False, (), False, "ending containers is not enabled"),
        ("container", False, (), True, ""),
        ("container", True, (), False, "a static, mirror or critical pod"),
        ("container", True, ("d/hog",), True, ""),
    ],
)
def test_a_container_is_ended_only_where_that_is_asked(
    tmp_path: Path, ends: str, critical: bool, named: tuple[str, ...], ended: bool, why: str
) -> None:
    policy = replace(GUARD, ends=ends, named=frozenset(named))
    pod = kubelet_pod("hog", "memory=128Mi", critical=critical)
    node = Stalled(tmp_path, policy, pod, available=70)
    said = node.time(4)
    assert node.alive is not ended
    assert any(("killed container" if ended else "no action for") in line for line in said), said
    assert any(why in line for line in said)


def test_a_node_ends_so_many_containers_an_hour(tmp_path: Path) -> None:
    node = Stalled(tmp_path, replace(GUARD, ends="container"), available=70)
    for _ in range(8):
        if not node.alive:
            node.pid = node.world.kernel.spawn(APP)
        node.time(30)
    assert node.beside.budget.count == 6
    assert any("6 containers were ended within the hour" in line for line in node.beside.said)


EVICT = replace(GUARD, ends="pod")


def owned(kind: str = "ReplicaSet", name: str = "hog") -> Pod:
    return replace(kubelet_pod(name, "memory=128Mi"), controller=(kind, "web"))


def evicting(folder: Path, policy: GuestPolicy = EVICT, pod: Pod | None = None) -> Stalled:
    return Stalled(folder, policy, pod or owned(), available=70)


def test_a_pod_is_evicted_and_its_container_is_left_alone(tmp_path: Path) -> None:
    node = evicting(tmp_path)
    said = node.time(4)
    assert any(line.startswith("guard: evicting the pod of container d/hog/app") for line in said)
    [ask] = node.beside.client.asked
    assert (ask.key, ask.uid, ask.container, ask.holder) == ("d/hog", "hog", "app", "n1/hog")
    assert any("the eviction of d/hog is under way" in line for line in node.time(8))
    node.beside.client.outcome = EvictionOutcome("evicted", "", ("no Event: 403",))
    assert node.time(1)[0] == "guard: evicted pod d/hog; no Event: 403"
    said = node.time(20)
    assert not any("killed" in line for line in said), "it has its grace period"
    assert len(node.beside.client.asked) == 1
    assert node.beside.budget.count == 1
    said = node.time(40)
    assert not node.alive
    assert any("was evicted and does not end" in line for line in said)


def test_a_refused_eviction_ends_the_container_while_it_stalls(tmp_path: Path) -> None:
    node = evicting(tmp_path)
    node.time(4)
    node.beside.client.outcome = EvictionOutcome("refused", "429: no")
    said = node.time(10)
    assert (
        said[0]
        == "guard: pod d/hog is not evicted: 429: no; while it stalls, its container is ended"
    )
    assert any("killed container" in line and "not evicted: 429: no" in line for line in said)
    assert not node.alive
    assert (len(node.beside.client.asked), node.beside.budget.count) == (1, 1)


def test_a_stall_that_ends_meanwhile_ends_nothing(tmp_path: Path) -> None:
    node = evicting(tmp_path)
    node.time(4)
    node.time(3, held=100)
    node.beside.client.outcome = EvictionOutcome("refused", "429: no")
    node.time(30, held=100)
    assert node.alive


def test_a_server_that_never_answers_does_not_hold_the_guard(tmp_path: Path) -> None:
    node = evicting(tmp_path)
    node.time(40)
    assert node.alive
    said = node.time(20)
    assert any("killed container" in line and "does not answer" in line for line in said)
    assert not node.alive


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_what_no_other_node_takes_is_ended_here(tmp_path: Path, kind: str) -> None:
    node = evicting(tmp_path, pod=owned(kind))
    assert any("killed container" in line for line in node.time(4))
    assert node.beside.client.asked == []


@pytest.mark.parametrize(("named", "asked"), [((), 0), (("d/hog",), 1)])
def test_a_critical_pod_is_evicted_only_where_it_is_named(
    tmp_path: Path, named: tuple[str, ...], asked: int
) -> None:
    policy = replace(EVICT, named=frozenset(named))
    node = evicting(tmp_path, policy, replace(owned(), critical=True))
    node.time(4)
    assert node.alive
    assert len(node.beside.client.asked) == asked


def test_protect_says_that_a_guard_would_evict(tmp_path: Path) -> None:
    node = evicting(tmp_path, replace(PROTECT, ends="pod"))
    assert any("would evict the pod of container d/hog/app" in one for one in node.time(10))
    assert node.beside.client.asked == []


def test_evictions_and_ended_containers_share_the_hour(tmp_path: Path) -> None:
    node = evicting(tmp_path)
    for _ in range(6):
        node.beside.budget.take()
    said = node.time(10)
    assert node.alive
    assert node.beside.client.asked == []
    assert any("6 pods and containers were ended within the hour" in line for line in said), said


def test_a_node_asks_for_so_many_evictions_an_hour(tmp_path: Path) -> None:
    node = evicting(tmp_path)
    evictions = node.beside.ends
    for number in range(31):
        pod = owned(name=f"p{number}")
        expected = "evict" if number < 30 else "end"
        assert evictions.way(pod, "pod")[0] == expected
        if expected == "evict":
            evictions.evict(pod, "app", "stalled")
            node.beside.client.outcome = EvictionOutcome("refused", "429")
            assert len(evictions.poll()) == 1


@pytest.mark.parametrize("after", [GuestPolicy(), PROTECT, replace(GUARD, ends="container")])
def test_another_policy_stops_an_eviction(tmp_path: Path, after: GuestPolicy) -> None:
    node = evicting(tmp_path)
    node.time(4)
    assert node.beside.client.is_busy
    assert not node.beside.client.is_stopped
    node.beside.source.policy = after
    node.time(1)
    assert node.beside.client.is_stopped
