"""Who writes which file of a node's cgroups, when, and what resets a value set by hand.

One table, by level, file and release. Sources: kubelet pkg/kubelet/cm as of 1.25, 1.27, 1.29 to
1.36 (node_container_manager_linux.go, qos_container_manager_linux.go,
pod_container_manager_linux.go, cgroup_manager_linux.go, cpumanager/cpu_manager.go), the pull
requests that rows name, and the CRI's UpdateContainerResources.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.interface_files import MEMORY_QOS, PROTECTION, UNPLANNED, property_of
from qoslet.core.cgroup.names import UNIT_ENDINGS, is_at_or_below

Level = Literal[
    "kubepods",
    "qos",
    "pod",
    "sandbox",
    "container",
    "reserved",
    "unit",
    "controllers",
    "qoslet",
    "windows",
]

NEWEST = 99
"""Stands for a release that is not known: the newest row counts."""


class FileWriter(Struct, frozen=True):
    """Files by their beginnings at one level, from release 1.``since`` to 1.``until``."""

    level: Level
    files: tuple[str, ...]
    writer: str
    when: str
    """When the writer writes them."""
    reset: str
    """When it overwrites a value set by hand; empty: never."""
    source: str
    since: int = 0
    until: int = NEWEST


_QOS_UPDATE = "with each QoS update, at most a minute later"
_QOS_TIMES = "with each QoS update: each minute, before a pod's cgroup is created, after a pod ends"
_START = "at its start"
_RETRIED = "when the cgroup is created and once at the kubelet's start, each minute until it works"
_CREATED = "when the pod's cgroup is created"
_POD_RESIZE = f"{_CREATED}, and with an in-place resize"
_RESIZE = "at an in-place resize"
_CPUS = "when the static CPU manager changes the container's CPUs"
_QOS_SOURCE = "cm/qos_container_manager_linux.go UpdateCgroups"
_NODE_SOURCE = "cm/node_container_manager_linux.go enforceNodeAllocatableCgroups"
_POD_SOURCE = "cm/pod_container_manager_linux.go EnsureExists"
_POD_LIMITS = ("cpu.", "memory.max", "memory.limit_in_bytes")

TABLE: tuple[FileWriter, ...] = (
    FileWriter(
        "kubepods", PROTECTION, "kubelet",
        f"{_QOS_TIMES} (Memory QoS; only values above 0)", _QOS_UPDATE, _QOS_SOURCE, until=35,
    ),
    FileWriter(
        "kubepods", PROTECTION, "kubelet",
        f"{_QOS_TIMES} (Memory QoS)", _QOS_UPDATE, _QOS_SOURCE, since=36,
    ),
    FileWriter("kubepods", ("hugetlb.",), "kubelet", _QOS_TIMES, _QOS_UPDATE, _QOS_SOURCE),
    FileWriter(
        "kubepods", ("cpu.", "memory.", "pids.", "cpuset."), "kubelet",
        _RETRIED, _START, _NODE_SOURCE,
    ),
    FileWriter(
        "qos", ("cpu.weight", "cpu.shares", "hugetlb."), "kubelet",
        _QOS_TIMES, _QOS_UPDATE, _QOS_SOURCE,
    ),
    FileWriter(
        "qos", PROTECTION, "kubelet",
        f"{_QOS_TIMES} (Memory QoS; only values above 0)", _QOS_UPDATE, _QOS_SOURCE, until=35,
    ),
    FileWriter(
        "qos", PROTECTION, "kubelet",
        f"{_QOS_TIMES} (Memory QoS)", _QOS_UPDATE, _QOS_SOURCE, since=36,
    ),
    FileWriter(
        "qos", ("memory.max", "memory.limit_in_bytes"), "kubelet",
        f"{_QOS_TIMES} (--qos-reserved)", _QOS_UPDATE, _QOS_SOURCE,
    ),
    FileWriter(
        "pod", _POD_LIMITS, "kubelet",
        f"{_POD_RESIZE} (the file only: systemd keeps the old value)", _RESIZE,
        "cm/cgroup_v2_manager_linux.go SetCgroupConfig of 1.27 and 1.31; issue 113857",
        since=27, until=31,
    ),
    FileWriter(
        "pod", _POD_LIMITS, "kubelet", _POD_RESIZE, _RESIZE,
        "cm/cgroup_manager_linux.go SetCgroupConfig of 1.32 and later", since=32,
    ),
    FileWriter(
        "pod", ("hugetlb.",), "kubelet",
        f"{_CREATED}; an in-place resize writes 0 (defect, PR 141991)", _RESIZE,
        "cm/cgroup_manager_linux.go SetCgroupConfig of 1.32 and later", since=32,
    ),
    FileWriter(
        "pod", MEMORY_QOS, "kubelet", _POD_RESIZE, _RESIZE,
        "PR 140262: a resize also writes Memory QoS", since=37,
    ),
    FileWriter(
        "pod", ("cpu.", "memory.", "hugetlb.", "pids."), "kubelet", _CREATED, "",
        f"{_POD_SOURCE}: a cgroup that exists is left alone; issue 137674",
    ),
    FileWriter(
        "sandbox", ("",), "container runtime", "when the sandbox is created", "",
        "CRI RunPodSandbox",
    ),
    FileWriter(
        "container", ("oom_score_adj",), "container runtime", "when the container starts",
        "when the container starts again", "CRI CreateContainer",
    ),
    FileWriter(
        "container", ("cpuset.cpus",), "kubelet's CPU manager",
        "when the container is created, then every 10 seconds", "every 10 seconds",
        "cpumanager/cpu_manager.go reconcileState before PR 101771", until=21,
    ),
    FileWriter(
        "container", ("cpuset.cpus",), "kubelet's CPU manager",
        "when the container is created, when its CPUs change, and once after the kubelet's start",
        "when it changes the container's CPUs, and within 10 seconds of its start",
        "PR 101771; cpumanager/cpu_manager.go reconcileState: sent only if it differs from what was"
        " sent last", since=22,
    ),
    FileWriter(
        "container", ("cpuset.mems",), "container runtime", "when the container is created",
        _CPUS, "CRI CreateContainer; runc update writes all values again",
    ),
    FileWriter(
        "container", ("",), "container runtime", "when the container is created", _CPUS,
        "CRI CreateContainer; runc update writes all values again, PR 101771", until=26,
    ),
    FileWriter(
        "container", ("",), "container runtime",
        "when the container is created, and with an in-place resize, which sends all of them",
        f"{_RESIZE}, and {_CPUS}",
        "CRI UpdateContainerResources; runc update writes all values again", since=27,
    ),
    FileWriter(
        "windows", ("",), "container runtime",
        "when the container is created; Windows takes no in-place resize", "",
        "CRI CreateContainer; kubelet: a resize is Infeasible on Windows",
    ),
    FileWriter(
        "reserved", ("cpu.", "memory.", "pids.", "hugetlb.", "cpuset."), "kubelet",
        "once at the kubelet's start", _START, "cm/node_container_manager_linux.go"
        " enforceExistingCgroup",
    ),
    FileWriter(
        "unit", ("",), "systemd", "when the unit starts",
        "at the next daemon-reload or set-property of the unit", "systemd.resource-control(5)",
    ),
    FileWriter(
        "controllers", ("",), "systemd", "when a unit needs a controller",
        "when a unit starts or stops needing a controller", "systemd.resource-control(5)",
    ),
    FileWriter(
        "qoslet", ("",), "qoslet", "when qoslet run creates the cgroup",
        "with its next sync (apply: when it runs next)", "agent/reconciler.py",
    ),
)  # fmt: skip
"""The first row that fits counts. Files that no row names are written by nobody."""

_OOM_GROUP = (
    "systemd writes 0 with the next property of the unit, and after a daemon-reload when a container"
    " beside it starts or gets a property"
)
"""Of scopes with Delegate=, which containers are: their OOMPolicy is continue. Source: systemd core/scope.c,
core/cgroup.c unit_add_family_to_cgroup_realize_queue; seen with 257."""


def writer_of(level: Level, file: str, minor: int = NEWEST) -> FileWriter | None:
    """Who writes a file at a level in release 1.``minor``; None: nobody does."""
    if file in UNPLANNED:
        return None
    for row in TABLE:
        if row.level == level and row.since <= minor <= row.until and file.startswith(row.files):
            return row
    return None


def level_of(path: str, root: str) -> Level:
    """The level of a cgroup, by its name below ``root/kubepods``; outside of ``root`` a unit of
    systemd, else a cgroup that the kubelet was told to enforce reservations on."""
    if not is_at_or_below(path, root):
        return "unit" if path.endswith(UNIT_ENDINGS) else "reserved"
    parts = [part for part in path.removeprefix(root).split("/") if part]
    last = parts[-1] if parts else ""
    if last.endswith(".slice"):
        last = last.removesuffix(".slice").rpartition("-")[2]
    if last.startswith("pod"):
        return "pod"
    if last in ("burstable", "besteffort"):
        return "qos"
    return "kubepods" if len(parts) <= 1 else "container"


def resets(row: FileWriter | None, file: str = "", unit: bool = False) -> str:
    """What resets a value set by hand and when, as the end of a sentence. ``unit``: systemd knows
    the cgroup as a unit, and writes again what it has a property for."""
    sentences = []
    if row is not None and row.reset:
        sentences.append(f"{row.writer} resets it {row.reset}")
    if unit and (row is None or row.writer != "systemd") and property_of(file, "v2", NEWEST * 10):
        sentences.append("systemd resets it at the next daemon-reload or set-property of the unit")
    if unit and file == "memory.oom.group":
        sentences.append(_OOM_GROUP)
    return "; ".join(sentences) or "nothing resets it"


def resets_at(path: str, file: str, root: str, owned: bool) -> str:
    """The same for a path, in any release. ``owned``: qoslet created the cgroup, so that no other
    manager looks after it."""
    if owned:
        return "only a qoslet run or apply that still plans it resets it"
    level: Level = "controllers" if file == "cgroup.subtree_control" else level_of(path, root)
    return resets(
        writer_of(level, file), file, unit=path.endswith(UNIT_ENDINGS) and level != "unit"
    )
