"""A container's resources as the kubelet sends them over the CRI, each with its reason.

The order is the kubelet's: cpu and memory, oom_score_adj, hugepages, swap, Memory QoS; later
steps merge into the same ``unified`` map. Source: kuberuntime_container_linux.go
generateLinuxContainerResources, calculateLinuxResources.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.api.aggregate import CURRENT, pod_level_name, pod_level_set, requests
from qoslet.core.api.memory_annotations import NO_POLICY
from qoslet.core.api.pod import NO_QUANTITIES, Container, Pod, QosClass, Quantities
from qoslet.core.quantity import ZERO, Quantity
from qoslet.core.resources.memory_qos import container_rows, oom_group_row
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.not_written import NotWritten
from qoslet.core.rules import cpu, oom, swap
from qoslet.core.rules.hugetlb import by_size

Why = tuple[str, tuple[object, ...]]
"""A rule's id and its inputs."""


class UnifiedEntry(Struct, frozen=True, gc=False):
    """One entry of the ``unified`` map: a v2 file, its value, its reason."""

    file: str
    value: str
    why: Why


class CriResources(Struct, frozen=True, gc=False):
    """LinuxContainerResources of the CRI; a zero field means "not set", as in protobuf."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit_in_bytes: int = 0
    oom_score_adj: int = 0
    hugepage_limits: tuple[tuple[str, int], ...] = ()
    memory_swap_limit_in_bytes: int = 0
    unified: tuple[UnifiedEntry, ...] = ()
    shares_why: tuple[str, int] = ("", 0)
    quota_why: tuple[str, int] = ("", 0)
    memory_why: str = "memory limit"
    oom_why: Why = ("", ())
    swap_why: Why = ("", ())
    unwritten: tuple[NotWritten, ...] = ()
    """Entries of ``unified`` that a rule leaves out."""


def _limit(container: Container, level: Quantities, name: str) -> tuple[Quantity, bool]:
    """The container's limit, else the pod-level one; and whether it is the pod-level one."""
    container_limit = container.resources.limits.get(name, ZERO)
    if container_limit.nano == 0 and name in level:
        return level[name], True
    return container_limit, False


def _shares(policy: NodePolicy, request: Quantity | None, limit: Quantity) -> tuple[int, str, int]:
    """cpu_shares, and the subject and millicores that gave them."""
    choices = policy.choices
    absent = request is None or (request.nano == 0 and choices.zero_cpu_request == "limit")
    if absent and limit.nano != 0:
        subject, milli = "cpu limit (no request)", limit.milli
    elif request is None:
        subject, milli = "no cpu request", 0
    else:
        subject, milli = "cpu request", request.milli
    return _clamp(cpu.shares(milli), milli, choices.container_shares_max), subject, milli


def _clamp(amount: int, milli: int, most: int | None) -> int:
    """Shares without the upper clamp in releases that had none."""
    if most is not None or amount < cpu.MAX_SHARES:
        return amount
    return milli * cpu.SHARES_PER_CPU // cpu.MILLI_PER_CPU


def pod_shares(policy: NodePolicy, milli: int) -> int:
    """Shares of a cgroup that the kubelet writes itself."""
    return _clamp(cpu.shares(milli), milli, policy.choices.pod_shares_max)


def _hugepages(policy: NodePolicy, container: Container, level: Quantities) -> dict[str, int]:
    """The limit of every size of the host, 0 without one."""
    if policy.choices.hugepages != "container":
        return {}
    limits = {text: 0 for text, _ in policy.hugepages}
    if not policy.choices.pod_level_hugepages:
        level = NO_QUANTITIES
    for quantities in (level, container.resources.limits):
        for text, amount in by_size(quantities).items():
            if text in limits:
                limits[text] = amount
    return limits


def exclusive(policy: NodePolicy, pod: Pod, container: Container, qos: QosClass) -> bool:
    """Whether the static CPU manager gives the container exclusive CPUs. Since 1.34 pods with
    pod-level resources use the shared pool: kubernetes PR 133279."""
    if policy.node.kubelet.cpu_manager_policy != "static" or qos != "Guaranteed":
        return False
    if not policy.node.gate("CPUManager"):
        return False
    if policy.pod_level and pod_level_set(pod.resources) and policy.node.profile.minor >= 34:
        return False
    if container.role not in ("regular", "sidecar", "init"):
        return False
    request = container.resources.requests.get("cpu", ZERO)
    return request.milli > 0 and request.milli % 1000 == 0


