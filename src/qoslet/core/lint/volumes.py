"""Traps of volumes in memory and of huge pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qoslet.core.api.pod import Container
from qoslet.core.lint.rule import LintPlace, PodSubject, Text, pod_rule
from qoslet.core.quantity import ZERO, Quantity, QuantityError, canonical, parse


def _memory_volumes(subject: PodSubject) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Index, name and source of each volume in memory."""
    for index, volume in enumerate(subject.spec.get("volumes") or ()):
        source = volume.get("emptyDir") if isinstance(volume, dict) else None
        if isinstance(source, dict) and source.get("medium") == "Memory":
            yield index, str(volume.get("name")), source


def _writers(subject: PodSubject, volume: str) -> list[Container]:
    """The containers that may write to a volume: a page of it counts where it was written first."""
    return [
        one
        for one in subject.pod.containers
        if any(
            isinstance(mount, dict) and mount.get("name") == volume and not mount.get("readOnly")
            for mount in subject.raw(one).get("volumeMounts") or ()
        )
    ]


def _size_limit(source: Mapping[str, Any]) -> Quantity | None:
    given = source.get("sizeLimit")
    try:
        return None if given is None else parse(str(given))
    except QuantityError:
        return None


@pod_rule(
    "QL060",
    "warning",
    Text(
        "a memory volume that nothing limits",
        "Its files are the container's memory; with neither sizeLimit nor a memory limit they may "
        "take the node's.",
        "Set sizeLimit, and a memory limit above it.",
        "Kubernetes: emptyDir; kubelet calculateEmptyDirMemorySize; cgroup-v2 memory: tmpfs is charged",
        missing=True,
    ),
)
def unlimited(subject: PodSubject) -> Iterator[LintPlace]:
    """Volumes in memory without any bound: a limit of the pod is one, also of the volume's size."""
    whole = subject.pod.resources
    if whole is not None and "memory" in whole.limits:
        return
    for index, name, source in _memory_volumes(subject):
        free = [
            one
            for one in _writers(subject, name)
            if not one.resources.limits.get("memory", ZERO).value
        ]
        if _size_limit(source) is None and free:
            text = f"has no sizeLimit, and {free[0].name} no memory limit"
            yield LintPlace(f"spec.volumes[{index}].emptyDir.sizeLimit", text, free[0].name)


@pod_rule(
    "QL061",
    "warning",
    Text(
        "a memory volume as large as the memory limit",
        "Its files count in the memory of the container that writes them: it is OOM-killed before the "
        "volume is full.",
        "Make sizeLimit smaller than the limit by what the program itself needs.",
        "Kubernetes: emptyDir; cgroup-v2 memory: tmpfs is charged",
    ),
)
def beyond_limit(subject: PodSubject) -> Iterator[LintPlace]:
    """Volumes in memory that cannot be filled."""
    for index, name, source in _memory_volumes(subject):
        size = _size_limit(source)
        for one in _writers(subject, name) if size is not None else ():
            limit = one.resources.limits.get("memory", ZERO)
            if size is not None and 0 < limit.value <= size.value:
                text = f"sizeLimit {canonical(size)} is not below {one.name}'s memory limit {canonical(limit)}"
                yield LintPlace(f"spec.volumes[{index}].emptyDir.sizeLimit", text, one.name)


@pod_rule(
    "QL062",
    "info",
    Text(
        "huge pages without a place to map them from",
        "A program gets them by mmap with MAP_HUGETLB, SysV shared memory, or a volume of medium "
        "HugePages; without a volume, files cannot be mapped.",
        "Mount an emptyDir of medium HugePages, if the program maps files.",
        "Kubernetes: manage huge pages",
        missing=True,
    ),
)
def no_huge_volume(subject: PodSubject) -> Iterator[LintPlace]:
    """Huge pages that no volume gives."""
    volumes = [
        one.get("emptyDir") for one in subject.spec.get("volumes") or () if isinstance(one, dict)
    ]
    media = {str(one.get("medium")) for one in volumes if isinstance(one, dict)}
    if any(medium.startswith("HugePages") for medium in media):
        return
    for one in subject.regular:
        name = next((key for key in one.resources.limits if key.startswith("hugepages-")), None)
        if name is not None and one.resources.limits[name].value:
            text = "no volume of medium HugePages"
            yield LintPlace(f"{one.field}.resources.limits.{name}", text, one.name)
