"""The CPU, memory and topology managers of one node together.

``admit`` is called in the order in which pods arrive. A pod keeps its assignment until ``release``.
A refused pod gets nothing. Source: kubelet pkg/kubelet/cm/topologymanager scope_pod.go,
scope_container.go; pkg/kubelet/cm/internal_container_lifecycle_linux.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.aggregate import pod_level_set
from qoslet.core.api.pod import Container, Pod, QosClass
from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.managers.cpu_assignment import PickOptions
from qoslet.core.managers.cpu_manager import CpuManager, CpuRefusal, Holder, reserved_cpus
from qoslet.core.managers.memory_manager import MemoryBlock, MemoryManager, Reusable, Sizes
from qoslet.core.managers.topology_hints import ANY, Hint, Merger
from qoslet.core.node.manager_config import CPU_OPTIONS
from qoslet.core.node.node import Node, amount, reserved
from qoslet.core.node.topology import NO_CPUS, POLICIES, Cpus, NumaNode, Policy, Topology, listed
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.cri_resources import exclusive
from qoslet.core.resources.node_policy import NodePolicy, places, static_cpus, static_memory
from qoslet.core.resources.pod_template import as_release_sees
from qoslet.core.rules.hugetlb import size_of_resource


class PodAssignment(Struct, frozen=True):
    """The exclusive CPUs and memory blocks of a pod's containers, by container name."""

    cpus: Mapping[str, Cpus] = {}
    memory: Mapping[str, tuple[MemoryBlock, ...]] = {}


class Assignments(Struct, frozen=True):
    """All assignments on a node."""

    cpus: Mapping[Holder, Cpus] = {}
    memory: Mapping[Holder, tuple[MemoryBlock, ...]] = {}


class _Request(Struct, frozen=True):
    """A container's request to the managers; ``cpus`` is 0 if it uses the shared pool."""

    name: str
    role: str
    cpus: int
    memory: Sizes


def topology_of(policy: NodePolicy) -> Topology:
    """The topology of the node; flat if its documents have none."""
    host, cpus = policy.node.host, cpu_numbers(policy.cpus)
    nodes = host.numa or (NumaNode(listed(cpus), policy.memory_capacity),)
    if len(nodes) == 1 and not nodes[0].hugepages:
        nodes = (replace(nodes[0], hugepages=_hugepages(policy)),)
    return Topology(cpus, host.layout, nodes)


def _hugepages(policy: NodePolicy) -> dict[int, int]:
    """Page size to bytes of the whole node."""
    capacity = policy.node.capacity
    amounts = {size_of_resource(name): quantity.value for name, quantity in capacity.items()}
    return {size: amount for size, amount in amounts.items() if size is not None}


def pick_options(policy: NodePolicy) -> PickOptions:
    """The node's cpuManagerPolicyOptions."""
    configured = policy.node.kubelet.cpu_manager_options
    return PickOptions(
        **{
            CPU_OPTIONS[name].attribute: on
            for name, on in configured.items()
            if name in CPU_OPTIONS
        }
    )


def placing(node: Node) -> object:
    """The node's fields that decide about assignments: equal for nodes that assign alike."""
    kubelet, gates = node.kubelet, ("CPUManager", "MemoryManager", "TopologyManager")
    enabled = [node.gate(name) for name in gates]
    if (kubelet.cpu_manager_policy, kubelet.memory_manager_policy) == ("none", "None"):
        return None
    return (
        *enabled,
        kubelet.cpu_manager_policy,
        kubelet.cpu_manager_options,
        kubelet.reserved_system_cpus or amount(reserved(node), "cpu").value,
        kubelet.memory_manager_policy,
        kubelet.reserved_memory,
        node.host.cpus,
        node.host.layout,
        node.host.numa,
    )


def managers_of(policy: NodePolicy) -> Managers | None:
    """The managers of a node without assignments; None if no policy is static."""
    return Managers(policy) if places(policy) else None


