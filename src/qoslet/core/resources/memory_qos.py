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
from qoslet.core.rules import memory

if TYPE_CHECKING:
    from qoslet.core.api.pod import QosClass
    from qoslet.core.resources.node_policy import NodePolicy

Row = tuple[str, str, tuple[str, tuple[object, ...]]]
"""A file, its value, and the rule with its inputs."""

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


def _tiered(policy: NodePolicy, qos: QosClass, request: int) -> Iterator[Row]:
    """A request that is protected, by the class of the pod."""
    if policy.memory_qos != "qoslet":
        if qos == "Guaranteed":
            yield "memory.min", str(request), ("memory.min.tiered", (request,))
        else:
            yield "memory.low", str(request), ("memory.low.tiered", (request,))
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
) -> Iterator[Row]:
    """The entries for a container-level request and limit in bytes."""
    if policy.memory_qos == "off":
        if policy.memory_qos_clears:
            yield "memory.high", "max", ("memory.high.cleared", ())
        return
    if not protects(policy, annotated) and annotated.protection is False:
        yield from _none(policy, annotated, *BOTH)
    elif policy.memory_qos in HARD_ONLY:
        if request:
            yield "memory.min", str(request), ("memory.min.request", (request,))
    elif protects(policy, annotated) and request:
        yield from _tiered(policy, qos, request)
    else:
        yield from _none(policy, annotated, *BOTH)
    yield from _high(policy, qos, request, limit, annotated, name)


def high_skipped(form: str, qos: QosClass, request: int, limit: int) -> str:
    """Why a form writes no ``memory.high`` whatever the numbers; empty where it may."""
    if form == "design" and qos == "Guaranteed":
        return "Guaranteed pods are not throttled"
    if form in ("1.27", "1.36") and request == limit:
        return "memory request equals limit (both unset counts, too)"
    if form in ("1.37", "qoslet") and request == limit and request > 0:
        return "memory request equals limit"
    return ""


