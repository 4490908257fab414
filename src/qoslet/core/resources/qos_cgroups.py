"""The cgroups that the kubelet itself writes: kubepods, reservations, QoS cgroups and pods.

Source: kubelet pkg/kubelet/cm node_container_manager_linux.go, qos_container_manager_linux.go,
helpers_linux.go ResourceConfigForPod.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import astuple, replace

from qoslet.core.api.aggregate import declared, limits, pod_level_set, requests
from qoslet.core.api.pod import Pod, QosClass, Quantities
from qoslet.core.node.node import amount
from qoslet.core.quantity import ZERO, Quantity, from_int
from qoslet.core.resources.cgroup_tree import Writer
from qoslet.core.resources.cgroup_writer import Files
from qoslet.core.resources.cri_resources import exclusive, pod_shares
from qoslet.core.resources.memory_qos import (
    ProtectedRequests,
    ancestor_rows,
    node_protects,
    node_rows,
    pod_high_row,
    pod_rows,
    qos_cgroup_rows,
    reserved_rows,
)
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.not_written import Reason
from qoslet.core.rules import cpu, memory
from qoslet.core.rules.hugetlb import UNBOUNDED, by_size


class QosTotals(Struct, frozen=True):
    """The requests of a node's active pods, by class, in millicores and bytes.

    The ``apart`` amounts are those of pods whose protection differs from the node's.
    """

    guaranteed_memory: int = 0
    burstable_memory: int = 0
    burstable_milli: int = 0
    guaranteed_apart: int = 0
    burstable_apart: int = 0


class QosTotalsBuilder(Struct, gc=False):
    """The totals, to which pods are added and from which they are removed."""

    guaranteed_memory: int = 0
    burstable_memory: int = 0
    burstable_milli: int = 0
    guaranteed_apart: int = 0
    burstable_apart: int = 0

    def add(
        self, qos: QosClass, memory: int, milli: int, count: int = 1, *, apart: bool = False
    ) -> None:
        """Add ``count`` pods with these requests in bytes and millicores; a negative count removes
        pods. ``apart``: their protection differs from the node's."""
        if qos == "Guaranteed":
            self.guaranteed_memory += count * memory
            self.guaranteed_apart += count * memory * apart
        elif qos == "Burstable":
            self.burstable_memory += count * memory
            self.burstable_milli += count * milli
            self.burstable_apart += count * memory * apart

    @property
    def qos_totals(self) -> QosTotals:
        """The current totals."""
        return QosTotals(*astuple(self))


def protected_requests(policy: NodePolicy, qos_totals: QosTotals) -> ProtectedRequests:
    """The protected requests of a node's pods."""
    if not node_protects(policy):
        return ProtectedRequests(qos_totals.guaranteed_apart, qos_totals.burstable_apart)
    return ProtectedRequests(
        qos_totals.guaranteed_memory - qos_totals.guaranteed_apart,
        qos_totals.burstable_memory - qos_totals.burstable_apart,
    )


def deciding(policy: NodePolicy, qos_totals: QosTotals) -> QosTotals:
    """The totals without those that decide about no cgroup above the pods. The millicores decide
    about the weight of ``burstable`` alone."""
    if policy.reserve_percent is not None or node_protects(policy):
        return qos_totals
    return replace(qos_totals, guaranteed_memory=0, burstable_memory=0)


def _writer(policy: NodePolicy) -> Writer:
    return "qoslet" if policy.runtime.oci == "process" else "kubelet"


def _unbounded(policy: NodePolicy, files: Files) -> None:
    if policy.choices.hugepages != "none":
        files.hugetlb("hugetlb.unbounded", {}, policy.choices.rsvd, other=UNBOUNDED)


def _zeroed(policy: NodePolicy, files: Files) -> None:
    if policy.choices.hugepages != "none":
        files.hugetlb("hugetlb.zero", {}, policy.choices.rsvd)


def node_files(policy: NodePolicy, qos_totals: QosTotals) -> Files:
    """kubepods after the first QoS update."""
    files = Files(policy, _writer(policy))
    amounts, capacity = policy.enforced, policy.node.capacity
    pods_enforced = "pods" in policy.node.kubelet.enforce_node_allocatable
    if "pid" in amounts and (
        policy.gate("SupportNodePidsLimit") or policy.node.profile.minor >= 20
    ):
        total, reserved = amount(capacity, "pid").value, amount(policy.reserved, "pid").value
        files.pids(amounts["pid"].value, ("pids.node", (amounts["pid"].value, total, reserved)))
    else:
        files.skip("pids.max", Reason.NO_PIDS)
    if "memory" in amounts:
        total, reserved = amount(capacity, "memory").value, amount(policy.reserved, "memory").value
        limit = amounts["memory"].value
        files.memory_limit(limit, ("memory.limit.node", (limit, total, reserved, pods_enforced)))
    if "cpu" in amounts:
        subject = "cpu capacity - reserved" if pods_enforced else "cpu capacity"
        milli = amounts["cpu"].milli
        files.weight(pod_shares(policy, milli), subject, milli, "linear")
    if policy.choices.kubepods_cpuset and policy.node.kubelet.cpu_manager_policy == "none":
        files.put("cpuset.cpus", policy.cpus, ("cpuset.all", (policy.cpus,)))
    if policy.node.kubelet.cgroups_per_qos:
        _unbounded(policy, files)
        files.rows(node_rows(policy, protected_requests(policy, qos_totals)))
    return files


