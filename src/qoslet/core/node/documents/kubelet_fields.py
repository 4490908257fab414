"""Fields of a KubeletConfiguration that the release does not know, or that decide about nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qoslet.core.node.documents.kubelet_config import READERS, KubeletRead
from qoslet.core.node.documents.kubelet_field_names import SINCE
from qoslet.core.node.faults import place
from qoslet.core.problem import Problem
from qoslet.core.versions.kubernetes import Profile

_TOLD_ELSEWHERE = ("memorySwap", "cpuManagerPolicyOptions")
"""Fields that the node's validation compares with the release."""

_MEMORY_QOS = ("memoryThrottlingFactor", "memoryReservationPolicy")


def known_in(field: str, profile: Profile) -> bool:
    """Whether a kubelet of the profile's release reads a field. A variant of Memory QoS that was asked
    for by name brings its fields with it; the design documents have no reservation policy."""
    if field in _MEMORY_QOS and (profile.memory_qos_forced or profile.memory_qos == "qoslet"):
        return True
    if profile.kubernetes == "design":
        return field != "memoryReservationPolicy"
    return profile.minor >= SINCE.get(field, 0)


def in_force(field: str, profile: Profile) -> bool:
    """Whether a field can decide about a value: known, and of the variant of Memory QoS that counts."""
    if field == "memoryReservationPolicy" and profile.memory_qos in ("1.22", "1.27", "design"):
        return False
    return known_in(field, profile)


def ignored(found: KubeletRead, given: Mapping[str, str], profile: Profile) -> Iterator[Problem]:
    """What to know about the fields ``given`` (with their places) that the release does not know.
    They are taken out of ``found``, since no kubelet of this release reads them."""
    unused: list[str] = []
    for field, where in given.items():
        if field in _TOLD_ELSEWHERE or known_in(field, profile):
            continue
        if field in READERS:
            found.values.pop(READERS[field][0], None)
        elif field in found.unused:
            del found.unused[field]
        else:
            unused.append(field)
            continue
        found.origins.pop(field, None)
        found.null_factor = found.null_factor and field != "memoryThrottlingFactor"
        message = f"has no effect: {profile.kubernetes} has no {field}"
        since = SINCE[field]
        hint = f"Kubernetes 1.{since} does" if profile.minor < since else "remove it"
        yield Problem("warning", place(where), message, hint)
    if unused:
        names = ", ".join(unused[:8]) + (" and others" if len(unused) > 8 else "")
        message = f"{profile.kubernetes} has no {names}"
        yield Problem("info", place(given[unused[0]]), message, "")
