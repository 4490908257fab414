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
from qoslet.core.cgroup.interface_files import NO_LIMIT
from qoslet.core.rules import memory

if TYPE_CHECKING:
    from qoslet.core.api.pod import QosClass
    from qoslet.core.resources.node_policy import Basis

Row = tuple[str, str, tuple[str, tuple[object, ...]]]
"""A file, its value, and the rule with its inputs."""

HARD_ONLY = ("1.22", "1.27", "design")
"""The forms that protect requests of every class with ``memory.min``, whatever the policy says."""

BOTH = ("memory.min", "memory.low")


class Promised(Struct, frozen=True):
    """Memory requests of a node's pods that are protected, by class, in bytes."""

    guaranteed: int = 0
    burstable: int = 0

    @property
    def both(self) -> int:
        """Of all pods."""
        return self.guaranteed + self.burstable


def node_protects(basis: Basis) -> bool:
    """Whether requests are protected where a pod says nothing."""
    return basis.memory_qos in HARD_ONLY or basis.policy == "TieredReservation"


def protects(basis: Basis, policy: MemoryPolicy) -> bool:
    """Whether a pod's requests are protected: its own word, else the node's."""
    return node_protects(basis) if policy.protection is None else policy.protection


def _none(basis: Basis, policy: MemoryPolicy, *files: str) -> Iterator[Row]:
    """Zeros, and who asks for them."""
    why: tuple[str, tuple[object, ...]] = "memory.protection.none", (basis.policy,)
    if policy.protection is False:
        why = "memory.protection.annotation", (PREFIX + PROTECTION,)
    elif basis.memory_qos == "qoslet" and basis.policy == "TieredReservation":
        why = "memory.protection.nothing", ()
    for file in files:
        yield file, "0", why


def _tiered(basis: Basis, qos: QosClass, request: int) -> Iterator[Row]:
    """A request that is protected, by the class of the pod."""
    if basis.memory_qos != "qoslet":
        if qos == "Guaranteed":
            yield "memory.min", str(request), ("memory.min.tiered", (request,))
        else:
            yield "memory.low", str(request), ("memory.low.tiered", (request,))
        return
    hard = memory.less_an_eighth(request, basis.node.host.page_size)
    if qos == "Guaranteed":
        yield "memory.min", str(hard), ("memory.min.qoslet", (request, hard))
    else:
        yield "memory.min", "0", ("memory.min.soft", ())
    yield "memory.low", str(request), ("memory.low.qoslet", (request,))


