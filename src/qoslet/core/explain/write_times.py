"""When a file is written, and what ends a value that somebody wrote by hand.

Source: kubelet pkg/kubelet/cm (1.36): node_container_manager_linux.go, qos_container_manager_
linux.go, pod_container_manager_linux.go; kuberuntime for containers.
"""

from __future__ import annotations

from qoslet.core.resources.cgroup_tree import Cgroup

_QOS_UPDATE = "with every QoS update: each minute, before a pod's group is made, after a pod ends"
_START = (
    "when the group is made and once at the kubelet's start, repeated each minute until it works"
)
_CREATION = "when the pod's group is made"
_RESIZED = frozenset(
    (
        "cpu.weight",
        "cpu.shares",
        "cpu.max",
        "cpu.cfs_quota_us",
        "cpu.cfs_period_us",
        "memory.max",
        "memory.limit_in_bytes",
    )
)


def _node(file: str, reserved: bool) -> tuple[str, str]:
    if reserved:
        return "once at the kubelet's start", "another value stays until the kubelet starts again"
    if file.startswith("hugetlb.") or file in ("memory.min", "memory.low"):
        return _QOS_UPDATE, "another value lives at most a minute"
    return _START, "another value stays until the kubelet starts again"


def _pod(file: str, minor: int) -> tuple[str, str]:
    if file in _RESIZED and minor >= 27:
        when = f"{_CREATION}, and with an in-place resize"
        return when, "another value stays until a resize: the kubelet never checks it"
    if file.startswith("hugetlb.") and minor >= 27:
        when = f"{_CREATION}; an in-place resize writes 0 (defect, PR 141991)"
        return when, "another value stays until a resize"
    return _CREATION, "another value stays: the kubelet never checks it"


def written(cgroup: Cgroup, file: str, writer: str, minor: int) -> tuple[str, str]:
    """When the writer writes ``file``, and how long a value lives that another hand wrote."""
    if writer == "qoslet":
        return "when qoslet run makes the group", "qoslet run looks each second and mends it"
    match cgroup.level:
        case "node":
            return _node(file, not cgroup.name.endswith("kubepods"))
        case "qos":
            return _QOS_UPDATE, "another value lives at most a minute"
        case "pod":
            return _pod(file, minor)
        case "sandbox":
            return "when the runtime makes the sandbox", "another value stays"
    if file == "cpuset.mems":
        return "when the container is made", "another value stays"
    if file == "cpuset.cpus":
        when = "when the container is made, then every 10 seconds by the kubelet's CPU manager"
        return when, "another value lives at most 10 seconds"
    if file == "oom_score_adj":
        return "when the container starts", "another value stays until it starts again"
    if minor < 27:
        return "when the container is made", "another value stays"
    when = "when the container is made, and with an in-place resize"
    return when, "another value stays until a resize, which sends all of them"
