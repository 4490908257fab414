"""What the kubelet itself writes: the node's groups, the QoS tiers and the pods.

Source: kubelet pkg/kubelet/cm node_container_manager_linux.go, qos_container_manager_linux.go,
helpers_linux.go ResourceConfigForPod.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.api.aggregate import declared, limits, pod_level_set, requests
from qoslet.core.api.pod import Pod, QosClass, Quantities
from qoslet.core.node.node import amount
from qoslet.core.quantity import ZERO, Quantity, from_int
from qoslet.core.resources.cgroup_tree import Setting, Writer
from qoslet.core.resources.cgroup_writer import Files
from qoslet.core.resources.cri_resources import exclusive, pod_shares
from qoslet.core.resources.memory_qos import (
    Promised,
    covering_rows,
    node_protects,
    node_rows,
    pod_high_row,
    pod_rows,
    reserved_rows,
    tier_rows,
)
from qoslet.core.resources.node_policy import Basis
from qoslet.core.rules import cpu, memory
from qoslet.core.rules.hugetlb import UNBOUNDED, by_size


class Tally(Struct, frozen=True):
    """What the active pods of a node ask for, by class. Millicores and bytes.

    The amounts ``apart`` are those of pods whose own word on protection is not the node's.
    """

    guaranteed_memory: int = 0
    burstable_memory: int = 0
    burstable_milli: int = 0
    guaranteed_apart: int = 0
    burstable_apart: int = 0


class Tallying(Struct, gc=False):
    """Sums that pods are added to and taken from. Integers: what is taken leaves nothing."""

    guaranteed_memory: int = 0
    burstable_memory: int = 0
    burstable_milli: int = 0
    guaranteed_apart: int = 0
    burstable_apart: int = 0

    def add(
        self, qos: QosClass, memory: int, milli: int, sign: int = 1, *, apart: bool = False
    ) -> None:
        """A pod's requests in bytes and millicores; ``sign`` -1 takes them away. ``apart``: its
        own word on protection is not the node's."""
        if qos == "Guaranteed":
            self.guaranteed_memory += sign * memory
            self.guaranteed_apart += sign * memory * apart
        elif qos == "Burstable":
            self.burstable_memory += sign * memory
            self.burstable_milli += sign * milli
            self.burstable_apart += sign * memory * apart

    @property
    def tally(self) -> Tally:
        """The sums as they are."""
        return Tally(
            self.guaranteed_memory,
            self.burstable_memory,
            self.burstable_milli,
            self.guaranteed_apart,
            self.burstable_apart,
        )


def promised(basis: Basis, tally: Tally) -> Promised:
    """The requests that are protected."""
    if not node_protects(basis):
        return Promised(tally.guaranteed_apart, tally.burstable_apart)
    return Promised(
        tally.guaranteed_memory - tally.guaranteed_apart,
        tally.burstable_memory - tally.burstable_apart,
    )


def _writer(basis: Basis) -> Writer:
    return "qoslet" if basis.runtime.oci == "process" else "kubelet"


def _unbounded(basis: Basis, files: Files) -> None:
    if basis.choices.hugepages != "none":
        files.hugetlb("hugetlb.unbounded", {}, basis.choices.rsvd, other=UNBOUNDED)


def _zeroed(basis: Basis, files: Files) -> None:
    if basis.choices.hugepages != "none":
        files.hugetlb("hugetlb.zero", {}, basis.choices.rsvd)