def _quota(
    policy: NodePolicy, pod: Pod, container: Container, qos: QosClass, limit: Quantity
) -> tuple[int, int]:
    """cpu_quota and cpu_period in microseconds."""
    if not policy.node.kubelet.cpu_cfs_quota:
        return 0, 0
    if policy.gate("DisableCPUQuotaWithExclusiveCPUs") and exclusive(policy, pod, container, qos):
        return -1, policy.period_us
    return cpu.quota(limit.milli, policy.period_us), policy.period_us


def _remaining_share(policy: NodePolicy, pod: Pod) -> int | None:
    """The pod-level memory request beyond those of containers, per container; None without one."""
    if not policy.pod_level or pod.resources is None:
        return None
    pod_requests = pod.resources.requests
    if not any(pod_level_name(name) for name in pod_requests):
        return None
    if pod_requests.get("memory", ZERO).nano == 0:
        return 0
    count = sum(1 for c in pod.containers if c.role != "ephemeral")
    without_level = Pod(pod.namespace, pod.name, pod.uid, pod.where, pod.containers)
    rest = pod_requests["memory"].value - requests(without_level, CURRENT).get("memory", ZERO).value
    return rest // count if rest >= 0 else -(-rest // count)


def oom_score(policy: NodePolicy, pod: Pod, container: Container, qos: QosClass) -> tuple[int, Why]:
    """oom_score_adj of a container and its reason. Source: qos/policy.go."""
    guaranteed = policy.choices.guaranteed_oom
    mode = policy.choices.critical_oom
    if pod.critical and (mode == "critical" or (mode == "node-critical" and pod.node_critical)):
        return guaranteed, ("oom.critical", (guaranteed,))
    if qos == "Guaranteed":
        return guaranteed, ("oom.guaranteed", (guaranteed,))
    if qos == "BestEffort":
        return oom.BEST_EFFORT, ("oom.besteffort", (oom.BEST_EFFORT,))
    share = _remaining_share(policy, pod) or 0
    request = container.resources.requests.get("memory", ZERO).value + share
    score = oom.burstable(request, policy.memory_capacity)
    smallest = None
    if container.role == "sidecar" and policy.choices.sidecar_oom:
        smallest = _smallest_regular(pod) + share
        score = min(score, oom.burstable(smallest, policy.memory_capacity))
    score = oom.clamped(score, guaranteed)
    return score, ("oom.burstable", (score, request, policy.memory_capacity, smallest))


def _smallest_regular(pod: Pod) -> int:
    """The least memory request of the regular containers."""
    amounts = [
        c.resources.requests.get("memory", ZERO).value
        for c in pod.containers
        if c.role == "regular"
    ]
    return min(amounts, default=0)


def _swap_refusal(policy: NodePolicy, pod: Pod, qos: QosClass, request: int, limit: int) -> str:
    """Why LimitedSwap gives a container no swap; empty if it does."""
    if not policy.v2:
        return "LimitedSwap needs cgroup v2"
    if pod.critical and policy.choices.swap == "1.31":
        return "critical and static pods get none"
    if qos != "Burstable":
        return f"{qos} pods get none"
    if not request and not limit:
        return "no memory request or limit"
    if request == limit:
        return "memory request equals limit"
    if request > policy.memory_capacity:
        return "memory request exceeds the node's memory"
    return ""


def _no_swap(policy: NodePolicy, limit: int, why: str) -> tuple[UnifiedEntry | None, int, Why]:
    reason: Why = ("swap.none", (why,))
    if policy.v2:
        return UnifiedEntry("memory.swap.max", "0", reason), 0, reason
    return None, limit, reason


