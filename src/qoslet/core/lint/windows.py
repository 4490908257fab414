"""Traps of Windows pods: what nothing enforces."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.lint.rule import LintPlace, PodSubject, Text, pod_rule
from qoslet.core.quantity import ZERO


@pod_rule(
    "QL100",
    "info",
    Text(
        "a memory request that only the scheduler sees",
        "Windows does not protect requested memory, and the kubelet does not evict there for being above a request.",
        "Set a memory limit.",
        "Kubernetes: resource management for Windows nodes",
        windows=True,
    ),
)
def request_only(subject: PodSubject) -> Iterator[LintPlace]:
    """Requests without a limit."""
    for one in subject.regular:
        given = one.resources
        if given.requests.get("memory", ZERO).value and not given.limits.get("memory", ZERO).value:
            text = "nothing enforces a memory request on Windows"
            yield LintPlace(f"{one.field}.resources.requests.memory", text, one.name)


@pod_rule(
    "QL101",
    "info",
    Text(
        "a CPU request that the limit replaces",
        "A Windows container has a weight or a maximum, not both: with a limit the request decides "
        "nothing on the node.",
        "Leave out the limit, if the share among neighbours matters.",
        "kubelet generateWindowsContainerResources",
        windows=True,
    ),
)
def replaced_request(subject: PodSubject) -> Iterator[LintPlace]:
    """Both CPU controls."""
    for one in subject.regular:
        requests, limits = one.resources.requests, one.resources.limits
        both = requests.get("cpu", ZERO).milli and limits.get("cpu", ZERO).milli
        if both and requests["cpu"] != limits["cpu"]:
            text = "the limit alone becomes a setting of the container"
            yield LintPlace(f"{one.field}.resources.requests.cpu", text, one.name)


@pod_rule(
    "QL102",
    "warning",
    Text(
        "what Windows does not have",
        "Huge pages and volumes in memory are for Linux only.",
        "Leave them out.",
        "Kubernetes: Windows containers, limitations",
        windows=True,
    ),
)
def linux_only(subject: PodSubject) -> Iterator[LintPlace]:
    """Huge pages and memory volumes in a Windows pod."""
    for one in subject.regular:
        for name in one.resources.limits:
            if name.startswith("hugepages-"):
                text = "Windows has no huge pages for containers"
                yield LintPlace(f"{one.field}.resources.limits.{name}", text, one.name)
    for index, volume in enumerate(subject.spec.get("volumes") or ()):
        source = volume.get("emptyDir") if isinstance(volume, dict) else None
        if isinstance(source, dict) and source.get("medium") == "Memory":
            text = "Windows has no volumes in memory: it lies on the disk"
            yield LintPlace(f"spec.volumes[{index}].emptyDir.medium", text)