def node_settings(basis: Basis, tally: Tally) -> tuple[Setting, ...]:
    """kubepods in the steady state: what is enforced, after the first QoS update."""
    files = Files(basis, _writer(basis))
    given, capacity = basis.enforced, basis.node.capacity
    taken = "pods" in basis.node.kubelet.enforce_node_allocatable
    if "pid" in given and (basis.gate("SupportNodePidsLimit") or basis.node.profile.minor >= 20):
        total, held = amount(capacity, "pid").value, amount(basis.reserved, "pid").value
        files.pids(given["pid"].value, ("pids.node", (given["pid"].value, total, held)))
    if "memory" in given:
        total, held = amount(capacity, "memory").value, amount(basis.reserved, "memory").value
        limit = given["memory"].value
        files.memory_limit(limit, ("memory.limit.node", (limit, total, held, taken)))
    if "cpu" in given:
        subject = "cpu capacity - reserved" if taken else "cpu capacity"
        milli = given["cpu"].milli
        files.weight(pod_shares(basis, milli), subject, milli, "linear")
    if basis.choices.kubepods_cpuset and basis.node.kubelet.cpu_manager_policy == "none":
        files.put("cpuset.cpus", basis.cpus, ("cpuset.all", (basis.cpus,)))
    if basis.node.kubelet.cgroups_per_qos:
        _unbounded(basis, files)
        files.rows(node_rows(basis, promised(basis, tally)))
    return files.settings()


def root_settings(basis: Basis, tally: Tally) -> tuple[Setting, ...]:
    """The group that kubepods stands in, under form qoslet: what it does not protect, nothing
    below it is protected from."""
    files = Files(basis, _writer(basis))
    files.rows(covering_rows(basis, promised(basis, tally)))
    return files.settings()


def _reserve_limit(basis: Basis, files: Files, tally: Tally, tier: str) -> None:
    """The tier's memory limit under --qos-reserved; standalone nodes get none."""
    percent, total = basis.reserve_percent, basis.unevicted_memory
    if percent is None or not total:
        return
    joined = basis.choices.qos_reserved_joined
    hard, soft = tally.guaranteed_memory, tally.burstable_memory
    burst, best = memory.reserve_limits(total, hard, soft, percent, joined=joined)
    if tier == "burstable":
        files.memory_limit(burst, ("memory.limit.reserve", (burst, total, hard, -1, percent)))
    else:
        rule = "memory.limit.reserve.joined" if joined else "memory.limit.reserve"
        files.memory_limit(best, (rule, (best, total, hard, soft, percent)))


def tier_settings(basis: Basis, tally: Tally, tier: str) -> tuple[Setting, ...]:
    """The burstable or besteffort group after a QoS update."""
    files = Files(basis, _writer(basis))
    _reserve_limit(basis, files, tally, tier)
    if tier == "besteffort":
        files.weight(cpu.MIN_SHARES, "=BestEffort tier", 0, "linear")
        _unbounded(basis, files)
        files.rows(tier_rows(basis, promised(basis, tally), tier))
        return files.settings()
    milli = tally.burstable_milli
    files.weight(pod_shares(basis, milli), "cpu requests of Burstable pods", milli, "linear")
    _unbounded(basis, files)
    files.rows(tier_rows(basis, promised(basis, tally), tier))
    return files.settings()


def reserved_settings(basis: Basis, what: str, compressible: bool) -> tuple[Setting, ...]:
    """The group of system-reserved or kube-reserved: it exists, the kubelet limits it."""
    kubelet = basis.node.kubelet
    held = kubelet.system_reserved if what == "system-reserved" else kubelet.kube_reserved
    files = Files(basis, _writer(basis))
    if not compressible and "pid" in held:
        files.pids(held["pid"].value, ("pids.reserved", (what, held["pid"].value)))
    if not compressible and "memory" in held:
        limit = held["memory"].value
        files.memory_limit(limit, ("memory.limit.reserved", (what, limit)))
    if "cpu" in held:
        milli = held["cpu"].milli
        files.weight(pod_shares(basis, milli), f"{what} cpu", milli, "linear")
    _zeroed(basis, files)
    if not compressible:
        files.rows(reserved_rows(basis, what, held.get("memory", ZERO).value))
    return files.settings()


class PodNumbers(Struct, frozen=True, gc=False):
    """A pod's sums, as everything above its containers uses them."""

    requests: Quantities
    limits: Quantities


def numbers_of(basis: Basis, pod: Pod) -> PodNumbers:
    """Sum a pod, overhead included."""
    return PodNumbers(requests(pod, basis.sum_rules), limits(pod, basis.sum_rules))


def _any_exclusive(basis: Basis, pod: Pod, qos: QosClass) -> bool:
    if not basis.gate("DisableCPUQuotaWithExclusiveCPUs"):
        return False
    return any(exclusive(basis, pod, container, qos) for container in pod.containers)


