"""Why a file is not written: the reason of the rule, else the levels on which it is."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.interface_files import MEMORY_QOS
from qoslet.core.explain.absent_windows import WINDOWS_FIELDS
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.not_written import NotWritten


class UnwrittenFile(Struct, frozen=True):
    """A file that is not written in a cgroup. ``unwritten``: the reasons of the rules there."""

    policy: NodePolicy
    cgroup: Cgroup
    file: str
    unwritten: Mapping[str, NotWritten]

    @property
    def level(self) -> str:
        """The level of the cgroup, in words."""
        return _LEVELS.get(self.cgroup.level, f"a {self.cgroup.level}")


_LEVELS = {"node": "the node's cgroup", "qos": "a QoS cgroup", "pod": "a pod's cgroup"}

_V1_TO_V2 = {
    "cpu.shares": "cpu.weight",
    "cpu.cfs_quota_us": "cpu.max",
    "cpu.cfs_period_us": "cpu.max",
    "memory.limit_in_bytes": "memory.max",
    "memory.memsw.limit_in_bytes": "memory.swap.max",
}
_V2_TO_V1 = {v2: v1 for v1, v2 in reversed(_V1_TO_V2.items())}
_V2_ONLY = (*MEMORY_QOS, "memory.oom.group")

_ELSEWHERE: dict[tuple[str, str], str] = {
    ("cpu.max", "node"): "kubelets do not limit CPU time above pods",
    ("cpu.max", "qos"): "kubelets do not limit CPU time above pods",
    ("cpu.max", "sandbox"): "sandboxes get no quota",
    ("memory.max", "sandbox"): "sandboxes have no limit",
    ("memory.min", "sandbox"): "the sandbox has no request",
    ("memory.low", "sandbox"): "the sandbox has no request",
    ("cpuset.cpus", "node"): "kubepods gets a CPU list since 1.32, with policy none",
}
_BY_FILE = {
    "memory.high": "memory.high is written on containers, not on {}",
    "memory.swap.max": "only containers have swap limits",
    "memory.oom.group": "only containers have it",
    "oom_score_adj": "it belongs to the processes of containers, not to a cgroup",
    "pids.max": "PID limits are written on pods and on kubepods, not on {}",
    "cpuset.cpus": "CPU lists are written on containers with the static policy, not on {}",
    "cpuset.mems": "memory nodes are written on containers, not on {}",
}
"""Reasons by file, for levels without a rule."""


def reason_absent(missing: UnwrittenFile) -> str:
    """One sentence; never empty."""
    policy, file = missing.policy, missing.file
    if file in WINDOWS_FIELDS:
        return "it is a field of Windows containers, which have job objects; this one is on Linux"
    if policy.v2 and file in _V1_TO_V2:
        return f"the node has cgroup v2, where the file is {_V1_TO_V2[file]}"
    if not policy.v2 and file in _V2_TO_V1:
        return f"the node has cgroup v1, where the file is {_V2_TO_V1[file]}"
    if not policy.v2 and file in _V2_ONLY:
        needs = "" if file == "memory.oom.group" else "; Memory QoS needs v2"
        return f"the node has cgroup v1, which has no such file{needs}"
    lacking = "" if policy.missing is None else policy.missing.why(file)
    if lacking:
        return lacking
    file = _V1_TO_V2.get(file, file)
    if file in missing.unwritten:
        return missing.unwritten[file].sentence
    if file.startswith("hugetlb."):
        return _hugetlb(missing)
    if file.startswith("io."):
        return "neither the kubelet nor the CRI sets I/O limits"
    if missing.cgroup.container is not None and file.startswith("cpuset."):
        return _cpuset(missing)
    text = _ELSEWHERE.get((file, missing.cgroup.level)) or _BY_FILE.get(file)
    return (text or "this release does not write it on {}").format(missing.level)


def _cpuset(missing: UnwrittenFile) -> str:
    kubelet = missing.policy.node.kubelet
    if missing.file == "cpuset.mems":
        if kubelet.memory_manager_policy != "Static":
            return "memoryManagerPolicy is None: containers use the memory of all NUMA nodes"
        return "only containers of Guaranteed pods get memory nodes"
    if kubelet.cpu_manager_policy == "none":
        return "cpuManagerPolicy is none: containers use all CPUs"
    return f"CPU lists are written on containers with the static policy, not on {missing.level}"


def _hugetlb(missing: UnwrittenFile) -> str:
    policy = missing.policy
    sizes = ", ".join(text for text, _ in policy.hugepages)
    if not sizes:
        return "the host has no hugetlb controller or no huge pages"
    size = missing.file.split(".")[1]
    if size not in sizes.split(", "):
        return f"the host has no huge pages of {size}, only {sizes}"
    if ".rsvd." in missing.file:
        return "this writer does not limit reservations"
    if missing.cgroup.container is not None:
        runtime = policy.runtime
        if not runtime.hugetlb:
            return f"{runtime.name} drops huge page limits of containers by default"
        return (
            f"Kubernetes {policy.node.profile.kubernetes} does not send huge page limits of"
            " containers"
        )
    return f"not written on {missing.level} in this release"