def _high(
    policy: NodePolicy, qos: QosClass, request: int, limit: int, annotated: MemoryPolicy, name: str
) -> Iterator[Row]:
    own = annotated.high_of(name)
    if own is not None:
        page = policy.node.host.page_size
        text = "max" if own[0] >= UNLIMITED else str(own[0] // page * page)
        why = "memory.high.annotation", (own[1], annotated.text(own[1]))
        yield "memory.high", text, why
        return
    form, factor = policy.memory_qos, factor_of(policy, annotated)
    if factor is None or high_skipped(form, qos, request, limit):
        return
    base, page = limit or policy.unevicted_memory, policy.node.host.page_size
    if form == "1.22":
        high = memory.high_1_22(request, limit, policy.unevicted_memory, factor)
        id = "memory.high.1.22"
    else:
        high = memory.high_1_27(request, limit, policy.unevicted_memory, factor, page)
        id = "memory.high.1.27"
    if high is not None:
        yield "memory.high", str(high), (id, (request, limit, base, factor, page, high))


def factor_of(policy: NodePolicy, annotated: MemoryPolicy) -> float | None:
    """The throttling factor of a pod: its own, else the node's; None: nothing is throttled."""
    return policy.factor if annotated.factor is None else annotated.factor


def oom_group_row(policy: NodePolicy, annotated: MemoryPolicy) -> Row | None:
    """``memory.oom.group`` of a container, on v2; None where it is not written."""
    if policy.v2 and annotated.oom_group is not None:
        key = PREFIX + OOM_GROUP
        text = annotated.text(key)
        return (
            "memory.oom.group",
            str(int(annotated.oom_group)),
            ("memory.oom.group.annotation", (key, text)),
        )
    return ("memory.oom.group", "1", ("memory.oom.group", ())) if policy.oom_group else None


def pod_rows(
    policy: NodePolicy, qos: QosClass, request: int, annotated: MemoryPolicy
) -> Iterator[Row]:
    """Protection of a pod's group for its aggregated request in bytes."""
    form = policy.memory_qos
    if form == "off":
        return
    if annotated.protection is False:
        yield from _none(policy, annotated, *BOTH)
    elif request > 0 and form in HARD_ONLY:
        yield "memory.min", str(request), ("memory.min.request", (request,))
    elif request > 0 and protects(policy, annotated):
        yield from _tiered(policy, qos, request)
    elif form == "qoslet":
        yield from _none(policy, annotated, *BOTH)


def pod_high_row(
    policy: NodePolicy, request: int, limit: int, level_limit: int, annotated: MemoryPolicy
) -> Row | None:
    """``memory.high`` of 1.37 for a pod with a pod-level memory limit, from the pod's sums."""
    factor = factor_of(policy, annotated)
    if policy.memory_qos != "1.37" or factor is None or not level_limit or request == limit:
        return None
    if annotated.high is not None and annotated.high >= UNLIMITED:
        return None
    page = policy.node.host.page_size
    high = memory.high_1_27(request, limit, policy.unevicted_memory, factor, page)
    if high is None:
        return None
    return (
        "memory.high",
        str(high),
        (
            "memory.high.pod",
            (request, limit, limit, factor, page, high),
        ),
    )


def node_rows(policy: NodePolicy, protected_requests: ProtectedRequests) -> Iterator[Row]:
    """Protection of kubepods."""
    form, hard, soft = (
        policy.memory_qos,
        protected_requests.guaranteed,
        protected_requests.burstable,
    )
    if form == "off":
        if policy.memory_qos_clears:
            for file in BOTH:
                yield file, "0", ("memory.protection.none", ("off",))
    elif form in HARD_ONLY:
        if protected_requests.both > 0:
            yield "memory.min", str(protected_requests.both), ("memory.min.sum", (hard, soft))
    elif form == "qoslet":
        yield from ancestor_rows(policy, protected_requests)
    elif policy.reservation == "TieredReservation" or protected_requests.both:
        yield "memory.min", str(protected_requests.both), ("memory.min.sum", (hard, soft))
        if form != "1.36":
            yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(policy, NO_POLICY, *(BOTH[:1] if form == "1.36" else BOTH))


def ancestor_rows(policy: NodePolicy, protected_requests: ProtectedRequests) -> Iterator[Row]:
    """What form qoslet writes on a group above all pods: as much as they are promised."""
    if not protected_requests.both and policy.reservation != "TieredReservation":
        yield from _none(policy, NO_POLICY, *BOTH)
        return
    hard, soft = protected_requests.guaranteed, protected_requests.burstable
    amount = memory.less_an_eighth(hard, policy.node.host.page_size)
    yield "memory.min", str(amount), ("memory.min.sum.qoslet", (hard, amount))
    yield "memory.low", str(protected_requests.both), ("memory.low.sum.qoslet", (hard, soft))


def tier_rows(
    policy: NodePolicy, protected_requests: ProtectedRequests, tier: str
) -> Iterator[Row]:
    """Protection of the burstable or the besteffort tier."""
    form, soft = policy.memory_qos, protected_requests.burstable
    if tier == "besteffort":
        if form == "qoslet":
            yield from _none(policy, NO_POLICY, *BOTH)
        return
    if form in HARD_ONLY:
        if soft > 0:
            yield "memory.min", str(soft), ("memory.low.sum", (soft,))
    elif form == "off":
        if policy.memory_qos_clears:
            yield "memory.low", "0", ("memory.protection.none", ("off",))
    elif policy.reservation == "TieredReservation" or soft:
        if form == "qoslet":
            yield "memory.min", "0", ("memory.min.soft", ())
        yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(policy, NO_POLICY, *(BOTH if form == "qoslet" else BOTH[1:]))


def reserved_rows(policy: NodePolicy, what: str, held: int) -> Iterator[Row]:
    """Protection of a reserved group: no policy is asked, as in the kubelet."""
    if policy.memory_qos == "off" or held <= 0:
        return
    if policy.memory_qos != "qoslet":
        yield "memory.min", str(held), ("memory.min.reserved", (what, held))
        return
    hard = memory.less_an_eighth(held, policy.node.host.page_size)
    yield "memory.min", str(hard), ("memory.min.reserved.qoslet", (what, held, hard))
    yield "memory.low", str(held), ("memory.low.reserved", (what, held))
