"""Pod-level resources (KEP-2837): their defaults and what they must hold against containers.

Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go (defaultPodRequests),
pkg/apis/core/validation (validatePodResourceConsistency), component-helpers resource/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qoslet.core.asked import HUGEPAGES, Note
from qoslet.core.pod import Container, Quantities, Resources
from qoslet.core.quantity import Quantity, add, canonical
from qoslet.core.shapes import child


def pod_level_resource(name: str) -> bool:
    """Whether a pod itself can ask for the resource."""
    return name in ("cpu", "memory") or name.startswith(HUGEPAGES)


def _added(left: Quantities, right: Quantities) -> dict[str, Quantity]:
    result = dict(left)
    for name, amount in right.items():
        result[name] = add(result[name], amount) if name in result else amount
    return result


def _raised(left: Quantities, right: Quantities) -> dict[str, Quantity]:
    result = dict(left)
    for name, amount in right.items():
        if name not in result or result[name].nano < amount.nano:
            result[name] = amount
    return result


def aggregate(asked: Iterable[tuple[str, Quantities]]) -> dict[str, Quantity]:
    """What containers need together: ``asked`` is role and amounts in starting order.

    Regular ones and sidecars at once, or an init container with the sidecars before it,
    whichever is more, by resource.
    """
    running: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for role, amounts in asked:
        if role == "regular":
            running = _added(running, amounts)
        elif role == "sidecar":
            running = _added(running, amounts)
            sidecars = _added(sidecars, amounts)
            starting = _raised(starting, sidecars)
        elif role == "init":
            starting = _raised(starting, _added(sidecars, amounts))
    return _raised(running, starting)


def aggregate_requests(containers: Sequence[Container]) -> dict[str, Quantity]:
    """The requests of all containers together."""
    return aggregate((each.role, each.resources.requests) for each in containers)


def default_pod_level(given: Resources, needed: Quantities) -> tuple[Resources, tuple[str, ...]]:
    """Fill missing pod-level requests, and name them.

    Nothing is filled where the pod gives no limits. A resource that containers request takes
    their aggregate, another one its pod-level limit.
    """
    if not given.limits:
        return given, ()
    requests = dict(given.requests)
    filled = []
    for name, amount in needed.items():
        if name in ("cpu", "memory") and name not in requests:
            requests[name] = amount
            filled.append(name)
    for name, amount in given.limits.items():
        if name not in requests:
            requests[name] = amount
            filled.append(name)
    return Resources(requests, given.limits), tuple(filled)


def check_pod_level(
    given: Resources,
    resources: Resources,
    needed: Quantities,
    containers: Sequence[Container],
    path: str,
    prefix: str,
) -> list[Note]:
    """The faults of pod-level resources against the containers of the pod."""
    faults = []
    for name, amount in needed.items():
        own = resources.requests.get(name) if pod_level_resource(name) else None
        if own is not None and own.nano < amount.nano:
            message = f"{canonical(own)} is below the {canonical(amount)} that containers request"
            place = child(f"{path}.requests", name)
            faults.append(Note(place, message, "raise it or lower those of the containers"))
    for name, request in resources.requests.items():
        limit = given.limits.get(name)
        if name not in given.requests and limit is not None and request.nano > limit.nano:
            message = (
                f"{canonical(limit)} is below the {canonical(request)} that containers request"
            )
            hint = "raise it or lower those of the containers"
            faults.append(Note(child(f"{path}.limits", name), message, hint))
    for container in containers:
        for name, amount in container.resources.limits.items():
            limit = given.limits.get(name) if pod_level_resource(name) else None
            if limit is not None and amount.nano > limit.nano:
                place = child(f"{prefix}{container.field}.resources.limits", name)
                message = f"{canonical(amount)} is above the pod's own limit {canonical(limit)}"
                faults.append(Note(place, message, "lower it or raise spec.resources.limits"))
    return faults
