"""What a pod's own word on memory comes to on a node: the guard's mode, and annotations that
are without effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.api.memory_annotations import (
    FACTOR,
    GUARD,
    HIGH,
    OOM_GROUP,
    PREFIX,
    PROTECTION,
    AnnotationFinding,
    keys_of,
)
from qoslet.core.api.pod import Container, Pod, QosClass, Quantities
from qoslet.core.api.schema import child
from qoslet.core.pressure.guard_mode import Mode, default_mode
from qoslet.core.problem import Problem, Severity
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.memory_qos import HARD_ONLY, high_skipped
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.pod_template import is_windows

_PLACE = "metadata.annotations"
_BY_FACTOR = ("memory.high.1.22", "memory.high.1.27", "memory.high.pod")


class GuardMode(Struct, frozen=True):
    """What the guard of ``qoslet run`` may do to a pod, and who says so."""

    mode: Mode
    origin: Literal["annotation", "default"]
    because: str


def guard_mode(policy: NodePolicy, pod: Pod) -> GuardMode | None:
    """The guard's mode for a pod where ``--guard`` is not given, which nothing that only plans
    knows; None for Windows containers, which have no guard."""
    if is_windows(policy, pod):
        return None
    if pod.memory.guard is not None:
        return GuardMode(pod.memory.guard, "annotation", f"annotation {PREFIX}{GUARD}")
    variant = policy.memory_qos
    why = "without Memory QoS" if variant == "off" else f"with Memory QoS {variant}"
    because = f"the default {why}; --guard overrides it"
    return GuardMode(default_mode(variant), "default", with_refusals(because, refused(pod, GUARD)))


def refused(pod: Pod, *names: str) -> tuple[AnnotationFinding, ...]:
    """The annotations that were refused of those ``names``."""
    keys, found = {PREFIX + name for name in names}, pod.memory.findings
    return tuple(one for one in found if one.severity == "error" and one.key in keys)


def with_refusals(because: str, findings: Iterable[AnnotationFinding]) -> str:
    """A reason, with the annotations that would have decided otherwise."""
    return "; ".join(
        [because, *(f"annotation {one.key} is rejected: {one.message}" for one in findings)]
    )


def findings(
    policy: NodePolicy, pod: Pod, qos: QosClass, requests: Quantities, written: Sequence[Setting]
) -> Iterator[Problem]:
    """Everything about a pod's annotations that does not count, ``where`` in the pod."""
    for one in pod.memory.findings:
        yield Problem(one.severity, child(_PLACE, one.key), one.message, one.hint)
    yield from without_effect(policy, pod, qos, requests, written)


def without_effect(
    policy: NodePolicy, pod: Pod, qos: QosClass, requests: Quantities, written: Sequence[Setting]
) -> Iterator[Problem]:
    """Annotations of a pod that change nothing on this node. ``requests`` are the pod's sums,
    ``written`` what its groups get; ``where`` is in the pod."""
    annotated = pod.memory
    if not annotated.given:
        return
    if is_windows(policy, pod):
        for key, _ in annotated.given:
            message = "has no effect: the pod's containers are Windows containers"
            yield _row("warning", key, message, "it is for Linux containers")
        return
    if policy.memory_qos == "off":
        yield from _off(policy, pod)
    else:
        yield from _factor(policy, pod, qos, written)
        yield from _protection(policy, pod, requests)
    if not policy.v2:
        for key in keys_of(annotated, OOM_GROUP):
            message = "has no effect: cgroup v1 has no memory.oom.group"
            yield _row("warning", key, message, "it needs cgroup v2")
    if policy.node.kubelet_given and policy.runtime.oci != "process":
        message = "a kubelet ignores qoslet annotations and writes other values"
        yield Problem("info", _PLACE, message, "qoslet run and apply use them")


def _row(severity: Severity, key: str, message: str, hint: str) -> Problem:
    return Problem(severity, child(_PLACE, key), message, hint)


def _off(policy: NodePolicy, pod: Pod) -> Iterator[Problem]:
    for key in keys_of(pod.memory, HIGH, FACTOR, PROTECTION):
        hint = "enable it: --memory-qos qoslet, or the feature gate MemoryQoS"
        if not policy.v2:
            hint = "it needs cgroup v2"
        yield _row("warning", key, "has no effect: Memory QoS is disabled on this node", hint)


def _factor(
    policy: NodePolicy, pod: Pod, qos: QosClass, written: Sequence[Setting]
) -> Iterator[Problem]:
    """A factor that makes no memory.high."""
    annotated = pod.memory
    if annotated.factor is None or any(row.rule in _BY_FACTOR for row in written):
        return
    (key,) = keys_of(annotated, FACTOR)
    others = [one for one in pod.containers if annotated.high_of(one.name) is None]
    if not others:
        message = "has no effect: memory-high sets the value itself"
        yield _row("info", key, message, "keep one of them")
        return
    reasons = dict.fromkeys(_unthrottled(policy, qos, one) for one in others)
    hint = "set a limit above the request, or remove the factor"
    yield _row("warning", key, f"has no effect: {', '.join(reasons)}", hint)


def _unthrottled(policy: NodePolicy, qos: QosClass, container: Container) -> str:
    """Why a factor makes no memory.high of a container."""
    own = container.resources
    request = own.requests.get("memory", ZERO).value
    limit = own.limits.get("memory", ZERO).value
    if request == limit > 0:
        return "the memory request equals the limit: nothing to throttle"
    skipped = high_skipped(policy.memory_qos, qos, request, limit)
    if skipped is not None:
        return skipped.format(request)
    return "it gives no memory.high above the request"


def _protection(policy: NodePolicy, pod: Pod, requests: Quantities) -> Iterator[Problem]:
    """Protection that is asked for where there is nothing to protect, or was already."""
    if pod.memory.protection is not True:
        return
    (key,) = keys_of(pod.memory, PROTECTION)
    if not requests.get("memory", ZERO).value:
        message = "has no effect: the pod requests no memory"
        yield _row("warning", key, message, "set a memory request")
    elif policy.memory_qos in HARD_ONLY:
        message = f"has no effect: variant {policy.memory_qos} protects every pod"
        yield _row("info", key, message, "remove it")