class Managers:
    """The CPU and memory assignments of one node."""

    def __init__(self, policy: NodePolicy) -> None:
        kubelet = policy.node.kubelet
        self.policy = policy
        self.topology = topology_of(policy)
        self.refused: dict[str, CpuRefusal] = {}
        self.cpu: CpuManager | None = None
        self.memory: MemoryManager | None = None
        if static_cpus(policy):
            options = pick_options(policy)
            named = cpu_numbers(kubelet.reserved_system_cpus)
            count = amount(reserved(policy.node), "cpu").value
            reserved_set = reserved_cpus(self.topology, named, count, options)
            self.cpu = CpuManager(self.topology, options, reserved_set)
        if static_memory(policy):
            by_node = {
                node: {name: quantity.value for name, quantity in limits.items()}
                for node, limits in kubelet.reserved_memory.items()
            }
            self.memory = MemoryManager(self.topology, by_node)
        closest = kubelet.topology_manager_options.get("prefer-closest-numa-nodes", "")
        topology_policy: Policy = "none"
        for known in POLICIES:
            if kubelet.topology_manager_policy == known and policy.node.gate("TopologyManager"):
                topology_policy = known
        self._merger = Merger(topology_policy, self.topology, closest.lower() in ("1", "t", "true"))
        self._pool: tuple[Cpus, str] | None = None
        self._by_pod = kubelet.topology_manager_scope == "pod"

    def places(self, pod: Pod, qos: QosClass) -> bool:
        """Whether a pod gets exclusive CPUs or memory blocks, so that others depend on it."""
        return any(request.cpus or request.memory for request in self._requests_of(pod, qos))

    def _requests_of(self, pod: Pod, qos: QosClass) -> list[_Request]:
        seen_pod = as_release_sees(self.policy, pod)
        placed_memory = (
            self.memory is not None and qos == "Guaranteed" and not _level(self.policy, seen_pod)
        )
        requests = []
        for container in seen_pod.containers:
            if container.role == "ephemeral":
                continue
            requested = container.resources.requests
            whole = self.cpu is not None and exclusive(self.policy, seen_pod, container, qos)
            requests.append(
                _Request(
                    container.name,
                    container.role,
                    requested.get("cpu", ZERO).milli // 1000 if whole else 0,
                    {
                        name: quantity.value
                        for name, quantity in requested.items()
                        if placed_memory and self.memory is not None and self.memory.knows(name)
                    },
                )
            )
        return requests

    def admit(self, pod: Pod, qos: QosClass) -> PodAssignment | CpuRefusal:
        """Assign CPUs and memory to a pod. It keeps its assignment unless its requests changed."""
        requests = self._requests_of(pod, qos)
        self.refused.pop(pod.uid, None)
        if not any(request.cpus or request.memory for request in requests):
            self.release(pod.uid)
            return PodAssignment()
        if self._is_placed(pod.uid, requests):
            return self.given(pod.uid)
        self.release(pod.uid)
        refusal = self._place(pod.uid, requests)
        if refusal is not None:
            self.release(pod.uid)
            self.refused[pod.uid] = refusal
            return refusal
        return self.given(pod.uid)

    def given(self, uid: str) -> PodAssignment:
        """The assignment of a pod."""
        return PodAssignment(
            dict(self.cpu.of(uid)) if self.cpu is not None else {},
            dict(self.memory.of(uid)) if self.memory is not None else {},
        )

    def release(self, uid: str) -> bool:
        """Release a pod's assignment, once its containers have ended; whether it had one."""
        self.refused.pop(uid, None)
        cpus = self.cpu is not None and self.cpu.release(uid)
        memory = self.memory is not None and self.memory.release(uid)
        return cpus or memory

    def kept(self) -> Assignments:
        """The current assignments."""
        return Assignments(
            self.cpu.kept() if self.cpu is not None else {},
            self.memory.kept() if self.memory is not None else {},
        )

    def restore(self, assignments: Assignments) -> None:
        """Replace all assignments by those of an earlier run. Raises KeyError for NUMA nodes or
        resources that the machine does not have."""
        if self.cpu is not None:
            self.cpu.restore(assignments.cpus)
        if self.memory is not None:
            self.memory.restore(assignments.memory)

    def settle(self, pods: Sequence[tuple[Pod, QosClass]]) -> tuple[str, ...]:
        """Admit ``pods`` in this order, those without a place again while another pod gives some
        up; returns the UIDs of those whose assignment changed."""
        changed: dict[str, None] = {}
        moved = True
        while moved:
            moved = False
            for pod, qos in pods:
                before = self.given(pod.uid), self.refused.get(pod.uid)
                self.admit(pod, qos)
                if before != (self.given(pod.uid), self.refused.get(pod.uid)):
                    changed[pod.uid] = None
                    moved = bool(self.refused)
        return tuple(changed)

    def has(self, uid: str) -> bool:
        """Whether a pod has an assignment."""
        assignment = self.given(uid)
        return bool(assignment.cpus or assignment.memory)

    def holders(self) -> tuple[str, ...]:
        """The UIDs of the pods with an assignment."""
        assignments = self.kept()
        return tuple(dict.fromkeys(uid for uid, _ in (*assignments.cpus, *assignments.memory)))

    def shared(self) -> str:
        """The CPUs of the shared pool, in list format."""
        if self.cpu is None:
            return ""
        if self._pool is None or self._pool[0] is not self.cpu.taken:
            self._pool = self.cpu.taken, listed(self.cpu.shared())
        return self._pool[1]

    def _is_placed(self, uid: str, requests: Sequence[_Request]) -> bool:
        assignment = self.given(uid)
        counts = {name: len(cpus) for name, cpus in assignment.cpus.items()}
        kinds = {name: {b.resource for b in blocks} for name, blocks in assignment.memory.items()}
        # a kubelet forgets the memory of an init container that has ended, not its CPUs
        over = {request.name for request in requests if request.role == "init"} - kinds.keys()
        return counts == {
            request.name: request.cpus for request in requests if request.cpus
        } and kinds == {
            request.name: set(request.memory)
            for request in requests
            if request.memory and request.name not in over
        }

    def _place(self, uid: str, requests: Sequence[_Request]) -> CpuRefusal | None:
        reuse, reusable = NO_CPUS, Reusable()
        hint = ANY
        if self._by_pod:
            hint, admitted = self._merged(
                _sum_cpus(requests), _sum_memory(requests), reuse, reusable
            )
            if not admitted:
                return _AFFINITY
        init_containers: list[str] = []
        for request in requests:
            if not self._by_pod:
                hint, admitted = self._merged(request.cpus, request.memory, reuse, reusable)
                if not admitted:
                    return _AFFINITY
            holder = uid, request.name
            if request.cpus and self.cpu is not None:
                cpus = self.cpu.allocate(holder, request.cpus, hint, reuse)
                if isinstance(cpus, CpuRefusal):
                    return cpus
                reuse = reuse | cpus if request.role == "init" else reuse - cpus
            if request.memory and self.memory is not None:
                blocks = self.memory.allocate(
                    holder, request.memory, hint, reusable, init_containers
                )
                if isinstance(blocks, CpuRefusal):
                    return blocks
                reusable.note(blocks, request.role == "init")
            if request.role == "init":
                init_containers.append(request.name)
        return None

    def _merged(
        self, cpus: int, memory: Sizes, reuse: Cpus, reusable: Reusable
    ) -> tuple[Hint, bool]:
        resources: list[Sequence[Hint]] = []
        if self._merger.policy != "none":
            if cpus and self.cpu is not None:
                resources.append(self.cpu.hints(cpus, reuse))
            if memory and self.memory is not None:
                # a memory manager without any set of nodes has no preference
                resources += [
                    hints or [ANY] for hints in self.memory.hints(memory, reusable).values()
                ]
        return self._merger.merged(resources)

    def settings(self, pod: Pod, container: Container) -> tuple[Setting, ...]:
        """The cpuset files of a container; ephemeral ones use the shared pool."""
        cpusets = []
        assigned = self.cpus(pod, container)
        if assigned is not None and self.cpu is not None:
            text, exclusive_cpus = assigned
            if exclusive_cpus:
                place = self.cpu.place(cpu_numbers(text))
                inputs: tuple[object, ...] = (len(cpu_numbers(text)), text, place)
                cpusets.append(Setting("cpuset.cpus", text, "cpuset.exclusive", inputs, "runtime"))
            else:
                cpusets.append(Setting("cpuset.cpus", text, "cpuset.shared", (text,), "runtime"))
        text = self.mems(pod, container)
        if text and self.memory is not None:
            blocks = self.memory.of(pod.uid)[container.name]
            nodes = sorted({node for block in blocks for node in block.nodes})
            size = container.resources.requests.get("memory", ZERO).value
            effective = listed(nodes)
            cpusets.append(
                Setting(
                    "cpuset.mems",
                    text,
                    "cpuset.mems",
                    (text, size, len(nodes)),
                    "runtime",
                    effective if effective != text else None,
                )
            )
        return tuple(cpusets)

    def cpus(self, pod: Pod, container: Container) -> tuple[str, bool] | None:
        """The CPUs of a container and whether they are exclusive; None if it has no cpuset."""
        if self.cpu is None:
            return None
        exclusive_cpus = self.cpu.of(pod.uid).get(container.name)
        if exclusive_cpus is not None:
            return listed(exclusive_cpus), True
        pool = self.shared()
        return (pool, False) if pool else None

    def mems(self, pod: Pod, container: Container) -> str:
        """The NUMA nodes of a container as the kubelet writes them; empty without memory blocks."""
        if self.memory is None:
            return ""
        blocks = self.memory.of(pod.uid).get(container.name, ())
        return ",".join(map(str, sorted({node for block in blocks for node in block.nodes})))