def _pod_cpu(basis: Basis, pod: Pod, qos: QosClass, sums: PodNumbers, files: Files) -> None:
    if qos == "BestEffort":
        files.weight(cpu.MIN_SHARES, "=BestEffort pod", 0, "linear")
        return
    milli = sums.requests.get("cpu", ZERO).milli
    files.weight(pod_shares(basis, milli), "sum of cpu requests", milli, "linear")
    if qos == "Burstable" and not declared(pod, "cpu", basis.sum_rules):
        return
    limit = sums.limits.get("cpu", ZERO).milli
    quota = cpu.quota(limit, basis.period_us)
    off = not basis.node.kubelet.cpu_cfs_quota and basis.choices.quota_off == "unlimited"
    subject = "sum of cpu limits"
    if off:
        quota, subject = -1, "cpuCFSQuota is false"
    elif _any_exclusive(basis, pod, qos):
        quota, subject = -1, "exclusive CPUs (static policy)"
    files.bandwidth(quota, basis.period_us, subject, limit)


def _pod_memory(pod: Pod, basis: Basis, qos: QosClass, sums: PodNumbers, files: Files) -> None:
    if qos == "BestEffort":
        return
    if qos == "Burstable" and not declared(pod, "memory", basis.sum_rules):
        return
    limit = sums.limits.get("memory", ZERO).value
    files.memory_limit(limit, ("memory.limit.pod", (limit, "sum of memory limits")))


def _pod_high(basis: Basis, pod: Pod, qos: QosClass, sums: PodNumbers, files: Files) -> None:
    """memory.high of 1.37 for pods with pod-level memory resources."""
    level = pod.resources if basis.pod_level else None
    if level is None or not pod_level_set(level):
        return
    limit = sums.limits.get("memory", ZERO).value
    request = sums.requests.get("memory", ZERO).value
    own = level.limits.get("memory", ZERO).value
    row = pod_high_row(basis, request, limit, own, pod.memory)
    files.rows([] if row is None else [row])


def _pod_hugepages(basis: Basis, pod: Pod, sums: PodNumbers, files: Files) -> None:
    if basis.choices.hugepages == "none" or not _huge_gate(basis):
        return
    asked = sums.requests
    if basis.choices.hugepages_of == "regular":
        asked = _regular_only(pod)
    files.hugetlb("hugetlb.request", by_size(asked), basis.choices.rsvd)


def _huge_gate(basis: Basis) -> bool:
    return basis.node.profile.minor >= 14 or basis.gate("HugePages")


def _regular_only(pod: Pod) -> dict[str, Quantity]:
    """Hugepage requests of the regular containers (before 1.28)."""
    sums: dict[str, int] = {}
    for container in pod.containers:
        if container.role == "regular":
            for name, quantity in container.resources.requests.items():
                sums[name] = sums.get(name, 0) + quantity.value
    return {name: from_int(value) for name, value in sums.items() if name.startswith("hugepages-")}


def pod_settings(basis: Basis, pod: Pod, qos: QosClass, sums: PodNumbers) -> tuple[Setting, ...]:
    """The pod's own group at its creation."""
    files = Files(basis, _writer(basis))
    limit = basis.node.kubelet.pod_pids_limit
    if limit > 0 and (basis.gate("SupportPodPidsLimit") or basis.node.profile.minor >= 20):
        files.pids(limit, ("pids.pod", (limit,)))
    _pod_memory(pod, basis, qos, sums, files)
    _pod_cpu(basis, pod, qos, sums, files)
    _pod_hugepages(basis, pod, sums, files)
    if basis.v2:
        request = sums.requests.get("memory", ZERO).value
        files.rows(pod_rows(basis, qos, request, pod.memory))
        _pod_high(basis, pod, qos, sums, files)
    return files.settings()


def sandbox_settings(basis: Basis) -> tuple[Setting, ...]:
    """What the CRI runtime gives the pause container: the least CPU, nothing else."""
    files = Files(basis, "runtime")
    files.weight(cpu.MIN_SHARES, "=sandbox (pause)", 0, basis.runtime.curve)
    return files.settings()
