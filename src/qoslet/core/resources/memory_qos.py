"""Memory QoS (KEP-2570): what each variant protects and throttles, at every level of the tree.

With variant ``qoslet`` every ancestor protects as much as its children, ``memory.min`` stays below
``memory.max``, and all values are written, zeros included. Sources of the others: kubelet kuberuntime_container_linux.go, cm/qos_container_manager_linux.go,
cm/helpers_linux.go, cm/node_container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.api.memory_annotations import NO_POLICY, OOM_GROUP, PREFIX, MemoryPolicy
from qoslet.core.api.memory_annotations import PROTECTION as PROTECTION_KEY
from qoslet.core.cgroup.interface_files import MEMORY_QOS, PROTECTION, UNLIMITED
from qoslet.core.resources.not_written import NotWritten, Reason
from qoslet.core.rules import memory

if TYPE_CHECKING:
    from qoslet.core.api.pod import QosClass
    from qoslet.core.resources.node_policy import NodePolicy

Row = tuple[str, str, tuple[str, tuple[object, ...]]]
"""A file, its value, and the rule with its inputs."""

Rows = Iterator[Row | NotWritten]
"""Files that are written, and reasons for files that are not."""

HARD_ONLY = ("1.22", "1.27", "design")
"""The variants that protect requests of every class with ``memory.min`` under any policy."""


class ProtectedRequests(Struct, frozen=True):
    """Memory requests of a node's pods that are protected, by class, in bytes."""

    guaranteed: int = 0
    burstable: int = 0

    @property
    def both(self) -> int:
        """Of all pods."""
        return self.guaranteed + self.burstable


def node_protects(policy: NodePolicy) -> bool:
    """Whether the requests of pods without annotations are protected."""
    return policy.memory_qos in HARD_ONLY or policy.reservation == "TieredReservation"


def protects(policy: NodePolicy, annotated: MemoryPolicy) -> bool:
    """Whether a pod's requests are protected: by its annotation, else by the node."""
    return node_protects(policy) if annotated.protection is None else annotated.protection


def _none(policy: NodePolicy, annotated: MemoryPolicy, *files: str) -> Iterator[Row]:
    """Zeros, with the reason."""
    why: tuple[str, tuple[object, ...]] = "memory.protection.none", (policy.reservation,)
    if annotated.protection is False:
        why = "memory.protection.annotation", (PREFIX + PROTECTION_KEY,)
    elif policy.memory_qos == "qoslet" and policy.reservation == "TieredReservation":
        why = "memory.protection.nothing", ()
    for file in files:
        yield file, "0", why


def _switched_off(policy: NodePolicy, *files: str) -> Iterator[NotWritten]:
    """Files that are not written because Memory QoS is disabled."""
    profile = policy.node.profile
    reason, detail = Reason.GATE_OFF, str(profile.memory_qos)
    if profile.memory_qos == "off":
        reason, detail = Reason.NO_RELEASE, profile.kubernetes
        if profile.memory_qos_forced:
            reason, detail = Reason.DISABLED, policy.node.origin("memoryQos")
    for file in files:
        yield NotWritten(file, reason, (detail,))


def _hard(policy: NodePolicy, request: int, rule: str, *inputs: object) -> Rows:
    """A request that ``memory.min`` protects in any class."""
    if request > 0:
        yield "memory.min", str(request), (rule, inputs or (request,))
    else:
        yield NotWritten("memory.min", Reason.NO_REQUEST)
    yield NotWritten("memory.low", Reason.MIN_ONLY, (policy.memory_qos,))


def _tiered(policy: NodePolicy, qos: QosClass, request: int) -> Rows:
    """A request that the pod's class protects with ``memory.min`` or ``memory.low``."""
    if policy.memory_qos != "qoslet":
        file, other = PROTECTION if qos == "Guaranteed" else PROTECTION[::-1]
        yield file, str(request), (f"{file}.tiered", (request,))
        yield NotWritten(other, Reason.OTHER_FILE, (qos, file))
        return
    hard = memory.less_an_eighth(request, policy.node.host.page_size)
    if qos == "Guaranteed":
        yield "memory.min", str(hard), ("memory.min.qoslet", (request, hard))
    else:
        yield "memory.min", "0", ("memory.min.soft", ())
    yield "memory.low", str(request), ("memory.low.qoslet", (request,))


