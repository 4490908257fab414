"""What annotations and other fields say of a pod: static or mirror, memory.

Source: k8s.io/kubernetes pkg/kubelet/types/pod_update.go; the keys below ``qoslet.dev/`` are the
program's own.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from qoslet.core.api import memory_annotations
from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.memory_annotations import NO_POLICY, MemoryPolicy
from qoslet.core.api.pod import ISOLATION, NO_PLATFORM, Container, Platform, System
from qoslet.core.api.schema import NOTHING, PodSpecShape, child

_CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
CONFIG_HASH = "kubernetes.io/config.hash"

_SYSTEM_CRITICAL = 2_000_000_000
_CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")


def critical_of(spec: PodSpecShape, annotations: dict[str, str], prefix: str) -> tuple[bool, bool]:
    """types.IsCriticalPod and IsNodeCriticalPod; the class decides before admission has."""
    static = not prefix and is_static(annotations)
    if spec.priority is not None:
        urgent = spec.priority >= _SYSTEM_CRITICAL
    else:
        urgent = spec.priority_class_name in _CRITICAL_CLASSES
    critical = static or urgent
    return critical, critical and spec.priority_class_name == "system-node-critical"


def is_static(annotations: dict[str, str]) -> bool:
    """Whether the pod is static, or the mirror of one."""
    return CONFIG_MIRROR in annotations or annotations.get(_CONFIG_SOURCE, "api") != "api"


def platform_of(
    spec: PodSpecShape, annotations: dict[str, str], prefix: str, faults: list[FieldFault]
) -> tuple[System, Literal["process", "hyperv"] | None, Platform]:
    """The system of a pod, its isolation on Windows, and what it says of its machine."""
    if not (
        spec.os or spec.node_selector or spec.runtime_class_name or ISOLATION in annotations
        or (spec.affinity is not NOTHING and b"kubernetes.io/os" in bytes(spec.affinity))
        or _mentions_host_process(spec)
    ):  # fmt: skip
        return "linux", None, NO_PLATFORM
    # imported for a pod that says something
    from qoslet.core.api.platform.pod_system import system_of

    found = system_of(spec, annotations, prefix, faults)
    return found.system, found.isolation, found.platform


def _mentions_host_process(spec: PodSpecShape) -> bool:
    """Whether the word stands in any security context."""
    if spec.security_context is not NOTHING and b"hostProcess" in bytes(spec.security_context):
        return True
    for shapes in (spec.containers, spec.init_containers, spec.ephemeral_containers):
        for shape in shapes or ():
            context = shape.security_context
            if context is not NOTHING and b"hostProcess" in bytes(context):
                return True
    return False


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