def swap_of(
    policy: NodePolicy, pod: Pod, qos: QosClass, request: int, limit: int
) -> tuple[UnifiedEntry | None, int, Why]:
    """The swap of a container: a unified entry, memory_swap_limit_in_bytes, and the reason."""
    variant, behavior = policy.choices.swap, policy.swap_behavior
    if variant == "none":
        return None, 0, ("", ())
    if variant == "legacy":
        if not policy.gate("NodeSwap"):
            return None, 0, ("", ())
        amount = -1 if behavior == "UnlimitedSwap" else limit
        return None, amount, ("swap.legacy", (behavior or "LimitedSwap", amount))
    if not policy.node.host.swap_controller:
        return None, 0, ("", ())
    if variant == "1.28" and not behavior:
        behavior = "UnlimitedSwap"
    if not policy.gate("NodeSwap") or behavior in ("", "NoSwap"):
        return _no_swap(policy, limit, "NoSwap" if policy.gate("NodeSwap") else "NodeSwap is off")
    if behavior == "UnlimitedSwap":
        if variant != "1.28" or not policy.v2:
            return _no_swap(policy, limit, "UnlimitedSwap does not apply here")
        why: Why = ("swap.unlimited", ())
        return UnifiedEntry("memory.swap.max", "max", why), 0, why
    refusal = _swap_refusal(policy, pod, qos, request, limit)
    if refusal:
        return _no_swap(policy, limit, refusal)
    swap_bytes = policy.node.swap
    amount = swap.limited_swap(request, policy.memory_capacity, swap_bytes) or 0
    why = ("swap.limited", (request, policy.memory_capacity, swap_bytes, amount))
    return UnifiedEntry("memory.swap.max", str(amount), why), 0, why


def cri_resources(
    policy: NodePolicy, pod: Pod, container: Container, qos: QosClass
) -> CriResources:
    """What the kubelet sends for one container."""
    level = NO_QUANTITIES
    if policy.pod_level and pod.resources is not None:
        level = pod.resources.limits
    container_requests = container.resources.requests
    cpu_limit, cpu_level = _limit(container, level, "cpu")
    memory_limit, memory_level = _limit(container, level, "memory")
    shares, subject, milli = _shares(policy, container_requests.get("cpu"), cpu_limit)
    quota, period = _quota(policy, pod, container, qos, cpu_limit)
    score, oom_why = oom_score(policy, pod, container, qos)
    request = container_requests.get("memory", ZERO).value
    own_limit = container.resources.limits.get("memory", ZERO).value
    swap_entry, swap_field, swap_why = swap_of(
        policy, pod, qos, request, own_limit if policy.v2 else memory_limit.value
    )
    oom_group = oom_group_row(policy, pod.memory)
    unified = [] if isinstance(oom_group, NotWritten) else [UnifiedEntry(*oom_group)]
    unwritten = [oom_group] if isinstance(oom_group, NotWritten) else []
    if swap_entry is not None:
        unified.append(swap_entry)
    if policy.v2:
        for row in container_rows(policy, qos, request, own_limit, pod.memory, container.name):
            if isinstance(row, NotWritten):
                unwritten.append(row)
            else:
                unified.append(UnifiedEntry(*row))
    return CriResources(
        cpu_period=period,
        cpu_quota=quota,
        cpu_shares=shares,
        memory_limit_in_bytes=memory_limit.value,
        oom_score_adj=score,
        hugepage_limits=tuple(_hugepages(policy, container, level).items()),
        memory_swap_limit_in_bytes=swap_field,
        unified=tuple(unified),
        shares_why=(subject, milli),
        quota_why=("pod-level cpu limit" if cpu_level else "cpu limit", cpu_limit.milli),
        memory_why="pod-level memory limit" if memory_level else "memory limit",
        oom_why=oom_why,
        swap_why=swap_why,
        unwritten=tuple(unwritten),
    )


def sandbox_cri_resources(
    policy: NodePolicy, amounts: tuple[Quantities, Quantities]
) -> CriResources:
    """LinuxPodSandboxConfig ``resources`` or ``overhead`` from requests and limits.

    Source: kuberuntime_sandbox_linux.go calculateSandboxResources.
    """
    pod_requests, limits = amounts
    limit = limits.get("cpu", ZERO)
    shares, subject, milli = _shares(policy, pod_requests.get("cpu"), limit)
    enforce = policy.node.kubelet.cpu_cfs_quota
    oom_group = oom_group_row(policy, NO_POLICY)
    return CriResources(
        cpu_period=policy.period_us if enforce else 0,
        cpu_quota=cpu.quota(limit.milli, policy.period_us) if enforce else 0,
        cpu_shares=shares,
        memory_limit_in_bytes=limits.get("memory", ZERO).value,
        unified=() if isinstance(oom_group, NotWritten) else (UnifiedEntry(*oom_group),),
        shares_why=(subject, milli),
        quota_why=("cpu limit", limit.milli),
    )
