"""A node with pods of a kubelet in a simulated kernel, and an agent beside it that may be killed: the
driver and the journal are the real ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from qoslet.agent.guest.container_killer import MOST_AN_HOUR, GuestContainerKiller
from qoslet.agent.guest.guest_agent import GuestAgent
from qoslet.agent.guest.guest_status import status_of
from qoslet.agent.guest.hour_budget import HourBudget
from qoslet.agent.guest.pod_evictions import GuestEvictions
from qoslet.agent.guest.pod_guard import PodGuard
from qoslet.agent.guest.policy_files import PolicyFiles
from qoslet.agent.guest.ports import NodeView
from qoslet.agent.memory_ports import MemoryParts, ProactiveReclaim
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import Ownership
from qoslet.core.api.pod import Container, Pod
from qoslet.core.audit.finding import AuditReport
from qoslet.core.audit.two_looks import judged
from qoslet.core.guest.policy import NAMEABLE, GuestPolicy
from qoslet.core.guest.status import GuestStatus, GuestSync, SourceStatus
from qoslet.core.memory.sample import MemorySample
from qoslet.core.node.cluster.eviction_messages import EvictionRequest
from qoslet.core.node.cluster.pod_eviction import EvictionOutcome
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.plan.plan import plan
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.journal import AGENT
from qoslet.core.reconcile.restore import RestorePlan, TreeState, restore
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.versions.kubernetes import resolve
from qoslet.errors import CannotDo
from qoslet.host.state.resume import open_journal
from qoslet.sim.memory import SimMemory
from tests.agent.fixtures import ROOT, resources
from tests.agent.world import Paper, World
from tests.core.vectors.fixtures import node_of

KUBEPODS = f"{ROOT}/kubepods"
MIB = 1 << 20
PROTECT = GuestPolicy("protect")
GUARD = GuestPolicy("guard")


def kubelet_pod(
    name: str, request: str = "memory=64Mi", limit: str = "memory=256Mi", critical: bool = False
) -> Pod:
    """A pod whose UID is its name, with one running container ``app``."""
    app = Container(
        "app",
        "regular",
        "spec.containers[0]",
        resources(request, limit),
        id=f"{name}app",
        runs=True,
    )
    return Pod("d", name, name, "t.yaml", (app,), critical=critical)


def planned(pods: Sequence[Pod], variant: str) -> Plan:
    """The plan of a kubelet 1.36 for these pods on cgroup v2."""
    node = node_of(
        resolve("1.36", "containerd-2.2.0+runc-1.4.0", memory_qos=variant),
        capacity={"cpu": "4", "memory": "8Gi"},
        host={"hierarchy": "v2"},
        cgroup_root=ROOT,
        memory_throttling_factor=0.9,
        memory_reservation_policy="TieredReservation",
    )
    return plan(pods, node)


class Source:
    """A node source that is told everything."""

    def __init__(self, pods: Sequence[Pod], variant: str = "qoslet") -> None:
        self.variant = variant
        self.status = SourceStatus("kubelet", "https://node:10250/pods")
        self.policy = PROTECT
        self.wrong = self.fault = ""
        self.refreshes = self.reads = 0
        self.latest: Sequence[Pod] | None = None
        """The pods that are known once they are asked for again."""
        self.allocated: Plan | None = None
        self.want(*pods)

    def want(self, *pods: Pod) -> None:
        self.pods = pods
        self.plan = planned(pods, self.variant)

    def refresh(self) -> None:
        self.refreshes += 1
        if self.latest is not None:
            self.want(*self.latest)

    def current(self, *, asks: bool = True) -> NodeView:
        self.reads += asks
        if self.wrong:
            raise CannotDo(self.wrong)
        faults = (self.fault,) if self.fault else ()
        return NodeView(
            self.plan, self.policy, self.status, allocated=self.allocated, faults=faults
        )

    def descriptors(self) -> Sequence[int]:
        return ()

    def next_at(self) -> float | None:
        return None


class Auditor:
    """Finds what it is told."""

    def __init__(self) -> None:
        self.report = AuditReport(1, 1, (), ())
        self.woken = False
        self.plans: list[Plan] = []
        self.work = KubeletWork()

    def look(self, plan: Plan) -> AuditReport:
        self.plans.append(plan)
        return self.report

    def judged(self, first: AuditReport, second: AuditReport, plan: Plan) -> AuditReport:
        return judged(first, second, plan, None, lambda: self.work)

    def happened(self) -> bool:
        woken, self.woken = self.woken, False
        return woken

    def descriptors(self) -> Sequence[int]:
        return ()


class Client:
    """A cluster that answers when it is told to."""

    descriptor = -1

    def __init__(self) -> None:
        self.asked: list[EvictionRequest] = []
        self.outcome: EvictionOutcome | None = None
        self.is_busy = self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True

    def begin(self, ask: EvictionRequest) -> None:
        assert not self.is_busy
        self.asked.append(ask)
        self.is_busy = True

    def result(self) -> tuple[EvictionRequest, EvictionOutcome] | None:
        if self.outcome is None or not self.is_busy:
            return None
        self.is_busy = False
        return self.asked[-1], self.outcome


class Kubelet:
    """What a kubelet makes in the kernel of a world: the cgroups of its pods, without Memory QoS."""

    def __init__(self, world: World) -> None:
        self.world = world
        if ROOT not in world.kernel.groups:
            world.kernel.mkdir(ROOT)
            words = " ".join(f"+{name}" for name in world.kernel.controllers)
            world.kernel.write(ROOT, "cgroup.subtree_control", words)

    def run(self, *pods: Pod) -> None:
        kernel = self.world.kernel
        observed = kernel.observe(ROOT)
        made = planned(pods, "off")
        rows = [
            row for row in compare(made, observed) if row.verdict != "surplus" or "/pod" in row.path
        ]
        outcomes = kernel.perform(ordered(rows, observed))
        assert [one.error for one in outcomes if one.error is not None] == []


class CountedMemory(SimMemory):
    """Counts its samples."""

    samples = 0

    def sample(self, path: str) -> MemorySample | None:
        self.samples += 1
        return super().sample(path)


class Beside:
    """The agent on such a machine; ``state`` is its own directory."""

    def __init__(
        self,
        world: World,
        state: Path,
        source: Source,
        reclaim: ProactiveReclaim | None = None,
    ) -> None:
        self.world, self.source = world, source
        folder = state / KUBEPODS[1:].replace("/", "%2F")
        for place in (state, folder):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.file = folder / "journal"
        if world.journal:
            self.file.write_bytes(world.journal)
        else:
            self.file.unlink(missing_ok=True)
        self.driver = world.driver(KUBEPODS)
        self.driver.layout.wanted = frozenset()  # type: ignore[attr-defined]
        self.journal = open_journal(
            KUBEPODS, self.driver, state=str(state), boot="boot", verb=AGENT
        )
        self.driver.others.update(self.journal.ledger.adopted)
        self.paper = Paper(self.journal, world._told)
        self.paper.wants_before = True
        self.driver.journal = self.paper
        ledger = self.journal.ledger
        ownership = Ownership(KUBEPODS, ledger.adopted, ledger.cgroups, frozenset(NAMEABLE))
        clock = world.clock
        self.executor = CgroupExecutor(
            ownership, self.driver, world.kernel, clock.monotonic, journal=self.paper
        )
        self.files = PolicyFiles(self.executor, clock.monotonic, allow=self.driver.others.update)
        self.memory = CountedMemory(world.kernel, clock.monotonic, 2048 * MIB)
        parts = MemoryParts(self.memory, self.memory, self.memory, reclaim=reclaim)
        self.budget = HourBudget(MOST_AN_HOUR, clock.monotonic)
        self.client = Client()
        killer = GuestContainerKiller(world.kernel, self.budget)
        self.ends = GuestEvictions(killer, self.budget, self.client, "n1", clock.monotonic)
        self.guard = PodGuard(self.executor, clock, world.kernel, parts, self.ends)
        self.auditor = Auditor()
        self.agent = GuestAgent(source, self.auditor, self.files, self.executor, clock, self.guard)
        self.said: list[str] = []

    def sync(self, seconds: float = 0.0) -> GuestSync:
        self.world._told("sync")
        self.world.clock.now += seconds
        done = self.agent.sync()
        self.said += [*done.errors, *done.notes]
        return done

    def settle(self) -> None:
        """Sync until nothing is written any more."""
        for _ in range(4):
            self.sync(70.0)

    @property
    def status(self) -> GuestStatus:
        return status_of(self.agent, self.world.clock.now)

    def leave(self) -> None:
        """The process is gone; what it wrote down is there."""
        self.world.journal = self.file.read_bytes() if self.file.exists() else b""
        for descriptor in (self.journal._file, self.journal._lock, self.journal._folder):
            if descriptor >= 0:
                os.close(descriptor)

    def released(self, *, force: bool = False) -> RestorePlan:
        """What ``qoslet release`` does with what an agent left."""
        kernel, ledger = self.world.kernel, self.journal.ledger
        others = {
            path: one for path in ledger.adopted if (one := kernel.read_cgroup(path)) is not None
        }
        observed = kernel.observe(KUBEPODS)
        what = restore(ledger, TreeState(KUBEPODS, observed, others), hierarchy="v2", force=force)
        if not what.refusals:
            outcomes = self.driver.perform(what.steps)
            assert [one.error for one in outcomes if one.error is not None] == []
        return what


def texts(world: World) -> dict[str, dict[str, str]]:
    """Every file of every cgroup."""
    groups = world.kernel.groups
    return {path: dict(one.files) for path, one in groups.items() if path.startswith(ROOT)}


def policy(source: Source, **fields: object) -> None:
    """Another policy from now on."""
    source.policy = replace(source.policy, **fields)
