"""Values that a feature, a limit or an older kubelet left: which file tells of which cause.

Source: KEP-2570 "Graduation, rollback" and pull requests 138903, 140267 (what switching MemoryQoS off
leaves); pull request 138187 (a limit that was removed by an in-place resize stays); kubelet
cm/qos_container_manager_linux.go and node_container_manager_linux.go (values that stop being
written are not cleared); pull request 141991 (a resize writes 0 to hugepage limits); cm/node_container_manager_linux.go
getCgroupConfig (cpuset.cpus of kubepods without a CPU manager; of what is reserved only memory, CPU shares, pids and hugepages).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from qoslet.core.cgroup.interface_files import KNOBS, PROTECTION, UNPLANNED, released
from qoslet.core.reconcile.file_writers import Level


class LeftBehind(Struct, frozen=True):
    """Files by their beginnings at some levels: ``cause`` ends the sentence "left by …"."""

    files: tuple[str, ...]
    levels: tuple[Level, ...]
    cause: str
    clear: str
    """What clears it, besides writing the file."""


MEMORY_LIMITS = ("memory.max", "memory.limit_in_bytes")
_OF_PODS = (*MEMORY_LIMITS, "cpu.max", "cpu.cfs_quota_us")
PERIOD = "cpu.cfs_period_us"
LIMITS = (*_OF_PODS, "memory.memsw.limit_in_bytes")
_RESTART = "restarting the pod clears it"
_REMOVED = "a limit that the pod no longer has (a resize cannot remove limits)"

TABLE: tuple[LeftBehind, ...] = (
    LeftBehind(
        ("memory.high",), ("pod", "container"),
        "Memory QoS, which was in force when it was created", _RESTART,
    ),
    LeftBehind(
        PROTECTION, ("kubepods", "qos"),
        "Memory QoS, which no longer sets it (kubelets before 1.37 do not clear it)",
        "a kubelet of 1.37 clears it at its start",
    ),
    LeftBehind(
        PROTECTION, ("pod", "container"),
        "Memory QoS, which was in force when it was created", _RESTART,
    ),
    LeftBehind(
        (*PROTECTION, "memory.high"), ("reserved",),
        "Memory QoS, which no longer sets it", "nothing else clears it",
    ),
    LeftBehind(
        MEMORY_LIMITS, ("qos",),
        "--qos-reserved, which is no longer set", "nothing else clears it",
    ),
    LeftBehind(_OF_PODS, ("pod",), _REMOVED, _RESTART),
    LeftBehind(LIMITS, ("container",), _REMOVED, _RESTART),
    LeftBehind((PERIOD,), ("container",), "another cpuCFSQuotaPeriod", _RESTART),
    LeftBehind(
        ("pids.max",), ("pod",), "--pod-max-pids, which is no longer set", _RESTART,
    ),
    LeftBehind(
        (*MEMORY_LIMITS, "pids.max", "cpu.shares", "cpu.weight", "hugetlb."), ("kubepods", "reserved"),
        "a reservation that is no longer enforced", "nothing else clears it",
    ),
    LeftBehind(
        ("cpuset.",), ("container",), "another CPU or memory manager policy", _RESTART,
    ),
    LeftBehind(
        ("cpuset.",), ("kubepods",),
        "cpuManagerPolicy none, which sets all CPUs of the machine", "nothing else clears it",
    ),
    LeftBehind(
        ("memory.swap.max",), ("container",), "another memorySwap behavior", _RESTART,
    ),
    LeftBehind(
        ("memory.oom.group",), ("container",), "another singleProcessOOMKill", _RESTART,
    ),
)  # fmt: skip
"""The first row that fits counts."""

_DEFAULTED = {
    "container": ("pids.max",),
    "sandbox": ("pids.max", "cpu.weight", "cpu.shares", "cpuset.", "memory.swap.max",
                "memory.memsw.limit_in_bytes", "memory.oom.group"),
    "reserved": ("cpuset.",),
}  # fmt: skip
"""Files by their beginnings that runtimes and systemd set by default, and administrators of reserved
cgroups."""

_OF_GROUPS = ("cgroup.max.descendants", "cgroup.max.depth")
_OF_LOADS = ("cpu.max.burst", "memory.swap.high")
_BY_NOBODY: Mapping[tuple[Level, str], tuple[str, ...]] = {
    ("kubepods", "v2"): _OF_GROUPS,
    ("qos", "v2"): _OF_GROUPS,
    ("pod", "v2"): (*_OF_LOADS, *_OF_GROUPS),
    ("container", "v2"): _OF_LOADS,
    ("pod", "v1"): ("cpu.cfs_burst_us",),
    ("container", "v1"): ("cpu.cfs_burst_us",),
}
"""Files that nobody writes, where they decide about pods: whether cgroups can be made below, and what a
container may have beside its limits."""

CPUSETS = ("cpuset.cpus", "cpuset.mems")


def left_behind(level: Level, file: str) -> LeftBehind | None:
    """What leaves a value in a file that the plan does not set; None: nothing that is known."""
    for row in () if file in UNPLANNED else TABLE:
        if level in row.levels and file.startswith(row.files):
            return row
    return None


@lru_cache(maxsize=32)
def may_be_left(level: Level, hierarchy: str) -> tuple[str, ...]:
    """The files of a cgroup that must be as new where the plan does not set them; on v1 a new one has
    the CPUs and memory nodes of its parent."""
    skipped = _DEFAULTED.get(level, ())
    files = (row.v1 if hierarchy == "v1" else row.v2 for row in KNOBS)
    known = tuple(
        file
        for file in files
        if file is not None
        and (released(file, hierarchy) is not None or file in CPUSETS)
        and not (skipped and file.startswith(skipped))
    )
    return known + _BY_NOBODY.get((level, hierarchy), ())