def container_rows(
    policy: NodePolicy,
    qos: QosClass,
    request: int,
    limit: int,
    annotated: MemoryPolicy = NO_POLICY,
    name: str = "",
) -> Rows:
    """The entries for a container-level request and limit in bytes."""
    if policy.memory_qos == "off":
        yield from _switched_off(policy, *MEMORY_QOS)
        if policy.memory_qos_clears:
            yield "memory.high", "max", ("memory.high.cleared", ())
        return
    if not protects(policy, annotated) and annotated.protection is False:
        yield from _none(policy, annotated, *PROTECTION)
    elif policy.memory_qos in HARD_ONLY:
        yield from _hard(policy, request, "memory.min.request")
    elif protects(policy, annotated) and request:
        yield from _tiered(policy, qos, request)
    else:
        yield from _none(policy, annotated, *PROTECTION)
    yield _high(policy, qos, request, limit, annotated, name)


def high_skipped(variant: str, qos: QosClass, request: int, limit: int) -> str | None:
    """Why a variant writes no ``memory.high`` for this pod; None if it may."""
    if variant == "design" and qos == "Guaranteed":
        return Reason.GUARANTEED
    if request != limit or variant not in ("1.27", "1.36", "1.37", "qoslet"):
        return None
    if request > 0:
        return Reason.REQUEST_IS_LIMIT
    return Reason.BOTH_UNSET if variant in ("1.27", "1.36") else None


