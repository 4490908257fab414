"""The guard of memory.high over pods of a kubelet: the same guard as over our own, told of pods that
it did not start, and ending none unless the policy says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.guest.ports import GuestEvictor, NodeView
from qoslet.agent.memory.guard_actions import HIGH
from qoslet.agent.memory.monitor import MemoryMonitor
from qoslet.agent.memory.throttle_guard import Guard
from qoslet.agent.memory.tracked_cgroups import TrackedCgroups
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.ports import CgroupKiller, Clock, DesiredState
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.pod_phases import WorkerPhase, enter
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.api.pod import Pod
from qoslet.core.guest.policy import GuestPolicy, may_not_end
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import PodGroups
from qoslet.core.pressure.guard_mode import Mode, WayToEnd
from qoslet.core.pressure.guard_report import NO_GUARD_REPORT, GuardReport
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec, PodVolume
from qoslet.errors import CannotDo


def guard_mode(policy: GuestPolicy) -> Mode:
    """What the guard does under a policy: only where the policy names memory.high it may raise it."""
    if policy.mode == "watch":
        return "off"
    return "act" if policy.mode == "guard" and HIGH in policy.files else "observe"


class GuestPlan:
    """The plan of a node as a guard asks for it; matches ``agent.ports.PlanView``."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.by_pod: dict[str, list[Cgroup]] = {}
        for cgroup in plan.cgroups:
            if cgroup.pod is not None:
                self.by_pod.setdefault(cgroup.pod.uid, []).append(cgroup)

    @property
    def node(self) -> Node:
        """The node that is planned for."""
        return self._plan.node

    def __contains__(self, uid: object) -> bool:
        """Whether it holds a pod of this UID."""
        return uid in self.by_pod

    def add(self, pod: Pod) -> PodGroups:
        """A guest plans all pods at once: this one as it stands."""
        return self.groups(pod.uid)

    def remove(self, uid: str) -> frozenset[str]:
        """A guest takes no pod away."""
        return frozenset()

    def groups(self, uid: str) -> PodGroups:
        """What is planned for a pod. Raises KeyError for an unknown one."""
        found = next(one for one in self._plan.pods if one.pod.uid == uid)
        return PodGroups(found.pod, found.qos, tuple(self.by_pod[uid]), ())

    def equipped(self, uid: str, spec: PodSpec) -> PodSpec:
        """A guest starts nothing."""
        return spec

    def upper(self) -> tuple[Cgroup, ...]:
        """The cgroups of the node and its QoS classes."""
        return tuple(one for one in self._plan.cgroups if one.pod is None)

    def plan(self) -> Plan:
        """Everything at once."""
        return self._plan


class GuestRuntime:
    """The runtime and the volumes of pods that a kubelet runs; matches ``agent.ports.Runtime`` and
    ``Volumes``. All that a guest can do is to have a container or a pod ended."""

    def __init__(
        self,
        evictor: GuestEvictor,
        pod_of: Callable[[str], PodWorker],
        way: Callable[[PodWorker], WayToEnd],
    ) -> None:
        self._evictor = evictor
        self._pod_of = pod_of
        self._way = way

    def restart(self, uid: str, container: str) -> None:
        """End a container, whose kubelet starts it again as the restart policy says; or begin to evict
        its pod. Raises QosletError."""
        worker = self._pod_of(uid)
        if worker.pod is None:
            raise CannotDo(f"{worker.key} is gone")
        if self._way(worker)[0] == "evict":
            self._evictor.evict(worker.pod, container, "stalled at memory.high")
            return
        path = worker.container_cgroups.get(container, "")
        self._evictor.end_container(worker.pod, container, path)

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        """Not a guest's to do. Raises CannotDo."""
        raise CannotDo("the kubelet starts the pods of this node")

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Not a guest's to do. Raises CannotDo."""
        raise CannotDo("the kubelet stops the pods of this node")

    def update(self, spec: PodSpec) -> None:
        """A guest has no launches."""

    def remove_pod(self, uid: str) -> None:
        """A guest keeps no pod."""

    def poll(self) -> Sequence[ContainerState]:
        """Containers are the kubelet's."""
        return ()

    def list_pods(self) -> Mapping[str, RuntimePod]:
        """None of them is kept."""
        return {}

    def descriptors(self) -> Sequence[int]:
        """Nothing to wait for."""
        return ()

    def provide(self, uid: str, volumes: Sequence[PodVolume]) -> Mapping[str, str]:
        """A guest has no volumes."""
        return {}

    def remove(self, uid: str) -> bool:
        """A guest has no volumes."""
        return True

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        """A guest has no volumes."""
        return {}


