"""Pod-level resources (KEP-2837): their defaults and what they must hold against containers.

Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go (defaultHugePagePodLimits, defaultPodRequests,
defaultPodLimits), pkg/apis/core/validation (validatePodResourceConsistency), component-helpers resource/helpers.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qoslet.core.api import aggregate
from qoslet.core.api.aggregate import pod_level_name
from qoslet.core.api.container_resources import HUGEPAGES, FieldFault
from qoslet.core.api.pod import Container, Pod, Quantities, Resources
from qoslet.core.api.schema import child
from qoslet.core.quantity import canonical


class DefaultingRules(Struct, frozen=True, gc=False):
    """What differs between releases.

    ``hugepages``: pod-level limits of hugepages are filled; ``limits``: those of cpu and memory are.
    """

    hugepages: bool = True
    limits: bool = False


CURRENT = DefaultingRules()


def aggregate_requests(containers: Sequence[Container]) -> Quantities:
    """The requests of all containers together, pod-level ones and overhead aside."""
    return aggregate.requests(Pod("", "", "", "", tuple(containers)), overhead=False)


def aggregate_limits(containers: Sequence[Container]) -> Quantities:
    """The limits of all containers together."""
    return aggregate.limits(Pod("", "", "", "", tuple(containers)), overhead=False)


def default_pod_level(
    given: Resources, containers: Sequence[Container], rules: DefaultingRules = CURRENT
) -> tuple[Resources, tuple[str, ...]]:
    """Fill missing pod-level requests and limits, and name the requests.

    A hugepage limit takes the aggregate of the containers' limits. With limits, a request takes
    the aggregate of the containers' requests, else its limit; hugepages always their limit.
    """
    if not given.requests and not given.limits:
        return given, ()
    limits, filled = dict(given.limits), []
    sums = aggregate_limits(containers)
    if rules.hugepages:
        for name, amount in sums.items():
            if name.startswith(HUGEPAGES) and not {name} & (limits.keys() | given.requests.keys()):
                limits[name] = amount
    requests = dict(given.requests)
    if limits:
        needed = aggregate_requests(containers)
        overcommitted = {n: q for n, q in needed.items() if n in ("cpu", "memory")}
        for name, amount in (*overcommitted.items(), *limits.items()):
            if name not in requests:
                requests[name] = amount
                filled.append(name)
    elif rules.limits:
        limits = {
            name: amount
            for name, amount in sums.items()
            if name in ("cpu", "memory") and _all_limit(containers, name)
        }
    return Resources(requests, limits), tuple(filled)


def _all_limit(containers: Sequence[Container], name: str) -> bool:
    """Whether every container that can have resources limits ``name``."""
    able = (container for container in containers if container.role != "ephemeral")
    return all(name in container.resources.limits for container in able)


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
    for name in given.requests:
        limited = name in given.limits or name in aggregate_limits(containers)
        if name.startswith(HUGEPAGES) and not limited:
            hint = f"set limits too: {name} cannot be overcommitted"
            faults.append(FieldFault(child(f"{path}.requests", name), "has no limit", hint))
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