_AFFINITY = CpuRefusal(
    "TopologyAffinityError",
    "no set of NUMA nodes that the topology policy accepts has enough free CPUs and memory",
    "lower the requests, move pods, or use topologyManagerPolicy: best-effort",
)


def _level(policy: NodePolicy, pod: Pod) -> bool:
    """Whether pod-level resources exclude the pod from the managers. Source: kubernetes PR 133279."""
    return policy.pod_level and pod_level_set(pod.resources) and policy.node.profile.minor >= 34


def _sum_cpus(requests: Sequence[_Request]) -> int:
    """CPUs that a pod needs at once: the most of any init container with the sidecars before it, or
    those of all regular containers and sidecars."""
    most = staying = 0
    for request in requests:
        if request.role == "init":
            most = max(most, staying + request.cpus)
        else:
            staying += request.cpus
    return max(most, staying)


def _sum_memory(requests: Sequence[_Request]) -> Sizes:
    """Memory that a pod needs at once; resources that only init containers request do not count."""
    sizes: dict[str, int] = {}
    for name in {
        name for request in requests if request.role == "regular" for name in request.memory
    }:
        most = staying = 0
        for request in requests:
            size = request.memory.get(name, 0)
            if request.role == "init":
                most = max(most, staying + size)
            else:
                staying += size
        sizes[name] = max(most, staying)
    return dict(sorted(sizes.items()))
