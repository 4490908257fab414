"""What may be in a bundle: the one list of fields, files and properties. All else stays on the node.

Nothing here holds environment, arguments, annotations in general, or what a Secret or ConfigMap
has. Source of the names: k8s.io/api core/v1 types.go; Documentation/admin-guide/cgroup-v1 and
cgroup-v2.rst; systemd.resource-control(5), systemd(1) ``org.freedesktop.systemd1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Kind = Literal[
    "",
    "pod",
    "namespace",
    "container",
    "node",
    "owner",
    "owner kind",
    "class",
    "condition",
    "image",
    "uid",
    "container ID",
    "amounts",
    "annotations",
]
"""What a field names: such names are what ``--redact`` replaces. ``amounts`` is a map from resource
names to quantities, ``annotations`` one of which only ``ANNOTATIONS`` are taken."""


class Allowed(Struct, frozen=True):
    """Fields of a document, all below ``below`` (``[]``: each entry of a list). ``kind`` is what
    their texts are."""

    below: str
    fields: str
    kind: Kind = ""


_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_STATES = ("state", "lastState")

POD_FIELDS: tuple[Allowed, ...] = (
    Allowed("", "apiVersion kind"),
    Allowed("metadata", "name", "pod"),
    Allowed("metadata", "namespace", "namespace"),
    Allowed("metadata", "uid", "uid"),
    Allowed(
        "metadata", "creationTimestamp deletionTimestamp deletionGracePeriodSeconds generation"
    ),
    Allowed("metadata", "annotations", "annotations"),
    Allowed("metadata.ownerReferences[]", "controller"),
    Allowed("metadata.ownerReferences[]", "kind", "owner kind"),
    Allowed("metadata.ownerReferences[]", "name", "owner"),
    Allowed("metadata.ownerReferences[]", "uid", "uid"),
    Allowed("spec", "nodeName", "node"),
    Allowed("spec", "priority preemptionPolicy restartPolicy hostNetwork hostPID"),
    Allowed("spec", "hostUsers shareProcessNamespace terminationGracePeriodSeconds"),
    Allowed("spec", "runtimeClassName priorityClassName", "class"),
    Allowed("spec", "overhead", "amounts"),
    Allowed("spec.os", "name"),
    Allowed("spec.nodeSelector", "kubernetes.io/os"),
    Allowed("spec.resources", "requests limits", "amounts"),
    Allowed("spec.securityContext.windowsOptions", "hostProcess"),
    *(
        allowed
        for name in _CONTAINERS
        for allowed in (
            Allowed(f"spec.{name}[]", "name", "container"),
            Allowed(f"spec.{name}[]", "image", "image"),
            Allowed(f"spec.{name}[]", "restartPolicy"),
            Allowed(f"spec.{name}[].resources", "requests limits", "amounts"),
            Allowed(f"spec.{name}[].resizePolicy[]", "resourceName restartPolicy"),
            Allowed(f"spec.{name}[].securityContext.windowsOptions", "hostProcess"),
        )
    ),
    Allowed("status", "phase qosClass startTime reason resize observedGeneration"),
    Allowed("status", "allocatedResources", "amounts"),
    Allowed("status.resources", "requests limits", "amounts"),
    Allowed("status.conditions[]", "type", "condition"),
    Allowed("status.conditions[]", "status reason lastTransitionTime observedGeneration"),
    *(
        allowed
        for name in _STATUSES
        for allowed in (
            Allowed(f"status.{name}[]", "name", "container"),
            Allowed(f"status.{name}[]", "containerID", "container ID"),
            Allowed(f"status.{name}[]", "ready started restartCount"),
            Allowed(f"status.{name}[]", "allocatedResources", "amounts"),
            Allowed(f"status.{name}[].resources", "requests limits", "amounts"),
            *(
                Allowed(f"status.{name}[].{state}.{phase}", fields)
                for state in _STATES
                for phase, fields in (
                    ("running", "startedAt"),
                    ("waiting", "reason"),
                    ("terminated", "exitCode signal reason startedAt finishedAt"),
                )
            ),
            *(
                Allowed(f"status.{name}[].{state}.terminated", "containerID", "container ID")
                for state in _STATES
            ),
        )
    ),
)
"""Of each pod in ``pods.json``."""

NODE_FIELDS: tuple[Allowed, ...] = (
    Allowed("", "apiVersion kind"),
    Allowed("metadata", "name", "node"),
    Allowed("metadata", "creationTimestamp"),
    Allowed("status", "capacity allocatable", "amounts"),
    Allowed("status.conditions[]", "type", "condition"),
    Allowed("status.conditions[]", "status reason lastHeartbeatTime lastTransitionTime"),
    Allowed(
        "status.nodeInfo",
        "kubeletVersion containerRuntimeVersion operatingSystem kernelVersion osImage architecture",
    ),
    Allowed("status.nodeInfo.swap", "capacity"),
)
"""Of ``node.json``. Of the KubeletConfiguration the fields are those that decide about cgroups:
``core.node.documents.kubelet_config.READERS``; of qoslet's Node all of ``OWN_FIELDS``."""

