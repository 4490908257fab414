"""The CPU, memory and topology managers of one node together: pods come, are placed, and go.

``admit`` is called in the order in which pods arrive; what a pod got stays until ``release``.
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
from qoslet.core.managers.cpu_manager import CpuManager, Holder, Refusal, reserved_cpus
from qoslet.core.managers.memory_manager import Block, MemoryManager, Reusable, Sizes
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


class Given(Struct, frozen=True):
    """What a pod's containers got, by container name: CPUs of their own, blocks of memory."""

    cpus: Mapping[str, Cpus] = {}
    memory: Mapping[str, tuple[Block, ...]] = {}


class Kept(Struct, frozen=True):
    """Everything that is handed out on a node: what outlives a run."""

    cpus: Mapping[Holder, Cpus] = {}
    memory: Mapping[Holder, tuple[Block, ...]] = {}


class _Asked(Struct, frozen=True):
    """What one container asks of the managers; ``cpus`` is 0 where it shares."""

    name: str
    role: str
    cpus: int
    memory: Sizes


def topology_of(policy: NodePolicy) -> Topology:
    """How the node's CPUs and memory lie; flat where nobody said."""
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
    given = policy.node.kubelet.cpu_manager_options
    return PickOptions(
        **{CPU_OPTIONS[name].attribute: on for name, on in given.items() if name in CPU_OPTIONS}
    )


