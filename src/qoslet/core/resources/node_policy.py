"""What rules need of a node, computed once for a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.api.aggregate import SumRules
from qoslet.core.api.pod import Quantities
from qoslet.core.node.node import Node, amount, enforced, reserved, unevicted
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.qos_class import QosRules
from qoslet.core.rules.cpu import QUOTA_PERIOD_US
from qoslet.core.rules.hugetlb import size_text
from qoslet.core.versions.kubernetes import MemoryQosVariant, ReleaseBehaviour
from qoslet.core.versions.runtime import Runtime

if TYPE_CHECKING:
    from qoslet.core.node.missing_files import MissingFiles

VARIANT_FACTOR: dict[str, float | None] = {
    "1.22": 0.8, "1.27": 0.9, "1.36": 0.9, "1.37": None, "design": 0.9, "qoslet": None,
}  # fmt: skip
"""The default throttling factor of each variant of Memory QoS."""


class NodePolicy(Struct, frozen=True):
    """A node, reduced to what its rules compute with. Bytes, microseconds.

    ``memory_qos`` is "off" if Memory QoS is disabled. ``hugepages`` pairs the text of a size with
    its bytes, in the host's order; empty without the controller. ``missing`` is what the host lacks of files.
    """

    node: Node
    choices: ReleaseBehaviour
    runtime: Runtime
    v2: bool
    gated: frozenset[str]
    period_us: int
    qos_rules: QosRules
    sum_rules: SumRules
    pod_level: bool
    memory_qos: MemoryQosVariant
    memory_qos_clears: bool
    reservation: str
    factor: float | None
    memory_capacity: int
    unevicted_memory: int
    enforced: Quantities
    reserved: Quantities
    hugepages: tuple[tuple[str, int], ...]
    oom_group: bool
    swap_behavior: str
    reserve_percent: int | None
    processors: int
    cpus: str
    missing: MissingFiles | None
    hugetlb_memo: dict[object, dict[str, Setting]] = {}
    """A cache of hugepage rows by their amounts: most cgroups of a node share them."""

    def gate(self, name: str) -> bool:
        """Whether a gate that decides about values is on."""
        return name in self.gated


def _hugepages(node: Node) -> tuple[tuple[str, int], ...]:
    controllers, missing = node.host.controllers, _missing(node)
    if controllers is not None and "hugetlb" not in controllers:
        return ()
    if missing is not None and missing.lacks("hugetlb.max"):
        return ()
    sizes = []
    for size in node.host.hugepage_sizes:
        try:
            sizes.append((size_text(size), size))
        except ValueError:
            continue
    return tuple(sizes)


def _missing(node: Node) -> MissingFiles | None:
    """What the host lacks; None for a host of Linux 6 with every controller, as most are."""
    if node.os != "linux" or not node.host.may_lack_files:
        return None
    # imported for few hosts
    from qoslet.core.node.missing_files import missing_files

    return missing_files(node.host)


def _memory_qos(node: Node, gate: bool) -> MemoryQosVariant:
    profile = node.profile
    if node.hierarchy != "v2" or node.os != "linux":
        return "off"
    return profile.memory_qos if profile.memory_qos_forced or gate else "off"


def _reservation(node: Node, variant: MemoryQosVariant) -> str:
    """The reservation policy; the default of variant qoslet is TieredReservation."""
    if variant == "qoslet" and "memoryReservationPolicy" not in node.origins:
        return "TieredReservation"
    return node.kubelet.memory_reservation_policy


def _oom_group(node: Node) -> bool:
    """Whether memory.oom.group is written: on v2, without singleProcessOOMKill."""
    choices = node.profile.choices
    if node.hierarchy != "v2" or not choices.oom_group:
        return False
    single = node.kubelet.single_process_oom_kill if choices.single_process_option else None
    return not single


def _gates(node: Node) -> frozenset[str]:
    names = {*node.profile.gates, *node.kubelet.feature_gates}
    return frozenset(name for name in names if node.gate(name))


def _reserve(node: Node, gated: frozenset[str]) -> int | None:
    """The percentage of ``--qos-reserved``; ignored where its gate exists and is off."""
    if node.profile.choices.qos_reserved_gate and "QOSReserved" not in gated:
        return None
    return node.kubelet.qos_reserved


def cpu_list(node: Node) -> str:
    """The CPUs of the machine in list format."""
    last = _processors(node) - 1
    return node.host.cpus or (f"0-{last}" if last > 0 else "0")


def _processors(node: Node) -> int:
    return max(amount(node.capacity, "cpu").value, 1)


def node_policy(node: Node) -> NodePolicy:
    """The policy of a node."""
    choices, kubelet, gated = node.profile.choices, node.kubelet, _gates(node)
    pod_level = "PodLevelResources" in gated
    phases = choices.summed == "phases"
    variant = _memory_qos(node, "MemoryQoS" in gated)
    processors = _processors(node)
    factor = kubelet.memory_throttling_factor
    custom = "CustomCPUCFSQuotaPeriod" in gated
    return NodePolicy(
        node=node,
        choices=choices,
        runtime=node.profile.runtime,
        v2=node.hierarchy == "v2",
        gated=gated,
        period_us=kubelet.cpu_cfs_quota_period_us if custom else QUOTA_PERIOD_US,
        qos_rules=QosRules(
            init_containers=choices.qos_counts_init,
            pod_level=pod_level,
            empty_pod_level=choices.empty_pod_level,
        ),
        sum_rules=SumRules(
            pod_level=pod_level,
            overhead=phases and (node.profile.minor >= 24 or "PodOverhead" in gated),
            init_by_max=phases,
            init_declares=phases and choices.init_declares,
        ),
        pod_level=pod_level,
        memory_qos=variant,
        memory_qos_clears=variant == "off"
        and choices.memory_qos == "1.37"
        and node.hierarchy == "v2",
        reservation=_reservation(node, variant),
        factor=VARIANT_FACTOR.get(variant) if factor is None else factor,
        memory_capacity=amount(node.capacity, "memory").value,
        unevicted_memory=amount(unevicted(node), "memory").value,
        enforced=enforced(node),
        reserved=reserved(node),
        hugepages=_hugepages(node),
        oom_group=_oom_group(node),
        swap_behavior=kubelet.swap_behavior,
        reserve_percent=_reserve(node, gated),
        processors=processors,
        cpus=cpu_list(node),
        missing=_missing(node),
    )


def places(policy: NodePolicy) -> bool:
    """Whether the CPU or the memory manager of the node is static."""
    return policy.node.os == "linux" and (static_cpus(policy) or static_memory(policy))


def static_cpus(policy: NodePolicy) -> bool:
    """Whether the CPU manager assigns exclusive CPUs."""
    return policy.node.kubelet.cpu_manager_policy == "static" and policy.node.gate("CPUManager")


def static_memory(policy: NodePolicy) -> bool:
    """Whether the memory manager reserves memory on NUMA nodes."""
    kubelet = policy.node.kubelet
    return kubelet.memory_manager_policy == "Static" and policy.node.gate("MemoryManager")
