"""What a kubelet refuses of the CPU, memory and topology managers' configuration at its start.

Source: kubelet apis/config/validation; cm/cpumanager policy_options.go; cm/memorymanager
memory_manager.go validateReservedMemory; cm/topologymanager topology_manager.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.node.fields import cpus as cpus_of
from qoslet.core.node.manager_config import CPU_OPTIONS, Option
from qoslet.core.node.node import Node, eviction_reservation, reserved
from qoslet.core.node.topology import MAX_ALLOWABLE_NUMA_NODES, MAX_ENUMERATED_NUMA_NODES
from qoslet.core.quantity import canonical, from_int, total


class Wrong(Struct, frozen=True):
    """The field that is refused, why, and what to do."""

    field: str
    message: str
    hint: str


_EXCLUDE = (
    ("full-pcpus-only", "distribute-cpus-across-cores"),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
)


def refused_managers(node: Node) -> Iterator[Wrong]:
    """Every refusal of the managers' fields, on this node."""
    kubelet = node.kubelet
    if kubelet.cpu_manager_policy == "static":
        cpu = reserved(node).get("cpu")
        if cpu is None or not cpu.nano:
            yield Wrong(
                "cpuManagerPolicy",
                "the static policy needs CPU in kubeReserved or systemReserved",
                "reserve CPU, or set reservedSystemCPUs",
            )
        yield from _options(node)
    if kubelet.memory_manager_policy == "Static":
        yield from _reserved_memory(node)
    if kubelet.topology_manager_policy != "none":
        yield from _topology(node)


def _options(node: Node) -> Iterator[Wrong]:
    given = node.kubelet.cpu_manager_options
    for name in given:
        missing = _missing(node, CPU_OPTIONS[name])
        if missing:
            yield Wrong(f"cpuManagerPolicyOptions.{name}", missing[0], missing[1])
    for one, other in _EXCLUDE:
        if given.get(one) and given.get(other):
            message = f"excludes {other}"
            yield Wrong(f"cpuManagerPolicyOptions.{one}", message, "remove one of them")
    layout = node.host.layout
    if given.get("align-by-socket"):
        field = "cpuManagerPolicyOptions.align-by-socket"
        if node.kubelet.topology_manager_policy == "single-numa-node":
            yield Wrong(field, "excludes topologyManagerPolicy single-numa-node", "use restricted")
        if layout is not None and len(layout.sockets) > max(len(node.host.numa), 1):
            message = "needs at least as many NUMA nodes as sockets"
            yield Wrong(field, message, "remove the option on this machine")


def _missing(node: Node, option: Option) -> tuple[str, str] | None:
    """What an option lacks in this release, and what to do; None where it may be used."""
    minor, release = node.profile.minor, node.profile.kubernetes
    if minor < option.alpha:
        return f"requires Kubernetes 1.{option.alpha}; this is {release}", "remove it"
    if option.stable is not None and minor >= option.stable:
        return None
    stage = "Beta" if option.beta is not None and minor >= option.beta else "Alpha"
    gate = "CPUManagerPolicyOptions" if minor == 22 else f"CPUManagerPolicy{stage}Options"
    if node.gate(gate):
        return None
    return f"needs the feature gate {gate}, which is disabled", f"featureGates: {{{gate}: true}}"


def _reserved_memory(node: Node) -> Iterator[Wrong]:
    by_node = node.kubelet.reserved_memory
    known = {one.id for one in node.host.numa} or {0}
    for number in sorted(set(by_node) - known):
        message = f"NUMA node {number} does not exist"
        yield Wrong("reservedMemory", message, "name NUMA nodes of the machine")
    names = {name for limits in by_node.values() for name in limits} | {"memory"}
    parts = (reserved(node), eviction_reservation(node))
    for name in sorted(names):
        held = total([part[name] for part in parts if name in part] or [from_int(0)])
        sums = total(
            [limits[name] for limits in by_node.values() if name in limits] or [from_int(0)]
        )
        if held.nano != sums.nano:
            yield Wrong(
                "reservedMemory",
                f"{canonical(sums)} of {name} is reserved on NUMA nodes, but kubeReserved, systemReserved and evictionHard reserve {canonical(held)}",
                f"make them equal: {canonical(held)} over all nodes",
            )
        elif name == "memory" and not sums.nano:
            message = "the Static policy needs reserved memory"
            yield Wrong("reservedMemory", message, "reserve memory on a NUMA node")


def _topology(node: Node) -> Iterator[Wrong]:
    most = node.kubelet.topology_manager_options.get("max-allowable-numa-nodes", "")
    room = int(most) if most.isdigit() else MAX_ALLOWABLE_NUMA_NODES
    if len(node.host.numa) > room:
        yield Wrong(
            "topologyManagerPolicy",
            f"{len(node.host.numa)} NUMA nodes exceed the {room} that a topology policy supports",
            'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "64"}, or none',
        )


def machine_cpus(node: Node) -> Collection[int]:
    """The numbers of the machine's CPUs, lowest first: as listed, else counted from the capacity."""
    listed = cpus_of(node.host.cpus) if node.host.cpus else None
    if listed is not None:
        return dict.fromkeys(sorted(listed))
    return range(node.capacity["cpu"].value if "cpu" in node.capacity else 0)


def misplaced_cpus(node: Node) -> Iterator[Wrong]:
    """CPUs that the node's layout or NUMA nodes name though the machine has none such, CPUs that
    a list which is there leaves out, and more NUMA nodes than can be tried."""
    kubelet = node.kubelet
    static = kubelet.memory_manager_policy == "Static" or (
        kubelet.cpu_manager_policy == "static" and kubelet.topology_manager_policy != "none"
    )
    if static and len(node.host.numa) > MAX_ENUMERATED_NUMA_NODES:
        message = f"{len(node.host.numa)} NUMA nodes exceed the {MAX_ENUMERATED_NUMA_NODES} for which qoslet computes hints"
        yield Wrong("numa", message, "plan with topologyManagerPolicy none and no memory manager")
    machine = machine_cpus(node)
    if not machine:
        return  # that the CPUs are not known is a fault already
    layout = node.host.layout
    lists = {"numa": tuple(one.cpus for one in node.host.numa)} if node.host.numa else {}
    if layout is not None:
        lists |= {
            "topology.sockets": layout.sockets,
            "topology.cores": layout.cores,
            "topology.caches": layout.caches,
        }
    for field, texts in lists.items():
        named = {cpu for text in texts for cpu in cpu_numbers(text)}
        left_out = next((cpu for cpu in machine if cpu not in named), None)
        if texts and field.startswith("topology.") and left_out is not None:
            message = f"CPU {left_out} is missing in {field}"
            yield Wrong(field, message, "list every CPU exactly once")
        strange = min((cpu for cpu in named if cpu not in machine), default=None)
        if strange is not None:
            message = f"CPU {strange} of {field} does not exist"
            yield Wrong(field, message, "name CPUs of the machine, or set host.cpus")
