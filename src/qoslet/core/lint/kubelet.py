"""Traps of kubelet configurations."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.lint.rule import LintPlace, NodeSubject, Text, node_rule
from qoslet.core.node.node import Kubelet, pods_limit
from qoslet.core.quantity import ZERO, binary, canonical

_USUAL_PERIOD = 100_000
_SMALL = 512 << 20


def _kubelet(subject: NodeSubject) -> Kubelet:
    return subject.policy.node.kubelet


@node_rule(
    "QL120",
    "warning",
    Text(
        "no PIDs limit of pods",
        "A fork bomb in one pod takes all PIDs of the node.",
        "Set podPidsLimit.",
        "Kubernetes: process ID limits and reservations",
    ),
)
def no_pids_limit(subject: NodeSubject) -> Iterator[LintPlace]:
    """podPidsLimit unset or -1."""
    if _kubelet(subject).pod_pids_limit <= 0:
        yield LintPlace("podPidsLimit", "pods may use all PIDs of the node")


@node_rule(
    "QL121",
    "info",
    Text(
        "PIDs limits that together exceed the node",
        "Full pods can use up the node's PIDs although each has a limit.",
        "Lower podPidsLimit or maxPods, or reserve PIDs for the system.",
        "Kubernetes: process ID limits and reservations",
    ),
)
def pids_overcommitted(subject: NodeSubject) -> Iterator[LintPlace]:
    """podPidsLimit times maxPods above the capacity."""
    node = subject.policy.node
    pods, capacity = pods_limit(node), node.capacity.get("pid", ZERO).value
    most = _kubelet(subject).pod_pids_limit * pods
    if 0 < capacity < most:
        text = f"{pods} pods may have {most} processes, the node {capacity}"
        yield LintPlace("podPidsLimit", text)


@node_rule(
    "QL122",
    "warning",
    Text(
        "pods are not held to what is allocatable",
        "Without pods in enforceNodeAllocatable the cgroup of all pods has no limit: pods and the "
        "system's daemons fight for the same memory.",
        "Keep pods in enforceNodeAllocatable.",
        "Kubernetes: reserve compute resources; kubelet node_container_manager_linux.go",
    ),
)
def pods_not_enforced(subject: NodeSubject) -> Iterator[LintPlace]:
    """enforceNodeAllocatable without pods."""
    if "pods" not in _kubelet(subject).enforce_node_allocatable:
        yield LintPlace("enforceNodeAllocatable", "does not name pods")


@node_rule(
    "QL123",
    "warning",
    Text(
        "no memory is reserved for the system",
        "Pods may be given all memory; the kubelet, the runtime and sshd then compete with them.",
        "Set systemReserved and kubeReserved.",
        "Kubernetes: reserve compute resources",
    ),
)
def nothing_reserved(subject: NodeSubject) -> Iterator[LintPlace]:
    """Neither reservation has memory."""
    kubelet = _kubelet(subject)
    if not any(
        given.get("memory", ZERO).value
        for given in (kubelet.kube_reserved, kubelet.system_reserved)
    ):
        yield LintPlace("systemReserved", "no memory is reserved for the system")


@node_rule(
    "QL124",
    "warning",
    Text(
        "no eviction before the node runs out of memory",
        "Without a hard threshold of memory.available the kernel's OOM killer decides alone.",
        "Set evictionHard: {memory.available: 100Mi} or more.",
        "Kubernetes: node-pressure eviction",
    ),
)
def no_eviction(subject: NodeSubject) -> Iterator[LintPlace]:
    """evictionHard that leaves memory out, or has a part that is none: a kubelet ignores 100%, too."""
    given = _kubelet(subject).eviction_hard.get("memory.available", "")
    if given == "100%" or not given.strip("0.%"):
        found = f"{given}, which a kubelet ignores" if given else "not set"
        yield LintPlace("evictionHard", f"memory.available is {found}")


@node_rule(
    "QL125",
    "warning",
    Text(
        "a reservation that ends its own daemons",
        "An enforced reservation is a limit of that cgroup: a kubelet or runtime above it is "
        "OOM-killed.",
        "Reserve what the daemons use at their peak, or do not enforce it.",
        "Kubernetes: reserve compute resources (enforcement)",
    ),
)
def tight_reservation(subject: NodeSubject) -> Iterator[LintPlace]:
    """Enforced reservations below 512Mi of memory."""
    kubelet = _kubelet(subject)
    for name, field, given in (
        ("kube-reserved", "kubeReserved", kubelet.kube_reserved),
        ("system-reserved", "systemReserved", kubelet.system_reserved),
    ):
        amount = given.get("memory", ZERO)
        if name in kubelet.enforce_node_allocatable and 0 < amount.value < _SMALL:
            least = binary(_SMALL)
            text = f"{canonical(amount)} is enforced; daemons often need more than {least}"
            yield LintPlace(f"{field}.memory", text)


@node_rule(
    "QL126",
    "info",
    Text(
        "another CFS period than 100 ms",
        "A shorter one throttles in shorter slices and costs more switches; a longer one lets pods "
        "stand still longer.",
        "Keep 100ms unless you have measured.",
        "sched-bwc.rst; KEP: CustomCPUCFSQuotaPeriod",
    ),
)
def odd_period(subject: NodeSubject) -> Iterator[LintPlace]:
    """cpuCFSQuotaPeriod below 10 ms, or above 100 ms."""
    period = _kubelet(subject).cpu_cfs_quota_period_us
    if period < _USUAL_PERIOD // 10 or period > _USUAL_PERIOD:
        yield LintPlace("cpuCFSQuotaPeriod", f"{period / 1000:g} ms instead of 100 ms")


@node_rule(
    "QL127",
    "warning",
    Text(
        "Memory QoS without effect",
        "memory.min, memory.low and memory.high are files of cgroup v2.",
        "Move the node to v2, or switch the gate off.",
        "KEP-2570",
    ),
)
def gate_without_v2(subject: NodeSubject) -> Iterator[LintPlace]:
    """The gate on a v1 node."""
    if subject.policy.node.given_gate("MemoryQoS") and not subject.policy.v2:
        yield LintPlace("featureGates.MemoryQoS", "the node has cgroup v1")


@node_rule(
    "QL128",
    "warning",
    Text(
        "memory.high without a guard against stalls",
        "A container that cannot be reclaimed stands still at memory.high, and no kubelet ends it.",
        "Set memoryThrottlingFactor: 1 (up to 1.36), or run a guard.",
        "KEP-2570 (livelock)",
    ),
)
def unguarded(subject: NodeSubject) -> Iterator[LintPlace]:
    """A form of Memory QoS that throttles."""
    policy = subject.policy
    throttles = policy.memory_qos not in ("off", "qoslet") and policy.factor not in (None, 1, 1.0)
    if throttles and policy.v2:
        yield LintPlace(
            "memoryThrottlingFactor", f"{policy.factor:g} throttles Burstable containers"
        )


@node_rule(
    "QL129",
    "warning",
    Text(
        "all memory reserved away from lower QoS classes",
        "With 100% the limit of BestEffort pods is what other pods do not request: it shrinks with each pod "
        "that starts, and the kernel ends them.",
        "Use less than 100%, or leave qosReserved out.",
        "kubelet qos_container_manager_linux.go setMemoryReserve",
    ),
)
def all_reserved(subject: NodeSubject) -> Iterator[LintPlace]:
    """qosReserved memory at 100%."""
    percent = _kubelet(subject).qos_reserved
    if percent is not None and percent >= 100:
        yield LintPlace(
            "qosReserved.memory", f"{percent}% of all requests is kept from lower classes"
        )


@node_rule(
    "QL130",
    "warning",
    Text(
        "the cgroupfs driver beside systemd",
        "Two managers write the same tree; systemd may reset or remove what it does not know.",
        "Use cgroupDriver: systemd in the kubelet and in the runtime.",
        "Kubernetes: cgroup drivers",
    ),
)
def two_managers(subject: NodeSubject) -> Iterator[LintPlace]:
    """cgroupfs on a machine with systemd."""
    node = subject.policy.node
    if node.driver == "cgroupfs" and node.host.systemd:
        yield LintPlace(
            "cgroupDriver", f"cgroupfs, and systemd {node.host.systemd} manages the machine"
        )


@node_rule(
    "QL131",
    "info",
    Text(
        "swap that only some pods may use",
        "With LimitedSwap, Guaranteed and BestEffort pods and containers whose memory request is "
        "their limit have no swap.",
        "Expect it, or request less than the limit.",
        "KEP-2400",
    ),
)
def limited_swap(subject: NodeSubject) -> Iterator[LintPlace]:
    """LimitedSwap."""
    if _kubelet(subject).swap_behavior == "LimitedSwap":
        yield LintPlace("memorySwap.swapBehavior", "Burstable pods alone get swap")


@node_rule(
    "QL132",
    "warning",
    Text(
        "QoS classes without cgroups",
        "Without cgroupsPerQOS no pod has a cgroup: its limit and its weight among pods do not exist.",
        "Leave cgroupsPerQOS at true.",
        "kubelet cm/qos_container_manager_linux.go",
    ),
)
def no_qos_cgroups(subject: NodeSubject) -> Iterator[LintPlace]:
    """cgroupsPerQOS: false."""
    if not _kubelet(subject).cgroups_per_qos:
        yield LintPlace("cgroupsPerQOS", "pods have no cgroups")