def _high(
    policy: NodePolicy, qos: QosClass, request: int, limit: int, annotated: MemoryPolicy, name: str
) -> Row | NotWritten:
    annotated_high = annotated.high_of(name)
    if annotated_high is not None:
        page = policy.node.host.page_size
        text = "max" if annotated_high[0] >= UNLIMITED else str(annotated_high[0] // page * page)
        why = "memory.high.annotation", (annotated_high[1], annotated.text(annotated_high[1]))
        return "memory.high", text, why
    variant, factor = policy.memory_qos, factor_of(policy, annotated)
    if factor is None:
        return NotWritten("memory.high", Reason.NO_FACTOR, (variant,))
    skipped = high_skipped(variant, qos, request, limit)
    if skipped is not None:
        return NotWritten("memory.high", skipped, (request,))
    base, page = limit or policy.unevicted_memory, policy.node.host.page_size
    if variant == "1.22":
        high = memory.high_1_22(request, limit, policy.unevicted_memory, factor)
        id = "memory.high.1.22"
    else:
        high = memory.high_1_27(request, limit, policy.unevicted_memory, factor, page)
        id = "memory.high.1.27"
    if high is None:
        return NotWritten("memory.high", Reason.NO_ROOM, (request, base, factor))
    return "memory.high", str(high), (id, (request, limit, base, factor, page, high))


def factor_of(policy: NodePolicy, annotated: MemoryPolicy) -> float | None:
    """The throttling factor of a pod: its annotation's, else the node's; None: no throttling."""
    return policy.factor if annotated.factor is None else annotated.factor


def oom_group_row(policy: NodePolicy, annotated: MemoryPolicy) -> Row | NotWritten:
    """``memory.oom.group`` of a container, on v2."""
    if policy.v2 and annotated.oom_group is not None:
        key = PREFIX + OOM_GROUP
        text = annotated.text(key)
        return (
            "memory.oom.group",
            str(int(annotated.oom_group)),
            ("memory.oom.group.annotation", (key, text)),
        )
    if policy.oom_group:
        return "memory.oom.group", "1", ("memory.oom.group", ())
    since = policy.choices.oom_group
    return NotWritten(
        "memory.oom.group", Reason.SINGLE_PROCESS if since else Reason.OOM_GROUP_SINCE
    )


def pod_rows(policy: NodePolicy, qos: QosClass, request: int, annotated: MemoryPolicy) -> Rows:
    """Protection of a pod's cgroup for its aggregated request in bytes."""
    variant = policy.memory_qos
    if variant == "off":
        yield from _switched_off(policy, *PROTECTION)
        return
    if annotated.protection is False:
        yield from _none(policy, annotated, *PROTECTION)
    elif variant in HARD_ONLY:
        yield from _hard(policy, request, "memory.min.request")
    elif request > 0 and protects(policy, annotated):
        yield from _tiered(policy, qos, request)
    elif variant == "qoslet":
        yield from _none(policy, annotated, *PROTECTION)
    else:
        protected = protects(policy, annotated)
        reason = Reason.NO_REQUEST if protected else Reason.NOT_PROTECTED
        for file in PROTECTION:
            yield NotWritten(file, reason, (policy.reservation,))


def pod_high_row(
    policy: NodePolicy, request: int, limit: int, level_limit: int, annotated: MemoryPolicy
) -> Row | NotWritten:
    """``memory.high`` of 1.37 for a pod with a pod-level memory limit, from the pod's sums."""
    factor, variant = factor_of(policy, annotated), policy.memory_qos
    if variant == "off":
        return next(_switched_off(policy, "memory.high"))
    if variant != "1.37" or not level_limit:
        return NotWritten("memory.high", Reason.HIGH_ON_CONTAINERS)
    if factor is None:
        return NotWritten("memory.high", Reason.NO_FACTOR, (variant,))
    if request == limit:
        return NotWritten("memory.high", Reason.REQUEST_IS_LIMIT, (request,))
    if annotated.high is not None and annotated.high >= UNLIMITED:
        return NotWritten("memory.high", Reason.UNTHROTTLED)
    page = policy.node.host.page_size
    high = memory.high_1_27(request, limit, policy.unevicted_memory, factor, page)
    if high is None:
        return NotWritten("memory.high", Reason.NO_ROOM, (request, limit, factor))
    return (
        "memory.high",
        str(high),
        ("memory.high.pod", (request, limit, limit, factor, page, high)),
    )


def node_rows(policy: NodePolicy, protected_requests: ProtectedRequests) -> Rows:
    """Protection of kubepods."""
    variant, hard, soft = (
        policy.memory_qos,
        protected_requests.guaranteed,
        protected_requests.burstable,
    )
    if variant == "off":
        yield from _switched_off(policy, *PROTECTION)
        if policy.memory_qos_clears:
            for file in PROTECTION:
                yield file, "0", ("memory.protection.none", ("off",))
    elif variant == "design" and "pods" not in policy.node.kubelet.enforce_node_allocatable:
        for file in PROTECTION:
            yield NotWritten(file, Reason.PODS_NOT_ENFORCED)
    elif variant in HARD_ONLY:
        yield from _hard(policy, protected_requests.both, "memory.min.sum", hard, soft)
    elif variant == "qoslet":
        yield from ancestor_rows(policy, protected_requests)
    elif policy.reservation == "TieredReservation" or protected_requests.both:
        yield "memory.min", str(protected_requests.both), ("memory.min.sum", (hard, soft))
        if variant != "1.36":
            yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(policy, NO_POLICY, *(PROTECTION[:1] if variant == "1.36" else PROTECTION))
    if variant == "1.36":
        yield NotWritten("memory.low", Reason.NOT_ON_KUBEPODS)


def ancestor_rows(policy: NodePolicy, protected_requests: ProtectedRequests) -> Iterator[Row]:
    """What variant qoslet writes on a cgroup above all pods: the sum of their protection."""
    if not protected_requests.both and policy.reservation != "TieredReservation":
        yield from _none(policy, NO_POLICY, *PROTECTION)
        return
    hard, soft = protected_requests.guaranteed, protected_requests.burstable
    amount = memory.less_an_eighth(hard, policy.node.host.page_size)
    yield "memory.min", str(amount), ("memory.min.sum.qoslet", (hard, amount))
    yield "memory.low", str(protected_requests.both), ("memory.low.sum.qoslet", (hard, soft))


def qos_cgroup_rows(
    policy: NodePolicy, protected_requests: ProtectedRequests, qos_cgroup: str
) -> Rows:
    """Protection of the burstable or the besteffort QoS cgroup."""
    variant, soft = policy.memory_qos, protected_requests.burstable
    if variant == "off":
        yield from _switched_off(policy, *PROTECTION)
        if policy.memory_qos_clears and qos_cgroup == "burstable":
            yield "memory.low", "0", ("memory.protection.none", ("off",))
    elif qos_cgroup == "besteffort":
        if variant == "qoslet":
            yield from _none(policy, NO_POLICY, *PROTECTION)
        else:
            for file in PROTECTION:
                yield NotWritten(file, Reason.BEST_EFFORT_TIER)
    elif variant in HARD_ONLY:
        yield from _hard(policy, soft, "memory.low.sum")
    elif policy.reservation == "TieredReservation" or soft:
        if variant == "qoslet":
            yield "memory.min", "0", ("memory.min.soft", ())
        else:
            yield NotWritten("memory.min", Reason.LOW_PROTECTS)
        yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(
            policy, NO_POLICY, *(PROTECTION if variant == "qoslet" else PROTECTION[1:])
        )
        yield NotWritten("memory.min", Reason.LOW_PROTECTS)


def reserved_rows(policy: NodePolicy, what: str, reserved: int) -> Rows:
    """Protection of a reservation's cgroup, under any policy, as in the kubelet."""
    if policy.memory_qos == "off":
        yield from _switched_off(policy, *PROTECTION)
        return
    if reserved <= 0:
        return
    if policy.memory_qos != "qoslet":
        yield "memory.min", str(reserved), ("memory.min.reserved", (what, reserved))
        yield NotWritten("memory.low", Reason.RESERVED_MIN, (policy.memory_qos,))
        return
    hard = memory.less_an_eighth(reserved, policy.node.host.page_size)
    yield "memory.min", str(hard), ("memory.min.reserved.qoslet", (what, reserved, hard))
    yield "memory.low", str(reserved), ("memory.low.reserved", (what, reserved))
