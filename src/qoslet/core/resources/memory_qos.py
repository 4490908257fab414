"""Memory QoS (KEP-2570): what each form protects and throttles, at every level of the tree.

Form ``qoslet`` is the program's own: every ancestor covers what its children are promised, no
``memory.min`` reaches ``memory.max``, and all values are written, zeros included. Sources of the
others: kubelet kuberuntime_container_linux.go, cm/qos_container_manager_linux.go,
cm/helpers_linux.go, cm/node_container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.api.memory_annotations import (
    NO_POLICY,
    OOM_GROUP,
    PREFIX,
    PROTECTION,
    MemoryPolicy,
)
from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.resources.not_written import NotWritten, Reason
from qoslet.core.rules import memory

if TYPE_CHECKING:
    from qoslet.core.api.pod import QosClass
    from qoslet.core.resources.node_policy import NodePolicy

Row = tuple[str, str, tuple[str, tuple[object, ...]]]
"""A file, its value, and the rule with its inputs."""

Rows = Iterator[Row | NotWritten]
"""What is written, and what is left alone for a reason."""

HARD_ONLY = ("1.22", "1.27", "design")
"""The forms that protect requests of every class with ``memory.min``, whatever the policy says."""

BOTH = ("memory.min", "memory.low")


class ProtectedRequests(Struct, frozen=True):
    """Memory requests of a node's pods that are protected, by class, in bytes."""

    guaranteed: int = 0
    burstable: int = 0

    @property
    def both(self) -> int:
        """Of all pods."""
        return self.guaranteed + self.burstable


def node_protects(policy: NodePolicy) -> bool:
    """Whether requests are protected where a pod says nothing."""
    return policy.memory_qos in HARD_ONLY or policy.reservation == "TieredReservation"


def protects(policy: NodePolicy, annotated: MemoryPolicy) -> bool:
    """Whether a pod's requests are protected: its own word, else the node's."""
    return node_protects(policy) if annotated.protection is None else annotated.protection


def _none(policy: NodePolicy, annotated: MemoryPolicy, *files: str) -> Iterator[Row]:
    """Zeros, and who asks for them."""
    why: tuple[str, tuple[object, ...]] = "memory.protection.none", (policy.reservation,)
    if annotated.protection is False:
        why = "memory.protection.annotation", (PREFIX + PROTECTION,)
    elif policy.memory_qos == "qoslet" and policy.reservation == "TieredReservation":
        why = "memory.protection.nothing", ()
    for file in files:
        yield file, "0", why


def _switched_off(policy: NodePolicy, *files: str) -> Iterator[NotWritten]:
    """Files that are left alone because Memory QoS is not in force."""
    profile = policy.node.profile
    reason, told = Reason.GATE_OFF, str(profile.memory_qos)
    if profile.memory_qos == "off":
        reason, told = Reason.NO_RELEASE, profile.kubernetes
        if profile.memory_qos_forced:
            reason, told = Reason.DISABLED, policy.node.origin("memoryQos")
    for file in files:
        yield NotWritten(file, reason, (told,))


def _hard(policy: NodePolicy, request: int, rule: str, *inputs: object) -> Rows:
    """A request that ``memory.min`` protects whatever the class."""
    if request > 0:
        yield "memory.min", str(request), (rule, inputs or (request,))
    else:
        yield NotWritten("memory.min", Reason.NO_REQUEST)
    yield NotWritten("memory.low", Reason.MIN_ONLY, (policy.memory_qos,))


def _tiered(policy: NodePolicy, qos: QosClass, request: int) -> Rows:
    """A request that is protected, by the class of the pod."""
    if policy.memory_qos != "qoslet":
        file, other = BOTH if qos == "Guaranteed" else BOTH[::-1]
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
        yield from _switched_off(policy, *BOTH, "memory.high")
        if policy.memory_qos_clears:
            yield "memory.high", "max", ("memory.high.cleared", ())
        return
    if not protects(policy, annotated) and annotated.protection is False:
        yield from _none(policy, annotated, *BOTH)
    elif policy.memory_qos in HARD_ONLY:
        yield from _hard(policy, request, "memory.min.request")
    elif protects(policy, annotated) and request:
        yield from _tiered(policy, qos, request)
    else:
        yield from _none(policy, annotated, *BOTH)
    yield _high(policy, qos, request, limit, annotated, name)


def high_skipped(form: str, qos: QosClass, request: int, limit: int) -> Reason | None:
    """Why a variant writes no ``memory.high`` whatever the numbers; None where it may."""
    if form == "design" and qos == "Guaranteed":
        return Reason.GUARANTEED
    if request != limit or form not in ("1.27", "1.36", "1.37", "qoslet"):
        return None
    if request > 0:
        return Reason.REQUEST_IS_LIMIT
    return Reason.BOTH_UNSET if form in ("1.27", "1.36") else None


