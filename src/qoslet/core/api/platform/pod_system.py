"""What a pod says of the operating system of its node, and of the isolation of Windows containers.

Source: kubelet pkg/kubelet/lifecycle/predicate.go (spec.os; node selector and required node
affinity against the node's labels), core/v1 WindowsSecurityContextOptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.container_resources import FieldFault, one_of
from qoslet.core.api.pod import ISOLATION, NO_PLATFORM, OsClaim, Platform, System
from qoslet.core.api.schema import DECODE_ERRORS, PodSpecShape, child, type_name

OS_LABELS = ("kubernetes.io/os", "beta.kubernetes.io/os")
"""Labels that a kubelet gives its node: the stable one since 1.14, the beta one in every release."""

SYSTEMS: tuple[System, ...] = ("linux", "windows")


class PodSystem(Struct, frozen=True):
    """The system of a pod, the isolation that its annotation names, and what else it says."""

    system: System = "linux"
    isolation: Literal["process", "hyperv"] | None = None
    platform: Platform = NO_PLATFORM


def claims_of_labels(selector: dict[str, str], field: str) -> tuple[OsClaim, ...]:
    """What a node selector says of the system; labels with other values say nothing."""
    return tuple(
        (child(field, label), system)
        for label in OS_LABELS
        for system in SYSTEMS
        if selector.get(label) == system
    )


def system_of(
    spec: PodSpecShape, annotations: dict[str, str], prefix: str, faults: list[FieldFault]
) -> PodSystem:
    """The system of a pod: ``spec.os``, else its node selector, else its node affinity, else linux.
    A RuntimeClass comes later, when all documents are read."""
    claims: list[OsClaim] = []
    named = spec.os.name if spec.os else None
    if named is not None:
        if named in SYSTEMS:
            claims.append(("spec.os.name", "windows" if named == "windows" else "linux"))
        else:
            faults.append(one_of(f"{prefix}spec.os.name", named, SYSTEMS))
    elif spec.os is not None:
        hint = f"set name: {' or '.join(SYSTEMS)}, or remove os"
        faults.append(FieldFault(f"{prefix}spec.os.name", "is missing", hint))
    claims += claims_of_labels(spec.node_selector or {}, "spec.nodeSelector")
    claims += _affinity(spec.affinity)
    isolation = annotations.get(ISOLATION)
    if isolation not in (None, "process", "hyperv"):
        path = child(f"{prefix}metadata.annotations", ISOLATION)
        faults.append(one_of(path, isolation, ("process", "hyperv")))
    return PodSystem(
        claims[0][1] if claims else "linux",
        "hyperv" if isolation == "hyperv" else "process" if isolation == "process" else None,
        Platform(tuple(claims), _host_process(spec, prefix, faults), spec.runtime_class_name),
    )


def _affinity(raw: Raw) -> Iterator[OsClaim]:
    """The system that every required node selector term asks for."""
    if not any(label.encode() in bytes(raw) for label in OS_LABELS):
        return
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    value: Any = _decoded(raw)
    for step in path.split(".")[2:]:
        value = value.get(step) if isinstance(value, dict) else None
    terms = value.get("nodeSelectorTerms") if isinstance(value, dict) else None
    fitting = [_fitting(term) for term in terms] if isinstance(terms, list) else []
    found = frozenset[System]().union(*fitting)
    if len(found) == 1:
        yield path, next(iter(found))


def _fitting(term: Any) -> frozenset[System]:
    """The systems whose nodes a term selects; a term without requirements selects none."""
    found = frozenset(SYSTEMS)
    rules = term.get("matchExpressions") if isinstance(term, dict) else None
    if not isinstance(rules, list):
        return found if isinstance(term, dict) and term.get("matchFields") else frozenset()
    for rule in rules:
        if not isinstance(rule, dict) or rule.get("key") not in OS_LABELS:
            continue
        values = rule.get("values")
        named = frozenset(one for one in SYSTEMS if isinstance(values, list) and one in values)
        if rule.get("operator") == "In":
            found &= named
        elif rule.get("operator") == "NotIn":
            found -= named
        elif rule.get("operator") == "DoesNotExist":
            found = frozenset()
    return found


def _host_process(spec: PodSpecShape, prefix: str, faults: list[FieldFault]) -> bool:
    """Whether a container runs on the host itself: its own word, else the pod's."""
    own = _says_host_process(spec.security_context, f"{prefix}spec", faults)
    found = False
    for field, shapes in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, shape in enumerate(shapes or ()):
            path = f"{prefix}spec.{field}[{index}]"
            said = _says_host_process(shape.security_context, path, faults)
            found |= bool(own if said is None else said)
    return found


def _says_host_process(raw: Raw, path: str, faults: list[FieldFault]) -> bool | None:
    if b"hostProcess" not in bytes(raw):
        return None
    value: Any = _decoded(raw)
    for step in ("windowsOptions", "hostProcess"):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None or isinstance(value, bool):
        return value
    place = f"{path}.securityContext.windowsOptions.hostProcess"
    faults.append(FieldFault(place, f"must be a boolean, is {type_name(value)}"))
    return None


def _decoded(raw: Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return None
