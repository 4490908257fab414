"""The QoS class of a pod, and the fields that decided it.

Only cpu and memory count, and only amounts above zero. Sums over the pod are compared, not
containers one by one. Source: kubelet pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.api.pod import Container, Pod, QosClass, Quantities, Resources

_COUNTED = ("cpu", "memory")


class QosRules(Struct, frozen=True, gc=False):
    """What differs between releases. ``pod_level``: pod-level resources decide alone where the
    field is present; ``empty_pod_level``: even an empty one does (the quirk up to 1.36)."""

    init_containers: bool = True
    pod_level: bool = True
    empty_pod_level: bool = True


CURRENT = QosRules()


def pod_level_counts(pod: Pod, rules: QosRules) -> bool:
    """Whether the pod-level resources decide alone."""
    if pod.resources is None or not rules.pod_level:
        return False
    return rules.empty_pod_level or bool(pod.resources.requests or pod.resources.limits)


def counted(pod: Pod, rules: QosRules) -> list[Container]:
    """The containers whose resources decide; ephemeral ones never do."""
    kinds = ("regular", "init", "sidecar") if rules.init_containers else ("regular",)
    return [container for container in pod.containers if container.role in kinds]


def _positive(quantities: Quantities) -> dict[str, int]:
    return {
        name: quantities[name].nano
        for name in _COUNTED
        if name in quantities and quantities[name].nano > 0
    }


def _summed(lists: list[Quantities]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for quantities in lists:
        for name, nano in _positive(quantities).items():
            sums[name] = sums.get(name, 0) + nano
    return sums


def _lists(pod: Pod, rules: QosRules) -> list[Resources]:
    if pod_level_counts(pod, rules) and pod.resources is not None:
        return [pod.resources]
    return [container.resources for container in counted(pod, rules)]


def classify(pod: Pod, rules: QosRules = CURRENT) -> QosClass:
    """The class as the code of a release computes it (``status.qosClass`` is not consulted)."""
    lists = _lists(pod, rules)
    requests = _summed([resources.requests for resources in lists])
    limits = _summed([resources.limits for resources in lists])
    if not requests and not limits:
        return "BestEffort"
    if requests == limits and all(len(_positive(r.limits)) == len(_COUNTED) for r in lists):
        return "Guaranteed"
    return "Burstable"


def decided_by(pod: Pod, rules: QosRules = CURRENT) -> list[str]:
    """The fields that decide about the class, with their amounts; one sentence each."""
    if pod_level_counts(pod, rules) and pod.resources is not None:
        fields = [("spec.resources", pod.resources)]
        facts = ["spec.resources is present: containers do not count"]
    else:
        fields = [(f"{c.field}.resources", c.resources) for c in counted(pod, rules)]
        facts = []
    set_fields = [
        f"{field}.{kind}.{name} = {amounts[name]}"
        for field, resources in fields
        for kind, amounts in (("requests", resources.requests), ("limits", resources.limits))
        for name in _COUNTED
        if name in amounts and amounts[name].nano > 0
    ]
    if not set_fields:
        return [*facts, "no container has a cpu or memory request or limit above zero"]
    missing = [
        f"{field}.limits.{name} is not set"
        for field, resources in fields
        for name in _COUNTED
        if name not in _positive(resources.limits)
    ]
    unequal = _unequal([resources for _, resources in fields])
    if not missing and not unequal:
        facts.append(
            "all containers that count limit cpu and memory, and requests add up to the limits"
        )
    return [*facts, *missing, *unequal, *set_fields]


def _unequal(lists: list[Resources]) -> list[str]:
    requests = _summed([resources.requests for resources in lists])
    limits = _summed([resources.limits for resources in lists])
    return [
        f"the sum of {name} requests differs from the sum of {name} limits"
        for name in _COUNTED
        if requests.get(name) != limits.get(name) and name in requests and name in limits
    ]