def root_files(policy: NodePolicy, qos_totals: QosTotals) -> Files:
    """The parent of kubepods with variant qoslet: its protection bounds that of all pods."""
    files = Files(policy, _writer(policy))
    files.rows(ancestor_rows(policy, protected_requests(policy, qos_totals)))
    return files


def _reserve_limit(
    policy: NodePolicy, files: Files, qos_totals: QosTotals, qos_cgroup: str
) -> None:
    """The QoS cgroup's memory limit under --qos-reserved; standalone nodes get none."""
    percent, total = policy.reserve_percent, policy.unevicted_memory
    if percent is None or not total:
        reason = Reason.NO_ALLOCATABLE
        if percent is None:
            flag = policy.node.kubelet.qos_reserved
            reason = Reason.NO_QOS_RESERVED if flag is None else Reason.QOS_RESERVED_GATE
        files.skip("memory.max", reason)
        return
    joined = policy.choices.qos_reserved_joined
    hard, soft = qos_totals.guaranteed_memory, qos_totals.burstable_memory
    burst, best = memory.reserve_limits(total, hard, soft, percent, joined=joined)
    if qos_cgroup == "burstable":
        files.memory_limit(burst, ("memory.limit.reserve", (burst, total, hard, -1, percent)))
    else:
        rule = "memory.limit.reserve.joined" if joined else "memory.limit.reserve"
        files.memory_limit(best, (rule, (best, total, hard, soft, percent)))


def qos_cgroup_files(policy: NodePolicy, qos_totals: QosTotals, qos_cgroup: str) -> Files:
    """The burstable or besteffort cgroup after a QoS update."""
    files = Files(policy, _writer(policy))
    _reserve_limit(policy, files, qos_totals, qos_cgroup)
    if qos_cgroup == "besteffort":
        files.weight(cpu.MIN_SHARES, "=BestEffort QoS cgroup", 0, "linear")
    else:
        milli = qos_totals.burstable_milli
        files.weight(pod_shares(policy, milli), "cpu requests of Burstable pods", milli, "linear")
    _unbounded(policy, files)
    files.rows(qos_cgroup_rows(policy, protected_requests(policy, qos_totals), qos_cgroup))
    return files


def reserved_files(policy: NodePolicy, what: str, compressible: bool) -> Files:
    """The existing cgroup of system-reserved or kube-reserved, which the kubelet limits."""
    kubelet = policy.node.kubelet
    reservation = kubelet.system_reserved if what == "system-reserved" else kubelet.kube_reserved
    files = Files(policy, _writer(policy))
    if not compressible and "pid" in reservation:
        files.pids(reservation["pid"].value, ("pids.reserved", (what, reservation["pid"].value)))
    else:
        files.skip("pids.max", Reason.NO_PIDS)
    if not compressible and "memory" in reservation:
        limit = reservation["memory"].value
        files.memory_limit(limit, ("memory.limit.reserved", (what, limit)))
    if "cpu" in reservation:
        milli = reservation["cpu"].milli
        files.weight(pod_shares(policy, milli), f"{what} cpu", milli, "linear")
    _zeroed(policy, files)
    if not compressible:
        files.rows(reserved_rows(policy, what, reservation.get("memory", ZERO).value))
    return files


class PodNumbers(Struct, frozen=True, gc=False):
    """A pod's sums of requests and limits."""

    requests: Quantities
    limits: Quantities


def numbers_of(policy: NodePolicy, pod: Pod) -> PodNumbers:
    """Sum a pod, overhead included."""
    return PodNumbers(requests(pod, policy.sum_rules), limits(pod, policy.sum_rules))


def _any_exclusive(policy: NodePolicy, pod: Pod, qos: QosClass) -> bool:
    if not policy.gate("DisableCPUQuotaWithExclusiveCPUs"):
        return False
    return any(exclusive(policy, pod, container, qos) for container in pod.containers)


class _Unlimited(Struct, frozen=True, gc=False):
    """The containers of a pod without a limit; their names are joined only when printed."""

    pod: Pod
    resource: str

    def __str__(self) -> str:
        return ", ".join(
            container.name
            for container in self.pod.containers
            if container.role != "ephemeral"
            and container.resources.limits.get(self.resource, ZERO).nano == 0
        )