def container_rows(
    basis: Basis,
    qos: QosClass,
    request: int,
    limit: int,
    policy: MemoryPolicy = NO_POLICY,
    name: str = "",
) -> Iterator[Row]:
    """The entries for a container-level request and limit in bytes."""
    if basis.memory_qos == "off":
        if basis.memory_qos_clears:
            yield "memory.high", "max", ("memory.high.cleared", ())
        return
    if not protects(basis, policy) and policy.protection is False:
        yield from _none(basis, policy, *BOTH)
    elif basis.memory_qos in HARD_ONLY:
        if request:
            yield "memory.min", str(request), ("memory.min.request", (request,))
    elif protects(basis, policy) and request:
        yield from _tiered(basis, qos, request)
    else:
        yield from _none(basis, policy, *BOTH)
    yield from _high(basis, qos, request, limit, policy, name)


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
    basis: Basis, qos: QosClass, request: int, limit: int, policy: MemoryPolicy, name: str
) -> Iterator[Row]:
    own = policy.high_of(name)
    if own is not None:
        page = basis.node.host.page_size
        text = "max" if own[0] >= NO_LIMIT else str(own[0] // page * page)
        why = "memory.high.annotation", (own[1], policy.text(own[1]))
        yield "memory.high", text, why
        return
    form, factor = basis.memory_qos, factor_of(basis, policy)
    if factor is None or high_skipped(form, qos, request, limit):
        return
    base, page = limit or basis.unevicted_memory, basis.node.host.page_size
    if form == "1.22":
        high = memory.high_1_22(request, limit, basis.unevicted_memory, factor)
        id = "memory.high.1.22"
    else:
        high = memory.high_1_27(request, limit, basis.unevicted_memory, factor, page)
        id = "memory.high.1.27"
    if high is not None:
        yield "memory.high", str(high), (id, (request, limit, base, factor, page, high))


def factor_of(basis: Basis, policy: MemoryPolicy) -> float | None:
    """The throttling factor of a pod: its own, else the node's; None: nothing is throttled."""
    return basis.factor if policy.factor is None else policy.factor


def oom_group_row(basis: Basis, policy: MemoryPolicy) -> Row | None:
    """``memory.oom.group`` of a container, on v2; None where it is not written."""
    if basis.v2 and policy.oom_group is not None:
        key = PREFIX + OOM_GROUP
        text = policy.text(key)
        return (
            "memory.oom.group",
            str(int(policy.oom_group)),
            ("memory.oom.group.annotation", (key, text)),
        )
    return ("memory.oom.group", "1", ("memory.oom.group", ())) if basis.oom_group else None


def pod_rows(basis: Basis, qos: QosClass, request: int, policy: MemoryPolicy) -> Iterator[Row]:
    """Protection of a pod's group for its aggregated request in bytes."""
    form = basis.memory_qos
    if form == "off":
        return
    if policy.protection is False:
        yield from _none(basis, policy, *BOTH)
    elif request > 0 and form in HARD_ONLY:
        yield "memory.min", str(request), ("memory.min.request", (request,))
    elif request > 0 and protects(basis, policy):
        yield from _tiered(basis, qos, request)
    elif form == "qoslet":
        yield from _none(basis, policy, *BOTH)


def pod_high_row(
    basis: Basis, request: int, limit: int, level_limit: int, policy: MemoryPolicy
) -> Row | None:
    """``memory.high`` of 1.37 for a pod with a pod-level memory limit, from the pod's sums."""
    factor = factor_of(basis, policy)
    if basis.memory_qos != "1.37" or factor is None or not level_limit or request == limit:
        return None
    if policy.high is not None and policy.high >= NO_LIMIT:
        return None
    page = basis.node.host.page_size
    high = memory.high_1_27(request, limit, basis.unevicted_memory, factor, page)
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


def node_rows(basis: Basis, promised: Promised) -> Iterator[Row]:
    """Protection of kubepods."""
    form, hard, soft = basis.memory_qos, promised.guaranteed, promised.burstable
    if form == "off":
        if basis.memory_qos_clears:
            for file in BOTH:
                yield file, "0", ("memory.protection.none", ("off",))
    elif form in HARD_ONLY:
        if promised.both > 0:
            yield "memory.min", str(promised.both), ("memory.min.sum", (hard, soft))
    elif form == "qoslet":
        yield from covering_rows(basis, promised)
    elif basis.policy == "TieredReservation" or promised.both:
        yield "memory.min", str(promised.both), ("memory.min.sum", (hard, soft))
        if form != "1.36":
            yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(basis, NO_POLICY, *(BOTH[:1] if form == "1.36" else BOTH))


def covering_rows(basis: Basis, promised: Promised) -> Iterator[Row]:
    """What form qoslet writes on a group above all pods: as much as they are promised."""
    if not promised.both and basis.policy != "TieredReservation":
        yield from _none(basis, NO_POLICY, *BOTH)
        return
    hard, soft = promised.guaranteed, promised.burstable
    amount = memory.less_an_eighth(hard, basis.node.host.page_size)
    yield "memory.min", str(amount), ("memory.min.sum.qoslet", (hard, amount))
    yield "memory.low", str(promised.both), ("memory.low.sum.qoslet", (hard, soft))


def tier_rows(basis: Basis, promised: Promised, tier: str) -> Iterator[Row]:
    """Protection of the burstable or the besteffort tier."""
    form, soft = basis.memory_qos, promised.burstable
    if tier == "besteffort":
        if form == "qoslet":
            yield from _none(basis, NO_POLICY, *BOTH)
        return
    if form in HARD_ONLY:
        if soft > 0:
            yield "memory.min", str(soft), ("memory.low.sum", (soft,))
    elif form == "off":
        if basis.memory_qos_clears:
            yield "memory.low", "0", ("memory.protection.none", ("off",))
    elif basis.policy == "TieredReservation" or soft:
        if form == "qoslet":
            yield "memory.min", "0", ("memory.min.soft", ())
        yield "memory.low", str(soft), ("memory.low.sum", (soft,))
    else:
        yield from _none(basis, NO_POLICY, *(BOTH if form == "qoslet" else BOTH[1:]))


def reserved_rows(basis: Basis, what: str, held: int) -> Iterator[Row]:
    """Protection of a reserved group: no policy is asked, as in the kubelet."""
    if basis.memory_qos == "off" or held <= 0:
        return
    if basis.memory_qos != "qoslet":
        yield "memory.min", str(held), ("memory.min.reserved", (what, held))
        return
    hard = memory.less_an_eighth(held, basis.node.host.page_size)
    yield "memory.min", str(hard), ("memory.min.reserved.qoslet", (what, held, hard))
    yield "memory.low", str(held), ("memory.low.reserved", (what, held))
