"""RuntimeClasses, and what the API server's admission makes of the pods that name one.

Source: k8s.io/api node/v1, v1beta1 and v1alpha1 RuntimeClass; kubernetes
plugin/pkg/admission/runtimeclass (setOverhead, setScheduling, validateOverhead). Whether overhead
counts is up to the gate PodOverhead of the release (``core.resources``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from qoslet.core.api.container_resources import ResourceDecoder
from qoslet.core.api.platform.pod_system import claims_of_labels
from qoslet.core.api.pod import OsClaim, Pod, Quantities
from qoslet.core.api.schema import DECODE_ERRORS, Metadata, shown, type_name
from qoslet.core.problem import Problem
from qoslet.errors import BadInput

_WINDOWS_HANDLER = "runhcs-wcow-"
"""How containerd calls its handlers of Windows containers. Source: containerd
pkg/cri/config DefaultConfig on Windows; hcsshim's and AKS' handlers have the same beginning."""


class RuntimeClass(Struct, frozen=True):
    """One RuntimeClass; ``overhead`` is None where it has none, which is not an empty one."""

    name: str
    where: str
    handler: str
    overhead: Quantities | None = None
    claims: tuple[OsClaim, ...] = ()


def runtime_class_of(
    data: Raw | bytes | memoryview, name: str, where: str, faults: list[BadInput]
) -> RuntimeClass | None:
    """The RuntimeClass of a document; None with faults where it is none."""
    before = len(faults)
    try:
        value: Any = msgspec.json.decode(data)
    except DECODE_ERRORS as error:
        faults.append(BadInput(f"cannot be read: {shown(str(error))}", where=where))
        return None
    # v1alpha1 has everything below spec
    nested = isinstance(value.get("spec"), dict)
    fields = value["spec"] if nested else value
    prefix, key = ("spec.", "runtimeHandler") if nested else ("", "handler")
    handler = fields.get(key)
    if not isinstance(handler, str) or not handler:
        hint = "name the handler of the container runtime, such as runhcs-wcow-hypervisor"
        message = "is missing" if handler is None else "must be a string that is not empty"
        faults.append(BadInput(message, where=f"{where}: {prefix}{key}", hint=hint))
    overhead = _overhead(fields, f"{where}: {prefix}overhead", faults)
    selector = _part(fields, "scheduling", "nodeSelector", f"{where}: {prefix}scheduling", faults)
    labels = {key: text for key, text in (selector or {}).items() if isinstance(text, str)}
    if len(faults) > before:
        return None
    return RuntimeClass(
        name, where, str(handler), overhead, claims_of_labels(labels, "scheduling.nodeSelector")
    )


def _part(
    fields: dict[str, Any], outer: str, inner: str, where: str, faults: list[BadInput]
) -> dict[str, Any] | None:
    """``outer.inner`` as an object; None where it is absent."""
    value: Any = fields
    for place, step in ((where, outer), (f"{where}.{inner}", inner)):
        value = value.get(step)
        if value is None:
            return None
        if not isinstance(value, dict):
            faults.append(BadInput(f"must be an object, is {type_name(value)}", where=place))
            return None
    return dict(value)


def _overhead(fields: dict[str, Any], where: str, faults: list[BadInput]) -> Quantities | None:
    fixed = _part(fields, "overhead", "podFixed", where, faults)
    if fixed is None:
        return None
    decoded = ResourceDecoder().overhead(Raw(msgspec.json.encode(fixed)))
    faults += [
        BadInput(fault.message, where=f"{where}.podFixed.{fault.path}", hint=fault.hint)
        for fault in decoded.faults
    ]
    return decoded.resources.limits if decoded.resources is not None else {}


def admitted(pod: Pod, known: RuntimeClass, faults: list[BadInput]) -> Pod:
    """The pod with the overhead, the node selector and the handler of its class. Adds a fault where
    admission rejects it."""
    overhead = pod.overhead
    if known.overhead is not None:
        if overhead and not _same(overhead, known.overhead):
            faults.append(_rejected(pod, known, "overhead", "is not the overhead of"))
        overhead = known.overhead
    elif overhead:
        faults.append(_rejected(pod, known, "overhead", "is set, and there is none in"))
    claims = list(pod.platform.claims)
    for field, system in known.claims:
        label = field.removeprefix("scheduling.")
        if (f"spec.{label}", "linux" if system == "windows" else "windows") in claims:
            faults.append(_rejected(pod, known, label, "contradicts"))
        claims.append(("spec.runtimeClassName", system))
    if known.handler.startswith(_WINDOWS_HANDLER):
        claims.append(("spec.runtimeClassName", "windows"))
    platform = replace(pod.platform, claims=tuple(dict.fromkeys(claims)), handler=known.handler)
    system = claims[0][1] if claims else pod.os
    return replace(pod, overhead=overhead, os=system, platform=platform)


def _same(one: Quantities, other: Quantities) -> bool:
    amounts = ({name: quantity.nano for name, quantity in some.items()} for some in (one, other))
    return next(amounts) == next(amounts)


def _rejected(pod: Pod, known: RuntimeClass, field: str, how: str) -> BadInput:
    return BadInput(
        f"{how} RuntimeClass {known.name}: the API server rejects the pod",
        where=f"{pod.where}: spec.{field}",
        hint="leave it out: admission sets it" if field == "overhead" else "change one of them",
    )


def take(
    data: Raw | bytes | memoryview,
    meta: Metadata | None,
    where: str,
    classes: dict[str, RuntimeClass],
    add_fault: Callable[[BadInput], None],
) -> None:
    """Remember the RuntimeClass of a document for ``admit_all``."""
    faults: list[BadInput] = []
    found = runtime_class_of(data, (meta and meta.name) or "", where, faults)
    for fault in faults:
        add_fault(fault)
    if found is not None:
        classes[found.name] = found


def admit_all(
    pods: list[Pod],
    classes: dict[str, RuntimeClass],
    problems: list[Problem],
    add_fault: Callable[[BadInput], None],
) -> None:
    """Replace the pods by what admission leaves of them; a row for each class that none of them
    names. The classes may stand behind the pods."""
    faults: list[BadInput] = []
    used: set[str] = set()
    for at, pod in enumerate(pods):
        known = classes.get(pod.platform.runtime_class or "")
        if known is not None:
            used.add(known.name)
            pods[at] = admitted(pod, known, faults)
    for fault in faults:
        add_fault(fault)
    problems += [
        Problem("info", one.where, "RuntimeClass skipped: no pod names it", "")
        for one in classes.values()
        if one.name not in used
    ]