def _high(
    policy: NodePolicy, qos: QosClass, request: int, limit: int, annotated: MemoryPolicy, name: str
) -> Row | NotWritten:
    own = annotated.high_of(name)
    if own is not None:
        page = policy.node.host.page_size
        text = "max" if own[0] >= UNLIMITED else str(own[0] // page * page)
        why = "memory.high.annotation", (own[1], annotated.text(own[1]))
        return "memory.high", text, why
    form, factor = policy.memory_qos, factor_of(policy, annotated)
    if factor is None:
        return NotWritten("memory.high", Reason.NO_FACTOR, (form,))
    skipped = high_skipped(form, qos, request, limit)
    if skipped is not None:
        return NotWritten("memory.high", skipped, (request,))
    base, page = limit or policy.unevicted_memory, policy.node.host.page_size
    if form == "1.22":
        high = memory.high_1_22(request, limit, policy.unevicted_memory, factor)
        id = "memory.high.1.22"
    else:
        high = memory.high_1_27(request, limit, policy.unevicted_memory, factor, page)
        id = "memory.high.1.27"
    if high is None:
        return NotWritten("memory.high", Reason.NO_ROOM, (request, base, factor))
    return "memory.high", str(high), (id, (request, limit, base, factor, page, high))


def factor_of(policy: NodePolicy, annotated: MemoryPolicy) -> float | None:
    """The throttling factor of a pod: its own, else the node's; None: nothing is throttled."""
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
    """Protection of a pod's group for its aggregated request in bytes."""
    form = policy.memory_qos
    if form == "off":
        yield from _switched_off(policy, *BOTH)
        return
    if annotated.protection is False:
        yield from _none(policy, annotated, *BOTH)
    elif form in HARD_ONLY:
        yield from _hard(policy, request, "memory.min.request")
    elif request > 0 and protects(policy, annotated):
        yield from _tiered(policy, qos, request)
    elif form == "qoslet":
        yield from _none(policy, annotated, *BOTH)
    else:
        protected = protects(policy, annotated)
        reason = Reason.NO_REQUEST if protected else Reason.NOT_PROTECTED
        for file in BOTH:
            yield NotWritten(file, reason, (policy.reservation,))


def pod_high_row(
    policy: NodePolicy, request: int, limit: int, level_limit: int, annotated: MemoryPolicy
) -> Row | NotWritten:
    """``memory.high`` of 1.37 for a pod with a pod-level memory limit, from the pod's sums."""
    factor, form = factor_of(policy, annotated), policy.memory_qos
    if form == "off":
        return next(_switched_off(policy, "memory.high"))
    if form != "1.37" or not level_limit:
        return NotWritten("memory.high", Reason.HIGH_ON_CONTAINERS)
    if factor is None:
        return NotWritten("memory.high", Reason.NO_FACTOR, (form,))
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
        (
            "memory.high.pod",
            (request, limit, limit, factor, page, high),
        ),
    )


def node_rows(policy: NodePolicy, protected_requests: ProtectedRequests) -> Rows:
    """Protection of kubepods."""
    form, hard, soft = (
        policy.memory_qos,
        protected_requests.guaranteed,
        protected_requests.burstable,
    )
    if form == "off":
        yield from _switched_off(policy, *BOTH)
        if policy.memory_qos_clears:
            for file in BOTH:
                yield file, "0", ("memory.protection.none", ("off",))
    elif form in HARD_ONLY:
        yield from _hard(policy, protected_requests.both, "memory.min.sum", hard, soft)
    elif form == "qoslet":
        yield from ancestor_rows(policy, protected_requests)
    elif policy.reservation == "TieredReservation" or protected_requests.both:
        yield "memory.min", str(protected_requests.both), ("memory.min.sum", (hard, soft))
        if form != "1.36":
            yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(policy, NO_POLICY, *(BOTH[:1] if form == "1.36" else BOTH))
    if form == "1.36":
        yield NotWritten("memory.low", Reason.NOT_ON_KUBEPODS)


def ancestor_rows(policy: NodePolicy, protected_requests: ProtectedRequests) -> Iterator[Row]:
    """What form qoslet writes on a group above all pods: as much as they are promised."""
    if not protected_requests.both and policy.reservation != "TieredReservation":
        yield from _none(policy, NO_POLICY, *BOTH)
        return
    hard, soft = protected_requests.guaranteed, protected_requests.burstable
    amount = memory.less_an_eighth(hard, policy.node.host.page_size)
    yield "memory.min", str(amount), ("memory.min.sum.qoslet", (hard, amount))
    yield "memory.low", str(protected_requests.both), ("memory.low.sum.qoslet", (hard, soft))


def tier_rows(policy: NodePolicy, protected_requests: ProtectedRequests, tier: str) -> Rows:
    """Protection of the burstable or the besteffort tier."""
    form, soft = policy.memory_qos, protected_requests.burstable
    if form == "off":
        yield from _switched_off(policy, *BOTH)
        if policy.memory_qos_clears and tier == "burstable":
            yield "memory.low", "0", ("memory.protection.none", ("off",))
    elif tier == "besteffort":
        if form == "qoslet":
            yield from _none(policy, NO_POLICY, *BOTH)
        else:
            for file in BOTH:
                yield NotWritten(file, Reason.BEST_EFFORT_TIER)
    elif form in HARD_ONLY:
        yield from _hard(policy, soft, "memory.low.sum")
    elif policy.reservation == "TieredReservation" or soft:
        if form == "qoslet":
            yield "memory.min", "0", ("memory.min.soft", ())
        else:
            yield NotWritten("memory.min", Reason.LOW_PROTECTS)
        yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(policy, NO_POLICY, *(BOTH if form == "qoslet" else BOTH[1:]))
        yield NotWritten("memory.min", Reason.LOW_PROTECTS)


def reserved_rows(policy: NodePolicy, what: str, held: int) -> Rows:
    """Protection of a reserved group: no policy is asked, as in the kubelet."""
    if policy.memory_qos == "off":
        yield from _switched_off(policy, *BOTH)
        return
    if held <= 0:
        return
    if policy.memory_qos != "qoslet":
        yield "memory.min", str(held), ("memory.min.reserved", (what, held))
        yield NotWritten("memory.low", Reason.RESERVED_MIN, (policy.memory_qos,))
        return
    hard = memory.less_an_eighth(held, policy.node.host.page_size)
    yield "memory.min", str(hard), ("memory.min.reserved.qoslet", (what, held, hard))
    yield "memory.low", str(held), ("memory.low.reserved", (what, held))
