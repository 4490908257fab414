"""Why a field of a Windows container's message is not sent, and why it has no cgroup file."""

from __future__ import annotations

from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.windows_isolation import hyperv

WINDOWS_FIELDS = (
    "cpu_shares",
    "cpu_count",
    "cpu_maximum",
    "memory_limit_in_bytes",
    "rootfs_size_in_bytes",
    "affinity_cpus",
)
"""The fields of WindowsContainerResources. Source: cri-api runtime.v1 api.proto."""


def windows_absent(policy: NodePolicy, cgroup: Cgroup, field: str) -> str:
    """One sentence; never empty."""
    release, variant = policy.node.profile.kubernetes, policy.choices.windows
    if field not in WINDOWS_FIELDS:
        return "Windows containers have job objects, no cgroups and no such file"
    if variant == "none":
        return f"{release} sends no resources of Windows containers; 1.10 and later do"
    if field == "rootfs_size_in_bytes":
        return "kubelets do not send a disk size"
    if field == "affinity_cpus":
        return "only a CPU or memory manager with the gate WindowsCPUAndMemoryAffinity (1.32) sends processors, and qoslet does not plan them"
    limits = cgroup.container.resources.limits if cgroup.container is not None else {}
    if field == "memory_limit_in_bytes":
        return "the container has no memory limit"
    limited = bool(limits.get("cpu", ZERO).nano)
    if field == "cpu_maximum" or (variant == "design" and field == "cpu_count"):
        return "the container has no CPU limit"
    if variant == "design":
        return "the container has neither a CPU limit nor a CPU request"
    if variant != "1.10":
        return f"since 1.18 kubelets send only cpu_maximum: a job object has one CPU control, and {release} sends no {field}"
    if cgroup.pod is not None and not hyperv(policy, cgroup.pod):
        return f"{release} sends a processor count only with Hyper-V isolation"
    return "the container has no CPU limit" if not limited else f"{release} does not send it"