def placing(node: Node) -> object:
    """What decides who may have which CPUs and memory: equal for nodes that hand out alike."""
    kubelet, gates = node.kubelet, ("CPUManager", "MemoryManager", "TopologyManager")
    handing = [node.gate(name) for name in gates]
    if (kubelet.cpu_manager_policy, kubelet.memory_manager_policy) == ("none", "None"):
        return None
    return (
        *handing,
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
    """The managers of a node on which nothing is placed yet; None where no policy places."""
    return Managers(policy) if places(policy) else None


class Managers:
    """Who has which CPUs and which memory on one node."""

    def __init__(self, policy: NodePolicy) -> None:
        kubelet = policy.node.kubelet
        self.policy = policy
        self.topology = topology_of(policy)
        self.refused: dict[str, Refusal] = {}
        self.cpu: CpuManager | None = None
        self.memory: MemoryManager | None = None
        if static_cpus(policy):
            options = pick_options(policy)
            named = cpu_numbers(kubelet.reserved_system_cpus)
            count = amount(reserved(policy.node), "cpu").value
            held = reserved_cpus(self.topology, named, count, options)
            self.cpu = CpuManager(self.topology, options, held)
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
        """Whether a pod gets something of its own, so that what others get depends on it."""
        return any(one.cpus or one.memory for one in self._asked(pod, qos))

    def _asked(self, pod: Pod, qos: QosClass) -> list[_Asked]:
        known = as_release_sees(self.policy, pod)
        own = self.memory is not None and qos == "Guaranteed" and not _level(self.policy, known)
        found = []
        for container in known.containers:
            if container.role == "ephemeral":
                continue
            wanted = container.resources.requests
            whole = self.cpu is not None and exclusive(self.policy, known, container, qos)
            found.append(
                _Asked(
                    container.name,
                    container.role,
                    wanted.get("cpu", ZERO).milli // 1000 if whole else 0,
                    {
                        name: quantity.value
                        for name, quantity in wanted.items()
                        if own and self.memory is not None and self.memory.knows(name)
                    },
                )
            )
        return found

    def admit(self, pod: Pod, qos: QosClass) -> Given | Refusal:
        """Place a pod. One that has its place keeps it, unless it asks for something else."""
        asked = self._asked(pod, qos)
        self.refused.pop(pod.uid, None)
        if not any(one.cpus or one.memory for one in asked):
            self.release(pod.uid)
            return Given()
        if self._stands(pod.uid, asked):
            return self.given(pod.uid)
        self.release(pod.uid)
        refusal = self._place(pod.uid, asked)
        if refusal is not None:
            self.release(pod.uid)
            self.refused[pod.uid] = refusal
            return refusal
        return self.given(pod.uid)

    def given(self, uid: str) -> Given:
        """What a pod has."""
        return Given(
            dict(self.cpu.of(uid)) if self.cpu is not None else {},
            dict(self.memory.of(uid)) if self.memory is not None else {},
        )

    def release(self, uid: str) -> bool:
        """Give back what a pod had, when its containers have ended; whether it had anything."""
        self.refused.pop(uid, None)
        cpus = self.cpu is not None and self.cpu.release(uid)
        memory = self.memory is not None and self.memory.release(uid)
        return cpus or memory

    def kept(self) -> Kept:
        """What is handed out now."""
        return Kept(
            self.cpu.kept() if self.cpu is not None else {},
            self.memory.kept() if self.memory is not None else {},
        )

    def restore(self, kept: Kept) -> None:
        """Take up what an earlier run handed out, in place of what is. Raises KeyError for NUMA
        nodes or resources that the machine does not have."""
        if self.cpu is not None:
            self.cpu.restore(kept.cpus)
        if self.memory is not None:
            self.memory.restore(kept.memory)

    def settle(self, pods: Sequence[tuple[Pod, QosClass]]) -> tuple[str, ...]:
        """Admit ``pods`` in this order; the UIDs of those that have another place, or none,
        since."""
        changed = []
        for pod, qos in pods:
            before = self.given(pod.uid), self.refused.get(pod.uid)
            self.admit(pod, qos)
            if before != (self.given(pod.uid), self.refused.get(pod.uid)):
                changed.append(pod.uid)
        return tuple(changed)

    def has(self, uid: str) -> bool:
        """Whether a pod has anything."""
        given = self.given(uid)
        return bool(given.cpus or given.memory)

    def holders(self) -> tuple[str, ...]:
        """The UIDs of the pods that have anything."""
        kept = self.kept()
        return tuple(dict.fromkeys(uid for uid, _ in (*kept.cpus, *kept.memory)))

    def shared(self) -> str:
        """The CPUs of all containers without CPUs of their own, in list format."""
        if self.cpu is None:
            return ""
        if self._pool is None or self._pool[0] is not self.cpu.taken:
            self._pool = self.cpu.taken, listed(self.cpu.shared())
        return self._pool[1]

    def _stands(self, uid: str, asked: Sequence[_Asked]) -> bool:
        have = self.given(uid)
        counts = {name: len(cpus) for name, cpus in have.cpus.items()}
        kinds = {name: {b.resource for b in blocks} for name, blocks in have.memory.items()}
        return counts == {one.name: one.cpus for one in asked if one.cpus} and kinds == {
            one.name: set(one.memory) for one in asked if one.memory
        }

    def _place(self, uid: str, asked: Sequence[_Asked]) -> Refusal | None:
        reuse, again = NO_CPUS, Reusable()
        hint = ANY
        if self._by_pod:
            hint, admitted = self._merged(_sum_cpus(asked), _sum_memory(asked), reuse, again)
            if not admitted:
                return _AFFINITY
        before: list[str] = []
        for one in asked:
            if not self._by_pod:
                hint, admitted = self._merged(one.cpus, one.memory, reuse, again)
                if not admitted:
                    return _AFFINITY
            holder = uid, one.name
            if one.cpus and self.cpu is not None:
                cpus = self.cpu.allocate(holder, one.cpus, hint, reuse)
                if isinstance(cpus, Refusal):
                    return cpus
                reuse = reuse | cpus if one.role == "init" else reuse - cpus
            if one.memory and self.memory is not None:
                blocks = self.memory.allocate(holder, one.memory, hint, again, before)
                if isinstance(blocks, Refusal):
                    return blocks
                again.note(blocks, one.role == "init")
            if one.role == "init":
                before.append(one.name)
        return None

    def _merged(self, cpus: int, memory: Sizes, reuse: Cpus, again: Reusable) -> tuple[Hint, bool]:
        resources: list[Sequence[Hint]] = []
        if self._merger.policy != "none":
            if cpus and self.cpu is not None:
                resources.append(self.cpu.hints(cpus, reuse))
            if memory and self.memory is not None:
                # a memory manager without any set of nodes has no preference
                resources += [hints or [ANY] for hints in self.memory.hints(memory, again).values()]
        return self._merger.merged(resources)

    def settings(self, pod: Pod, container: Container) -> tuple[Setting, ...]:
        """The cpuset files of a container; an ephemeral one shares."""
        rows = []
        found = self.cpus(pod, container)
        if found is not None and self.cpu is not None:
            text, own = found
            if own:
                place = self.cpu.place(cpu_numbers(text))
                inputs: tuple[object, ...] = (len(cpu_numbers(text)), text, place)
                rows.append(Setting("cpuset.cpus", text, "cpuset.exclusive", inputs, "runtime"))
            else:
                rows.append(Setting("cpuset.cpus", text, "cpuset.shared", (text,), "runtime"))
        text = self.mems(pod, container)
        if text and self.memory is not None:
            blocks = self.memory.of(pod.uid)[container.name]
            nodes = sorted({node for block in blocks for node in block.nodes})
            size = container.resources.requests.get("memory", ZERO).value
            kept = listed(nodes)
            rows.append(
                Setting(
                    "cpuset.mems",
                    text,
                    "cpuset.mems",
                    (text, size, len(nodes)),
                    "runtime",
                    kept if kept != text else None,
                )
            )
        return tuple(rows)

    def cpus(self, pod: Pod, container: Container) -> tuple[str, bool] | None:
        """The CPUs of a container and whether they are its own; None where it may use all that
        its pod may."""
        if self.cpu is None:
            return None
        own = self.cpu.of(pod.uid).get(container.name)
        if own is not None:
            return listed(own), True
        pool = self.shared()
        return (pool, False) if pool else None

    def mems(self, pod: Pod, container: Container) -> str:
        """The NUMA nodes of a container as the kubelet writes them; empty where it has none."""
        if self.memory is None:
            return ""
        blocks = self.memory.of(pod.uid).get(container.name, ())
        return ",".join(map(str, sorted({node for block in blocks for node in block.nodes})))


_AFFINITY = Refusal(
    "TopologyAffinityError",
    "no NUMA nodes that the topology policy accepts have its CPUs and memory",
    "lower the requests, move pods, or use topologyManagerPolicy: best-effort",
)


def _level(policy: NodePolicy, pod: Pod) -> bool:
    """Whether a pod's own resources keep the managers away. Source: kubernetes PR 133279."""
    return policy.pod_level and pod_level_set(pod.resources) and policy.node.profile.minor >= 34


def _sum_cpus(asked: Sequence[_Asked]) -> int:
    """CPUs that a pod needs at once: the most of any init container with the sidecars before
    it, or those of all that stay."""
    most = staying = 0
    for one in asked:
        if one.role == "init":
            most = max(most, staying + one.cpus)
        else:
            staying += one.cpus
    return max(most, staying)


def _sum_memory(asked: Sequence[_Asked]) -> Sizes:
    """The same for memory; what only init containers ask for does not count."""
    found: dict[str, int] = {}
    for name in {name for one in asked if one.role == "regular" for name in one.memory}:
        most = staying = 0
        for one in asked:
            size = one.memory.get(name, 0)
            if one.role == "init":
                most = max(most, staying + size)
            else:
                staying += size
        found[name] = max(most, staying)
    return dict(sorted(found.items()))
