"""The annotations of a pod that decide about a file, and those that were refused."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.api.memory_annotations import (
    FACTOR,
    HIGH,
    OOM_GROUP,
    PROTECTION,
    AnnotationFinding,
    keys_of,
)
from qoslet.core.api.pod import Pod
from qoslet.core.explain.fact import Fact
from qoslet.core.plan.memory_annotation_effects import refused
from qoslet.core.resources.cgroup_tree import Cgroup

_ANNOTATIONS: dict[str, tuple[str, ...]] = {
    "memory.high": (HIGH, FACTOR),
    "memory.min": (PROTECTION,),
    "memory.low": (PROTECTION,),
    "memory.oom.group": (OOM_GROUP,),
}
"""File to the annotations of a pod that decide about it."""


def annotation_facts(pod: Pod, file: str) -> Iterator[Fact]:
    """The annotations of a pod that decide about ``file``."""
    for key in keys_of(pod.memory, *_ANNOTATIONS.get(file, ())):
        text = pod.memory.text(key)
        yield Fact(f"metadata.annotations[{key}]", text, text, pod.where)


def refusals(cgroup: Cgroup, file: str) -> tuple[AnnotationFinding, ...]:
    """The refused annotations of a cgroup's pod that concern ``file``."""
    names, pod = _ANNOTATIONS.get(file, ()), cgroup.pod
    if pod is None or not pod.memory.findings or cgroup.level == "sandbox":
        return ()
    if cgroup.container is None:
        names = tuple(name for name in names if name == PROTECTION)
    elif file == "memory.high":
        key = f"{HIGH}.{cgroup.container.name}"
        names = (key, *names) if pod.memory.high_of(cgroup.container.name) is None else (key,)
    return refused(pod, *names)
