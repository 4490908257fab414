"""Pod-level resources (KEP-2837): their defaults and what they must hold against containers.

Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go (defaultPodRequests),
pkg/apis/core/validation (validatePodResourceConsistency), component-helpers resource/helpers.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.core.api import aggregate
from qoslet.core.api.aggregate import pod_level_name
from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Container, Pod, Quantities, Resources
from qoslet.core.api.schema import child
from qoslet.core.quantity import canonical


def aggregate_requests(containers: Sequence[Container]) -> Quantities:
    """The requests of all containers together, pod-level ones and overhead aside."""
    return aggregate.requests(Pod("", "", "", "", tuple(containers)), overhead=False)


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
) -> list[FieldFault]:
    """The faults of pod-level resources against the containers of the pod."""
    faults = []
    for name, amount in needed.items():
        pod_request = resources.requests.get(name) if pod_level_name(name) else None
        if pod_request is not None and pod_request.nano < amount.nano:
            message = (
                f"{canonical(pod_request)} is below the {canonical(amount)} that containers request"
            )
            place = child(f"{path}.requests", name)
            faults.append(
                FieldFault(place, message, "raise it, or lower the requests of the containers")
            )
    for name, request in resources.requests.items():
        limit = given.limits.get(name)
        if name not in given.requests and limit is not None and request.nano > limit.nano:
            message = (
                f"{canonical(limit)} is below the {canonical(request)} that containers request"
            )
            hint = "raise it, or lower the requests of the containers"
            faults.append(FieldFault(child(f"{path}.limits", name), message, hint))
    for container in containers:
        for name, amount in container.resources.limits.items():
            limit = given.limits.get(name) if pod_level_name(name) else None
            if limit is not None and amount.nano > limit.nano:
                place = child(f"{prefix}{container.field}.resources.limits", name)
                message = f"{canonical(amount)} is above the pod's own limit {canonical(limit)}"
                faults.append(FieldFault(place, message, "lower it or raise spec.resources.limits"))
    return faults
