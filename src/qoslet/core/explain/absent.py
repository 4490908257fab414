"""Why a file is not written: the first fact that stands in its way, in a sentence."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.api.aggregate import declared
from qoslet.core.api.memory_annotations import NO_POLICY
from qoslet.core.api.pod import Container, Pod, QosClass
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.memory_qos import factor_of, high_skipped
from qoslet.core.resources.node_policy import NodePolicy


class UnwrittenFile(Struct, frozen=True):
    """A file that a group does not get, with what decides about it."""

    policy: NodePolicy
    cgroup: Cgroup
    file: str
    qos: QosClass | None

    @property
    def level(self) -> str:
        """The level of the group, in words."""
        return {"node": "the node's cgroup", "qos": "a QoS cgroup", "pod": "a pod's cgroup"}.get(
            self.cgroup.level, f"a {self.cgroup.level}"
        )


_V1_TO_V2 = {
    "cpu.shares": "cpu.weight",
    "cpu.cfs_quota_us": "cpu.max",
    "cpu.cfs_period_us": "cpu.max",
    "memory.limit_in_bytes": "memory.max",
    "memory.memsw.limit_in_bytes": "memory.swap.max",
}
_V2_TO_V1 = {
    "cpu.weight": "cpu.shares",
    "cpu.max": "cpu.cfs_quota_us",
    "memory.max": "memory.limit_in_bytes",
    "memory.swap.max": "memory.memsw.limit_in_bytes",
}
_V2_ONLY = ("memory.min", "memory.low", "memory.high", "memory.oom.group")
_CPU_LIMIT = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
_SWAP = ("memory.swap.max", "memory.memsw.limit_in_bytes")
_LIMIT = ("memory.max", "memory.limit_in_bytes")


def reason_absent(missing: UnwrittenFile) -> str:
    """One sentence; never empty."""
    policy, file = missing.policy, missing.file
    if policy.v2 and file in _V1_TO_V2:
        return f"the node has cgroup v2, where the file is {_V1_TO_V2[file]}"
    if not policy.v2 and file in _V2_TO_V1:
        return f"the node has cgroup v1, where the file is {_V2_TO_V1[file]}"
    if not policy.v2 and file in _V2_ONLY:
        needs = "" if file == "memory.oom.group" else "; Memory QoS needs v2"
        return f"the node has cgroup v1, which has no such file{needs}"
    if file.startswith("hugetlb."):
        return _hugetlb(missing)
    if file.startswith("io."):
        return "neither the kubelet nor the CRI sets I/O limits"
    if file in ("memory.min", "memory.low"):
        return _protection(missing)
    for files, reason in (
        (("memory.high",), _high),
        (_CPU_LIMIT, _bandwidth),
        (_LIMIT, _limit),
        (_SWAP, _swap),
        (("pids.max",), _pids),
        (("memory.oom.group",), _oom_group),
        (("oom_score_adj",), _oom_score),
        (("cpuset.cpus", "cpuset.mems"), _cpuset),
    ):
        if file in files:
            return reason(missing)
    return f"this release does not write it on {missing.level}"


def _amounts(container: Container) -> tuple[int, int]:
    own = container.resources
    return own.requests.get("memory", ZERO).value, own.limits.get("memory", ZERO).value


def _memory_qos_off(policy: NodePolicy) -> str:
    profile = policy.node.profile
    if policy.memory_qos != "off":
        return ""
    if profile.memory_qos == "off":
        if profile.memory_qos_forced:
            return f"{policy.node.origin('memoryQos')} disables Memory QoS"
        return f"Kubernetes {profile.kubernetes} has no Memory QoS: 1.22 is the first"
    return f"Memory QoS is disabled: the gate MemoryQoS is false on this node (see --feature-gates MemoryQoS=true or --memory-qos {profile.memory_qos})"


def _high(missing: UnwrittenFile) -> str:
    policy, cgroup = missing.policy, missing.cgroup
    off = _memory_qos_off(policy)
    if off:
        return off
    if cgroup.container is None:
        if cgroup.level == "pod":
            return "memory.high is written on containers, since 1.37 also on pods with pod-level memory limits"
        return f"memory.high is written on containers, not on {missing.level}"
    annotated = NO_POLICY if cgroup.pod is None else cgroup.pod.memory
    factor = factor_of(policy, annotated)
    if factor is None:
        return f"memoryThrottlingFactor is not set and has no default in Memory QoS variant {policy.memory_qos}: nothing is throttled"
    request, limit = _amounts(cgroup.container)
    skipped = high_skipped(policy.memory_qos, missing.qos or "BestEffort", request, limit)
    if skipped:
        if request == limit == 0:
            return "request and limit are both unset and count as equal: the kubelet deviates from KEP-2570; fixed in 1.37"
        if request == limit:
            return f"the memory request equals the limit ({request}): nothing to throttle"
        return skipped
    return f"the value would not exceed the request {request}: with limit or allocatable {limit or policy.unevicted_memory} and factor {factor} less than a page remains"


def _protection(missing: UnwrittenFile) -> str:
    policy, cgroup = missing.policy, missing.cgroup
    off = _memory_qos_off(policy)
    if off:
        return off
    if cgroup.level == "qos" and cgroup.name.endswith("/besteffort"):
        return "BestEffort pods request nothing, so their QoS cgroup protects nothing"
    form = policy.memory_qos
    if form in ("1.22", "1.27", "design"):
        if missing.file == "memory.low":
            return f"Memory QoS variant {form} protects only with memory.min"
        return "no memory request"
    if cgroup.level == "sandbox":
        return "the sandbox has no request"
    if cgroup.level == "node" and not cgroup.name.endswith("kubepods"):
        return f"variant {form} protects reservations only with memory.min"
    if cgroup.level == "node" and missing.file == "memory.low":
        return "variant 1.36 does not write it on kubepods, so memory.low of pods has no effect"
    if cgroup.level == "qos":
        return "memory.low protects the Burstable QoS cgroup"
    if policy.reservation != "TieredReservation":
        return f"memoryReservationPolicy is {policy.reservation}: requests are not protected"
    other = "memory.low" if missing.file == "memory.min" else "memory.min"
    if cgroup.pod is not None and missing.qos == "BestEffort":
        return "no memory request"
    return f"a {missing.qos} pod is protected by {other} with TieredReservation"


def _unlimited(pod: Pod, resource: str) -> str:
    """The containers without a limit, by name."""
    names = [
        container.name
        for container in pod.containers
        if container.role != "ephemeral"
        and container.resources.limits.get(resource, ZERO).nano == 0
    ]
    return ", ".join(names)


def _bandwidth(missing: UnwrittenFile) -> str:
    policy, cgroup = missing.policy, missing.cgroup
    if cgroup.level in ("node", "qos"):
        return "kubelets do not limit CPU time above pods"
    if cgroup.level == "sandbox":
        return "sandboxes get no quota"
    if not policy.node.kubelet.cpu_cfs_quota:
        return "cpuCFSQuota is false: CPU limits are not enforced"
    if cgroup.container is not None:
        return "the container has no cpu limit"
    if missing.qos == "BestEffort":
        return "BestEffort pods have no limits"
    pod = cgroup.pod
    if pod is not None and not declared(pod, "cpu", policy.sum_rules):
        return (
            f"a pod gets a limit only if all its containers have one; without a cpu limit:"
            f" {_unlimited(pod, 'cpu')}"
        )
    return "no cpu limit"


def _limit(missing: UnwrittenFile) -> str:
    policy, cgroup = missing.policy, missing.cgroup
    if cgroup.level == "qos":
        if policy.node.kubelet.qos_reserved is None:
            return "a QoS cgroup gets a limit only with --qos-reserved"
        return "the gate QOSReserved is disabled (--feature-gates QOSReserved=true)"
    if cgroup.level == "sandbox":
        return "sandboxes have no limit"
    if cgroup.container is not None:
        return "the container has no memory limit"
    if missing.qos == "BestEffort":
        return "BestEffort pods have no limits"
    pod = cgroup.pod
    if pod is not None and not declared(pod, "memory", policy.sum_rules):
        return (
            f"a pod gets a limit only if all its containers have one; without a memory limit:"
            f" {_unlimited(pod, 'memory')}"
        )
    return "no memory limit"


def _swap(missing: UnwrittenFile) -> str:
    policy = missing.policy
    if missing.cgroup.container is None:
        return "only containers have swap limits"
    if not policy.node.host.swap_controller:
        return "the host does not account swap (host.swapController is false)"
    release = policy.node.profile.kubernetes
    if policy.choices.swap in ("none", "legacy"):
        return f"neither Kubernetes {release} nor the runtime sets swap here"
    return "the container has no memory limit, so swap has none"


def _pids(missing: UnwrittenFile) -> str:
    policy = missing.policy
    if missing.cgroup.level == "pod":
        limit = policy.node.kubelet.pod_pids_limit
        if limit <= 0:
            return f"podPidsLimit is {limit}: no limit (--pod-max-pids sets one)"
        return "the gate SupportPodPidsLimit is disabled"
    if missing.cgroup.level == "node":
        return "no PIDs are reserved here, or the node's PID capacity is unknown"
    return f"PID limits are written on pods and on kubepods, not on {missing.level}"


def _oom_group(missing: UnwrittenFile) -> str:
    if missing.cgroup.container is None:
        return "only containers have it"
    if not missing.policy.choices.oom_group:
        return "Kubernetes writes it since 1.28"
    return "singleProcessOOMKill is true: the kernel kills one process"


def _oom_score(missing: UnwrittenFile) -> str:
    return "it belongs to the processes of containers, not to a cgroup"


def _cpuset(missing: UnwrittenFile) -> str:
    if missing.file == "cpuset.mems":
        if missing.cgroup.container is None:
            return f"memory nodes are written on containers, not on {missing.level}"
        if missing.policy.node.kubelet.memory_manager_policy != "Static":
            return "memoryManagerPolicy is None: containers use the memory of all NUMA nodes"
        return "only containers of Guaranteed pods get memory nodes"
    if (
        missing.cgroup.container is not None
        and missing.policy.node.kubelet.cpu_manager_policy == "none"
    ):
        return "cpuManagerPolicy is none: containers use all CPUs"
    if missing.cgroup.level == "node":
        return "kubepods gets a CPU list since 1.32, with policy none"
    return f"CPU lists are written on containers with the static policy, not on {missing.level}"


def _hugetlb(missing: UnwrittenFile) -> str:
    policy = missing.policy
    sizes = ", ".join(text for text, _ in policy.hugepages)
    if not sizes:
        return "the host has no hugetlb controller or no huge pages"
    size = missing.file.split(".")[1]
    if size not in sizes.split(", "):
        return f"the host has no huge pages of {size}, only {sizes}"
    if ".rsvd." in missing.file:
        return "this writer does not limit reservations"
    if missing.cgroup.container is not None:
        runtime = policy.runtime
        if not runtime.hugetlb:
            return f"{runtime.name} drops huge page limits of containers by default"
        return f"Kubernetes {policy.node.profile.kubernetes} does not send huge page limits of containers"
    return f"not written on {missing.level} in this release"
