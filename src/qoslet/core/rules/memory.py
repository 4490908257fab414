"""Memory: limits, and the variants of Memory QoS (KEP-2570) from 1.22 to 1.37."""

from __future__ import annotations

from qoslet.core.rules.catalog import rule

KURT = "kubelet pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"
CM = "kubelet pkg/kubelet/cm"


def high_1_22(request: int, limit: int, allocatable: int, factor: float) -> int | None:
    """``memory.high`` of 1.22-1.26: (limit or allocatable) x factor, only if above the request.

    Bytes in, bytes out; None: not written. There is no page rounding.
    """
    base = limit or allocatable
    high = int(float(base) * factor)
    return high if high and high > request else None


def high_1_27(request: int, limit: int, allocatable: int, factor: float, page: int) -> int | None:
    """``memory.high`` of 1.27 and later: request + factor x (limit or allocatable - request),
    floored to a byte, then cut to a page; None where it does not exceed the request.

    Which containers are left out is decided by the caller: it changed between releases.
    """
    base = limit or allocatable
    high = int((float(request) + (float(base) - float(request)) * factor) // 1) // page * page
    return high if high > 0 and high > request else None


def less_an_eighth(request: int, page: int) -> int:
    """The part of a request that variant qoslet protects with memory.min, in bytes: seven eighths of
    its whole pages, at least one page less than all.

    Rounding down keeps the sum of parts within the part of the sum, so that a parent with the value
    of the sum covers its children. Source: kubernetes PR 126485 on memory.min = memory.max.
    """
    return max(0, request) // page * 7 // 8 * page


def _gap(limit: int) -> str:
    return "limit" if limit else "node allocatable"


@rule("memory.high.1.22", f"KEP-2570 Alpha v1.22; {KURT} (1.22-1.26)")
def _high_122(request: int, limit: int, base: int, factor: float, page: int, high: int) -> str:
    return f"{_gap(limit)} {base} x factor {factor} = {high} > request {request}"


@rule("memory.high.1.27", f"KEP-2570 Alpha v1.27; {KURT} generateLinuxContainerResources")
def _high_127(request: int, limit: int, base: int, factor: float, page: int, high: int) -> str:
    return (
        f"floor((request {request} + {factor} x ({_gap(limit)} {base} - request {request}))"
        f" / page {page}) x page = {high}"
    )


@rule("memory.high.cleared", f"{KURT} (1.37): gate off, so that runtimes clear an old value")
def _high_cleared() -> str:
    return "Memory QoS is disabled: max resets what an earlier kubelet wrote"


@rule("memory.high.pod", "kubernetes 1.37 pod-level memory.high (tests read, body not)")
def _high_pod(request: int, limit: int, base: int, factor: float, page: int, high: int) -> str:
    return f"pod-level resources: {_high_127(request, limit, base, factor, page, high)}"


@rule("memory.min.request", "KEP-2570: requests.memory -> memory.min")
def _min_request(request: int) -> str:
    return f"memory request {request}"


@rule("memory.min.tiered", "KEP-2570 alpha 3 (1.36): TieredReservation protects Guaranteed hard")
def _min_tiered(request: int) -> str:
    return f"TieredReservation, Guaranteed: memory request {request}"


@rule("memory.low.tiered", "KEP-2570 alpha 3 (1.36): TieredReservation protects Burstable softly")
def _low_tiered(request: int) -> str:
    return f"TieredReservation, not Guaranteed: memory request {request}"


QOSLET = "variant qoslet: docs/explanation/memory-qos.md"


@rule("memory.min.qoslet", f"{QOSLET}; kubernetes PR 126485")
def _min_qoslet(request: int, amount: int) -> str:
    return f"Guaranteed: memory request {request} minus 1/8 = {amount}, room for page cache"


@rule("memory.low.qoslet", QOSLET)
def _low_qoslet(request: int) -> str:
    return f"memory request {request}"


@rule("memory.min.soft", QOSLET)
def _min_soft() -> str:
    return "not Guaranteed: memory.low protects instead -> 0"


@rule("memory.protection.nothing", QOSLET)
def _nothing() -> str:
    return "no memory request -> 0"


@rule("memory.min.sum.qoslet", f"{QOSLET}; cgroup-v2.rst: every ancestor bounds memory.min")
def _min_sum_qoslet(guaranteed: int, amount: int) -> str:
    return f"requests of Guaranteed pods {guaranteed} minus 1/8 = {amount}"


@rule("memory.low.sum.qoslet", f"{QOSLET}; cgroup-v2.rst: every ancestor bounds memory.low")
def _low_sum_qoslet(guaranteed: int, burstable: int) -> str:
    return f"requests of Guaranteed pods {guaranteed} + of Burstable pods {burstable}"


@rule("memory.min.reserved.qoslet", QOSLET)
def _min_reserved_qoslet(what: str, reserved: int, amount: int) -> str:
    return f"{what} memory {reserved} minus 1/8 = {amount}"


@rule("memory.low.reserved", QOSLET)
def _low_reserved(what: str, amount: int) -> str:
    return f"{what} memory {amount}"


ANNOTATION = "annotation of the pod: docs/explanation/memory-qos.md"


@rule("memory.high.annotation", ANNOTATION)
def _high_annotation(key: str, text: str) -> str:
    return f"annotation {key}: {text}"


@rule("memory.protection.annotation", ANNOTATION)
def _protection_annotation(key: str) -> str:
    return f"annotation {key}: off, requests are not protected -> 0"


@rule("memory.oom.group.annotation", ANNOTATION)
def _oom_group_annotation(key: str, text: str) -> str:
    kills = "kills the whole container" if text == "true" else "kills one process"
    return f"annotation {key}: {text}, an OOM kill {kills}"


@rule("memory.protection.none", f"{KURT} (1.36): explicit zeros where nothing is protected")
def _none(policy: str) -> str:
    return f"memoryReservationPolicy {policy}, nothing to protect here -> 0"


@rule("memory.min.sum", f"KEP-2570; {CM} qos_container_manager_linux.go setMemoryQoS")
def _min_sum(guaranteed: int, burstable: int) -> str:
    return f"requests of Guaranteed pods {guaranteed} + of Burstable pods {burstable}"


@rule("memory.low.sum", f"KEP-2570; {CM} qos_container_manager_linux.go setMemoryQoS")
def _low_sum(burstable: int) -> str:
    return f"memory requests of Burstable pods {burstable}"


@rule("memory.min.reserved", f"KEP-2570; {CM} node_container_manager_linux.go")
def _min_reserved(what: str, amount: int) -> str:
    return f"{what} memory {amount}, protected from reclaim"


@rule("memory.limit.pod", f"{CM}/helpers_linux.go ResourceConfigForPod")
def _limit_pod(amount: int, subject: str) -> str:
    return f"{subject} {amount}"


@rule("memory.limit.container", f"{KURT} calculateLinuxResources")
def _limit_container(amount: int, subject: str) -> str:
    return f"{subject} {amount}"


@rule("memory.limit.node", f"{CM}/node_container_manager_linux.go getCgroupConfig")
def _limit_node(amount: int, capacity: int, reserved: int, enforced: bool) -> str:
    if not enforced:
        return f"pods not enforced: capacity {amount}"
    return f"capacity {capacity} - reserved {reserved} = {amount}"


@rule("memory.limit.reserved", f"{CM}/node_container_manager_linux.go enforceExistingCgroup")
def _limit_reserved(what: str, amount: int) -> str:
    return f"{what} memory {amount}"


def reserve_limits(
    allocatable: int, guaranteed: int, burstable: int, percent: int, *, joined: bool
) -> tuple[int, int]:
    """Memory limits of the burstable and besteffort QoS cgroups under ``--qos-reserved``, in bytes.

    The kubelet rounds each term; the design document (``joined``) adds the requests before it takes
    the percentage. No clamp at zero. Source: setMemoryReserve.
    """
    burst = allocatable - guaranteed * percent // 100
    if joined:
        return burst, allocatable - (guaranteed + burstable) * percent // 100
    return burst, burst - burstable * percent // 100


@rule("memory.limit.reserve", f"{CM} qos_container_manager_linux.go setMemoryReserve")
def _reserve(amount: int, allocatable: int, guaranteed: int, burstable: int, percent: int) -> str:
    terms = f"{percent}% of Guaranteed requests {guaranteed}"
    if burstable >= 0:
        terms += f" - {percent}% of Burstable requests {burstable}"
    return f"allocatable {allocatable} - {terms} = {amount}"


@rule("memory.limit.reserve.joined", "design: pod-resource-management, QoS level memory allocation")
def _joined(amount: int, allocatable: int, guaranteed: int, burstable: int, percent: int) -> str:
    both = guaranteed + max(burstable, 0)
    return f"allocatable {allocatable} - {percent}% of requests {both} = {amount}"


def retried(limit: int | None, usage: int) -> int | None:
    """The limit of the second attempt, at least the usage. Source: retrySetMemoryReserve."""
    return None if limit is None else max(limit, usage)


@rule("memory.oom.group", "kubelet >= 1.28 on cgroup v2; singleProcessOOMKill since 1.32")
def _oom_group() -> str:
    return "singleProcessOOMKill is false: one OOM kill kills the whole container"


@rule("memory.desired", f"{CM}/cgroup_manager_linux.go toResources (v2 only)")
def _desired(file: str) -> str:
    return f"{file} of the desired configuration"
