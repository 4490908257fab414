"""What a kubelet on Windows refuses or ignores of its configuration, by release.

Source: kubelet apis/config/validation validation_windows.go: PR 62984 (1.11) refuses cgroupsPerQOS
and enforceNodeAllocatable, PR 123137 (1.30) ignores them with a warning; cm
container_manager_windows.go: CPU, memory and topology managers only with the gate
WindowsCPUAndMemoryAffinity of 1.32; kuberuntime_container_windows.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.node.documents.kubelet_config import KubeletRead
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem

_REFUSED_SINCE, _IGNORED_SINCE = 11, 30
_GATE = "WindowsCPUAndMemoryAffinity"

_NO_EFFECT = (
    "cgroupDriver", "cgroupRoot", "systemReservedCgroup", "kubeReservedCgroup", "systemCgroups",
    "kubeletCgroups", "qosReserved", "podPidsLimit", "cpuCFSQuota", "cpuCFSQuotaPeriod",
    "memorySwap", "failSwapOn", "failCgroupV1", "singleProcessOOMKill", "memoryThrottlingFactor",
    "memoryReservationPolicy",
)  # fmt: skip
"""Fields of what Windows does not have: cgroups, quotas, swap for containers, OOM kills."""

_MANAGERS = (
    ("cpuManagerPolicy", "cpu_manager_policy", "none"),
    ("memoryManagerPolicy", "memory_manager_policy", "None"),
    ("topologyManagerPolicy", "topology_manager_policy", "none"),
)


def windows_problems(node: Node, found: KubeletRead) -> Iterator[Problem]:
    """Everything about the kubelet of a Windows node."""
    kubelet = node.kubelet
    for field, given, remedy in (
        ("cgroupsPerQOS", kubelet.cgroups_per_qos, "false"),
        ("enforceNodeAllocatable", bool(kubelet.enforce_node_allocatable), "[]"),
    ):
        if given and (field in found.origins or node.kubelet_given):
            yield from _unsupported(node, found, field, remedy)
    for field in _NO_EFFECT:
        if field == "cgroupDriver" and "driver" in node.origins:
            yield _ignored(node.origins["driver"])
        elif field in found.origins:
            yield _ignored(found.origins[field])
    for field, attribute, default in _MANAGERS:
        if field not in found.origins or getattr(kubelet, attribute) == default:
            continue
        where = found.origins[field]
        if not node.gate_by_release(_GATE):
            message = f"has no effect on Windows without the gate {_GATE} of 1.32"
            yield Problem("warning", where, message, "enable the gate, or remove the field")
        else:
            message = "qoslet does not plan the processors of Windows containers (affinity_cpus)"
            yield Problem("info", where, message, "")


def _unsupported(node: Node, found: KubeletRead, field: str, remedy: str) -> Iterator[Problem]:
    """One of the two fields that the kubelet looks at."""
    where, hint = found.origins.get(field, f"{field} (default)"), f"set {field}: {remedy}"
    if _REFUSED_SINCE <= node.profile.minor < _IGNORED_SINCE:
        message = "is not supported on Windows: a kubelet refuses to start"
        yield Problem(node.refusal, where, message, hint)
    elif field in found.origins:
        yield Problem("warning", where, "is ignored on Windows, which has no cgroups", hint)


def _ignored(where: str) -> Problem:
    return Problem("info", where, "has no effect on Windows", "remove it")