_AMOUNT = r"max|[0-9][0-9.]{0,20}[A-Za-z]{0,2}"
HIGH = "qoslet.dev/memory-high"

ANNOTATIONS: Mapping[str, str] = {
    "kubernetes.io/config.hash": r"[0-9a-f-]{1,64}",
    "kubernetes.io/config.mirror": r"[0-9a-f-]{1,64}",
    "kubernetes.io/config.source": r"api|file|http",
    "experimental.windows.kubernetes.io/isolation-type": r"process|hyperv",
    HIGH: _AMOUNT,
    "qoslet.dev/memory-throttling-factor": r"[0-9.]{1,20}",
    "qoslet.dev/memory-protection": r"on|off|true|false",
    "qoslet.dev/memory-oom-group": r"on|off|true|false",
    "qoslet.dev/guard": r"off|observe|act",
}
"""Annotations that decide about cgroups, with what their values may be; ``HIGH`` also with a
container's name behind a dot."""

CONTAINER = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
"""The name of a container."""

SETTINGS_V2 = (
    "cpu.weight", "cpu.max", "cpu.max.burst", "cpu.idle", "cpu.uclamp.min", "cpu.uclamp.max",
    "cpuset.cpus", "cpuset.mems", "cpuset.cpus.partition", "memory.min", "memory.low",
    "memory.high", "memory.max", "memory.swap.high", "memory.swap.max", "memory.zswap.max",
    "memory.oom.group", "pids.max", "io.weight", "io.max", "cgroup.max.descendants",
    "cgroup.max.depth",
)  # fmt: skip
STATE_V2 = (
    "cgroup.type", "cgroup.controllers", "cgroup.subtree_control", "cgroup.events",
    "cgroup.stat", "cgroup.freeze", "cpu.stat", "cpu.pressure", "cpuset.cpus.effective",
    "cpuset.mems.effective", "memory.current", "memory.peak", "memory.stat", "memory.events",
    "memory.events.local", "memory.pressure", "memory.swap.current", "memory.swap.peak",
    "memory.swap.events", "pids.current", "pids.peak", "pids.events", "io.stat", "io.pressure",
)  # fmt: skip
HUGETLB_V2 = ("max", "rsvd.max", "current", "events")

FILES_V1: dict[str, tuple[str, ...]] = {
    "cpu": (
        "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.idle",
        "cpu.stat",
    ),
    "cpuacct": ("cpuacct.usage", "cpuacct.stat"),
    "cpuset": (
        "cpuset.cpus", "cpuset.mems", "cpuset.effective_cpus", "cpuset.effective_mems",
        "cpuset.cpu_exclusive", "cpuset.mem_exclusive",
    ),
    "memory": (
        "memory.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.memsw.limit_in_bytes",
        "memory.kmem.limit_in_bytes", "memory.swappiness", "memory.use_hierarchy",
        "memory.oom_control", "memory.usage_in_bytes", "memory.max_usage_in_bytes",
        "memory.failcnt", "memory.memsw.usage_in_bytes", "memory.kmem.usage_in_bytes",
        "memory.stat",
    ),
    "pids": ("pids.max", "pids.current", "pids.events"),
    "freezer": ("freezer.state", "freezer.self_freezing"),
    "hugetlb": (),
}  # fmt: skip
"""The files of ``cgroups.jsonl`` by v1 controller."""
HUGETLB_V1 = ("limit_in_bytes", "rsvd.limit_in_bytes", "usage_in_bytes", "failcnt")

PROPERTIES: tuple[str, ...] = (
    "ActiveState", "SubState", "Transient", "NeedDaemonReload", "Slice",
    "ControlGroup", "Delegate", "CPUAccounting", "MemoryAccounting", "TasksAccounting",
    "CPUShares", "StartupCPUShares", "CPUWeight", "StartupCPUWeight", "CPUQuotaPerSecUSec",
    "CPUQuotaPeriodUSec", "AllowedCPUs", "AllowedMemoryNodes", "EffectiveCPUs",
    "EffectiveMemoryNodes", "MemoryMin", "DefaultMemoryMin", "MemoryLow", "DefaultMemoryLow",
    "MemoryHigh", "MemoryMax", "MemorySwapMax", "MemoryZSwapMax", "MemoryLimit", "TasksMax",
    "OOMPolicy", "ManagedOOMSwap", "ManagedOOMMemoryPressure", "ManagedOOMPreference",
    "IOWeight", "BlockIOWeight",
)  # fmt: skip
"""The properties of ``units.jsonl``."""


def files_v2(page_sizes: tuple[str, ...]) -> tuple[str, ...]:
    """The files of ``cgroups.jsonl`` on v2; ``page_sizes`` as in ``hugetlb.2MB.max``."""
    pages = [f"hugetlb.{size}.{end}" for size in page_sizes for end in HUGETLB_V2]
    return (*SETTINGS_V2, *STATE_V2, *pages)


def files_v1(controller: str, page_sizes: tuple[str, ...]) -> tuple[str, ...]:
    """The same of a v1 controller; none for one that no plan has files of."""
    if controller == "hugetlb":
        return tuple(f"hugetlb.{size}.{end}" for size in page_sizes for end in HUGETLB_V1)
    return FILES_V1.get(controller, ())
