"""What annotations say of a pod: static or mirror, isolation on Windows, memory.

Source: k8s.io/kubernetes pkg/kubelet/types/pod_update.go; for Windows kuberuntime_container_
windows.go; the keys below ``qoslet.dev/`` are the program's own.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from qoslet.core.api import memory_annotations
from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.memory_annotations import NO_POLICY, MemoryPolicy
from qoslet.core.api.pod import Container
from qoslet.core.api.schema import PodSpecShape, child, shown

_CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
_ISOLATION = "experimental.windows.kubernetes.io/isolation-type"

_SYSTEM_CRITICAL = 2_000_000_000
_CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")


def one_of(path: str, value: str | None, known: tuple[str | None, ...]) -> FieldFault:
    """A value that is none of those known."""
    names = ", ".join(str(name) for name in known)
    return FieldFault(path, f"{shown(value or '')!r} is unknown", f"known are {names}")


def critical_of(spec: PodSpecShape, annotations: dict[str, str], prefix: str) -> tuple[bool, bool]:
    """types.IsCriticalPod and IsNodeCriticalPod; the class decides before admission has."""
    static = not prefix and (
        CONFIG_MIRROR in annotations or annotations.get(_CONFIG_SOURCE, "api") != "api"
    )
    if spec.priority is not None:
        urgent = spec.priority >= _SYSTEM_CRITICAL
    else:
        urgent = spec.priority_class_name in _CRITICAL_CLASSES
    critical = static or urgent
    return critical, critical and spec.priority_class_name == "system-node-critical"


def windows_of(
    spec: PodSpecShape, annotations: dict[str, str], prefix: str, faults: list[FieldFault]
) -> tuple[Literal["linux", "windows"], Literal["process", "hyperv"] | None]:
    """The system of a pod and how its Windows containers are isolated."""
    system = (spec.os.name if spec.os else None) or "linux"
    if system not in ("linux", "windows"):
        faults.append(one_of(f"{prefix}spec.os.name", system, ("linux", "windows")))
    isolation = annotations.get(_ISOLATION)
    if isolation not in (None, "process", "hyperv"):
        path = child(f"{prefix}metadata.annotations", _ISOLATION)
        faults.append(one_of(path, isolation, ("process", "hyperv")))
    kind: Literal["linux", "windows"] = "windows" if system == "windows" else "linux"
    if isolation == "hyperv":
        return kind, "hyperv"
    return kind, "process" if isolation == "process" else None


def memory_of(
    annotations: dict[str, str],
    owner: dict[str, str],
    containers: list[Container],
    prefix: str,
    notes: list[FieldFault],
) -> MemoryPolicy:
    """The memory policy of the annotations. Adds a note for each invalid one, and for each that is
    on the ``owner`` of a template instead."""
    if not annotations and not owner:
        return NO_POLICY
    names = [item.name for item in containers if item.role != "ephemeral"]
    policy, findings = memory_annotations.read(annotations, names)
    place = f"{prefix}metadata.annotations"
    above = memory_annotations.misplaced(owner, annotations, place)
    for where, finding in [
        *[(place, item) for item in findings],
        *[("metadata.annotations", item) for item in above],
    ]:
        path = child(where, finding.key)
        notes.append(FieldFault(path, finding.message, finding.hint, finding.severity))
    if not findings and not above:
        return policy
    return replace(policy, findings=(*findings, *above))