def _pod_cpu(policy: NodePolicy, pod: Pod, qos: QosClass, sums: PodNumbers, files: Files) -> None:
    if qos == "BestEffort":
        files.weight(cpu.MIN_SHARES, "=BestEffort pod", 0, "linear")
        files.skip("cpu.max", Reason.BEST_EFFORT)
        return
    milli = sums.requests.get("cpu", ZERO).milli
    files.weight(pod_shares(policy, milli), "sum of cpu requests", milli, "linear")
    if qos == "Burstable" and not declared(pod, "cpu", policy.sum_rules):
        files.skip("cpu.max", Reason.NOT_ALL_LIMITED, "cpu", _Unlimited(pod, "cpu"))
        return
    limit = sums.limits.get("cpu", ZERO).milli
    quota = cpu.quota(limit, policy.period_us)
    off = not policy.node.kubelet.cpu_cfs_quota and policy.choices.quota_off == "unlimited"
    subject = "sum of cpu limits"
    if off:
        quota, subject = -1, "cpuCFSQuota is false"
    elif _any_exclusive(policy, pod, qos):
        quota, subject = -1, "exclusive CPUs (static policy)"
    files.bandwidth(quota, policy.period_us, subject, limit)


def _pod_memory(
    pod: Pod, policy: NodePolicy, qos: QosClass, sums: PodNumbers, files: Files
) -> None:
    if qos == "BestEffort":
        files.skip("memory.max", Reason.BEST_EFFORT)
        return
    if qos == "Burstable" and not declared(pod, "memory", policy.sum_rules):
        files.skip("memory.max", Reason.NOT_ALL_LIMITED, "memory", _Unlimited(pod, "memory"))
        return
    limit = sums.limits.get("memory", ZERO).value
    files.memory_limit(limit, ("memory.limit.pod", (limit, "sum of memory limits")))


def _pod_high(policy: NodePolicy, pod: Pod, sums: PodNumbers, files: Files) -> None:
    """memory.high of 1.37 for pods with pod-level memory resources."""
    level = pod.resources if policy.pod_level else None
    level_limit = 0
    if level is not None and pod_level_set(level):
        level_limit = level.limits.get("memory", ZERO).value
    limit = sums.limits.get("memory", ZERO).value
    request = sums.requests.get("memory", ZERO).value
    files.rows([pod_high_row(policy, request, limit, level_limit, pod.memory)])


def _pod_hugepages(policy: NodePolicy, pod: Pod, sums: PodNumbers, files: Files) -> None:
    if policy.choices.hugepages == "none" or not _huge_gate(policy):
        return
    amounts = sums.requests
    if policy.choices.hugepages_of == "regular":
        amounts = _regular_only(pod)
    files.hugetlb("hugetlb.request", by_size(amounts), policy.choices.rsvd)


def _huge_gate(policy: NodePolicy) -> bool:
    return policy.node.profile.minor >= 14 or policy.gate("HugePages")


def _regular_only(pod: Pod) -> dict[str, Quantity]:
    """Hugepage requests of the regular containers (before 1.28)."""
    sums: dict[str, int] = {}
    for container in pod.containers:
        if container.role == "regular":
            for name, quantity in container.resources.requests.items():
                sums[name] = sums.get(name, 0) + quantity.value
    return {name: from_int(value) for name, value in sums.items() if name.startswith("hugepages-")}


def pod_files(policy: NodePolicy, pod: Pod, qos: QosClass, sums: PodNumbers) -> Files:
    """The pod's cgroup at its creation."""
    files = Files(policy, _writer(policy))
    limit = policy.node.kubelet.pod_pids_limit
    if limit > 0 and (policy.gate("SupportPodPidsLimit") or policy.node.profile.minor >= 20):
        files.pids(limit, ("pids.pod", (limit,)))
    elif limit > 0:
        files.skip("pids.max", Reason.POD_PIDS_GATE)
    else:
        files.skip("pids.max", Reason.NO_POD_PIDS, limit)
    _pod_memory(pod, policy, qos, sums, files)
    _pod_cpu(policy, pod, qos, sums, files)
    _pod_hugepages(policy, pod, sums, files)
    if policy.v2:
        request = sums.requests.get("memory", ZERO).value
        files.rows(pod_rows(policy, qos, request, pod.memory))
        _pod_high(policy, pod, sums, files)
    return files


def sandbox_files(policy: NodePolicy) -> Files:
    """The cgroup of the pause container: the CRI runtime sets the smallest weight, nothing else."""
    files = Files(policy, "runtime")
    files.weight(cpu.MIN_SHARES, "=sandbox (pause)", 0, policy.runtime.curve)
    return files
