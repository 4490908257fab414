"""A pod's requests and limits as one list: containers summed, init containers by maximum.

For each resource: max(regular + sidecars, the largest step of the init phase), where a step is
the sidecars started before it plus the init container itself. Pod-level resources replace the
sums of cpu, memory and hugepages; overhead is added to requests, and to limits that exist.
Source: k8s.io/component-helpers/resource/helpers.go PodRequests, PodLimits.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from qoslet.core.api.pod import NO_QUANTITIES, Container, Pod, Quantities, Resources
from qoslet.core.quantity import add


class SumRules(Struct, frozen=True, gc=False):
    """What differs between releases.

    ``pod_level``: pod-level resources replace sums; ``overhead``: it exists; ``init_by_max``:
    init containers count; ``init_declares``: an init step without a limit makes the pod's limit
    undeclared.
    """

    pod_level: bool = True
    overhead: bool = True
    init_by_max: bool = True
    init_declares: bool = True


CURRENT = SumRules()


def pod_level_name(name: str) -> bool:
    """Whether pod-level resources support this resource."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def pod_level_set(resources: Resources | None) -> bool:
    """Whether any supported pod-level request or limit is given. Source: IsPodLevelResourcesSet."""
    if resources is None:
        return False
    return any(pod_level_name(name) for name in (*resources.requests, *resources.limits))


def _merged(left: Quantities, right: Quantities) -> Quantities:
    if not left:
        return right
    if not right:
        return left
    sums = dict(left)
    for name, amount in right.items():
        sums[name] = add(sums[name], amount) if name in sums else amount
    return sums


def _largest(left: Quantities, right: Quantities) -> Quantities:
    if not left:
        return right
    most = dict(left)
    for name, amount in right.items():
        if name not in most or most[name].nano < amount.nano:
            most[name] = amount
    return most


def _by_phase(pod: Pod, of: Callable[[Container], Quantities], init_by_max: bool) -> Quantities:
    """Regular and sidecar sums against the largest init step."""
    running: Quantities = NO_QUANTITIES
    sidecars: Quantities = NO_QUANTITIES
    largest: Quantities = NO_QUANTITIES
    for container in pod.containers:
        amounts = of(container)
        match container.role:
            case "regular":
                running = _merged(running, amounts)
            case "sidecar":
                sidecars = _merged(sidecars, amounts)
                running = _merged(running, amounts)
                largest = _largest(largest, sidecars)
            case "init" if init_by_max:
                largest = _largest(largest, _merged(sidecars, amounts))
    return _largest(running, largest) if largest else running


def _requests_of(container: Container) -> Quantities:
    return container.resources.requests


def _limits_of(container: Container) -> Quantities:
    return container.resources.limits


def _replaced(sums: Quantities, level: Quantities) -> Quantities:
    return {**sums, **{name: amount for name, amount in level.items() if pod_level_name(name)}}


def requests(pod: Pod, rules: SumRules = CURRENT, *, overhead: bool = True) -> Quantities:
    """The pod's requests."""
    sums = _by_phase(pod, _requests_of, rules.init_by_max)
    if pod.resources is not None and rules.pod_level and pod.resources.requests:
        sums = _replaced(sums, pod.resources.requests)
    if overhead and rules.overhead and pod.overhead:
        sums = _merged(sums, pod.overhead)
    return sums


def limits(pod: Pod, rules: SumRules = CURRENT, *, overhead: bool = True) -> Quantities:
    """The pod's limits; a resource that nobody limits is absent."""
    sums = _by_phase(pod, _limits_of, rules.init_by_max)
    if pod.resources is not None and rules.pod_level and pod_level_set(pod.resources):
        sums = _replaced(sums, pod.resources.limits)
    if overhead and rules.overhead and pod.overhead:
        added = {n: q for n, q in pod.overhead.items() if n in sums and sums[n].nano != 0}
        sums = _merged(sums, added)
    return sums


def _zero(amounts: Quantities, name: str) -> bool:
    return name not in amounts or amounts[name].nano == 0


def declared(pod: Pod, name: str, rules: SumRules = CURRENT) -> bool:
    """Whether every container limits ``name``, or the pod level does.

    An init step is judged by the cumulative list, so an init container without a limit that
    follows a sidecar with one counts as limited. Source: ResourceConfigForPod.
    """
    level = pod.resources if rules.pod_level else None
    if level is not None and not _zero(level.limits, name):
        return True
    sidecar_limits = False
    for container in pod.containers:
        limited = not _zero(container.resources.limits, name)
        match container.role:
            case "regular":
                if not limited:
                    return False
            case "sidecar" | "init" if rules.init_declares:
                if not limited and not sidecar_limits:
                    return False
                sidecar_limits = sidecar_limits or (limited and container.role == "sidecar")
    return True