class PodGuard:
    """One for each guest. ``own`` are the UIDs of the agent's own pod."""

    def __init__(
        self,
        executor: CgroupExecutor,
        clock: Clock,
        killer: CgroupKiller,
        memory: MemoryParts,
        evictor: GuestEvictor,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self._own = own
        self._policy = GuestPolicy()
        self._plan: Plan | None = None
        self._ports = executor, clock, killer, memory, evictor
        self._begin()

    def _begin(self) -> None:
        """A guard that knows nothing yet."""
        executor, clock, killer, memory, evictor = self._ports
        pods = GuestRuntime(evictor, lambda uid: self._context.workers[uid], self._way)
        config = Config(executor.root, None)
        self._context = SyncContext(config, executor, pods, pods, clock, killer)

        def guard(context: SyncContext, groups: TrackedCgroups, parts: MemoryParts) -> Guard:
            return Guard(context, groups, parts, way=self._way)

        self._monitor = MemoryMonitor(self._context, memory, plugs=(guard,))

    def stop(self) -> None:
        """The node is only watched from now on: what was raised is planned again."""
        if self._plan is None:
            return
        tracked = self._monitor.groups.groups
        self._ports[3].watch.drop(list(tracked))
        self._ports[0].overrides.clear()
        self._ports[4].stop()
        self._plan = None
        self._begin()

    def sync(self, view: NodeView) -> list[str]:
        """Follow the plan, sample what stalls, and act as the policy says; what there is to say."""
        context, evictor = self._context, self._ports[4]
        context.begin_sync()
        ended = evictor.poll()
        if view.policy != self._policy or view.plan is not self._plan:
            self._follow(view)
        context.config = replace(context.config, guard=guard_mode(view.policy))
        self._monitor.sync()
        self._monitor.update_tracking()
        said = [*ended, *context.log.notes, *context.log.errors]
        context.log.notes, context.log.errors = [], []
        return said

    def _follow(self, view: NodeView) -> None:
        """Take in another plan or policy: pods come, go, and have other cgroups."""
        context, self._policy, self._plan = self._context, view.policy, view.plan
        if view.policy.ends != "pod" or guard_mode(view.policy) != "act":
            self._ports[4].stop()
        planned = GuestPlan(view.plan)
        context.desired = DesiredState(0, {}, frozenset(), frozenset(), tuple, planned)
        present = {one.pod.uid for one in view.plan.pods}
        for uid in context.workers.keys() - present:
            context.remove_worker(context.workers[uid])
            context.work_queue.add(uid)
        for one in view.plan.pods:
            pod = one.pod
            if guard_mode(view.policy) != "act" and view.policy.covers(pod.namespace):
                # what a pod asks for by annotation is not the node's to allow
                pod = replace(pod, memory=replace(pod.memory, guard=None))
            worker = context.workers.get(pod.uid)
            if worker is None:
                worker = PodWorker(pod.uid, pod.key, adopted=True)
                enter(worker, WorkerPhase.RUNNING)
                context.add_worker(worker)
            cgroups = planned.by_pod.get(pod.uid, ())
            if worker.pod != pod or worker.cgroups != tuple(cgroups):
                worker.plan(pod, one.qos, cgroups)
                context.work_queue.add(pod.uid)
        context.log.events.clear()

    def _way(self, worker: PodWorker) -> WayToEnd:
        """How a container of a pod is ended, or why not."""
        pod = worker.pod
        critical = pod is None or pod.critical or pod.node_critical
        why = may_not_end(
            self._policy, worker.key, critical=critical, uid=worker.uid, own=self._own
        )
        if why or pod is None:
            return "none", why
        return self._ports[4].way(pod, self._policy.ends)

    @property
    def report(self) -> GuardReport:
        """What it did so far; reads nothing."""
        return NO_GUARD_REPORT if self._plan is None else self._monitor.guard_report

    @property
    def urgent(self) -> bool:
        """Whether a container may stand still until the next sync."""
        return self._plan is not None and self._monitor.urgent

    def next_at(self) -> float | None:
        """When the next cgroup is to be sampled, in monotonic seconds."""
        return None if self._plan is None else self._monitor.next_at()

    def descriptors(self) -> Sequence[int]:
        """Readable when the kernel reports something about memory."""
        if self._plan is None:
            return ()
        return (*self._monitor.descriptors(), *self._ports[4].descriptors())
