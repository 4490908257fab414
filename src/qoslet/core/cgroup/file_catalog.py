"""The files of a v2 cgroup up to Linux 7.2: on which cgroups they exist, and which are writable.

Source: Documentation/admin-guide/cgroup-v2.rst; kernel/cgroup/cgroup.c, cpuset.c, pids.c, rdma.c,
misc.c, dmem.c; mm/memcontrol.c, hugetlb_cgroup.c; kernel/sched/core.c; block/blk-*.c.
"""

from __future__ import annotations

from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.kernel_numbers import LatePattern

DIRECTORY, INVALID, MISSING = "is a directory", "invalid argument", "no such file or directory"
LONG = "file name too long"

_LONGEST = 255


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CORE = _names(
    "cgroup.type cgroup.procs cgroup.threads cgroup.subtree_control cgroup.max.descendants "
    "cgroup.max.depth cgroup.freeze cgroup.kill cgroup.pressure cpu.pressure io.pressure "
    "irq.pressure memory.pressure"
)
"""Files of every cgroup, whatever controllers it has."""

_CORE_READ = _names(
    "cgroup.controllers cgroup.events cgroup.stat cgroup.stat.local cpu.stat cpu.stat.local"
)

_OF_CONTROLLERS = _names(
    "cpu.weight cpu.weight.nice cpu.max cpu.max.burst cpu.idle cpu.uclamp.min cpu.uclamp.max "
    "cpuset.cpus cpuset.mems cpuset.cpus.partition cpuset.cpus.exclusive io.max io.weight "
    "io.bfq.weight io.latency io.prio.class memory.min memory.low memory.high memory.max "
    "memory.swap.max memory.swap.high memory.swap.peak memory.peak memory.zswap.max "
    "memory.zswap.writeback memory.oom.group memory.reclaim pids.max rdma.max misc.max "
    "dmem.max dmem.low dmem.min"
)

_USUAL = frozenset(file for file in _OF_CONTROLLERS if not file.startswith("io."))

_OF_CONTROLLERS_READ = _names(
    "cpuset.cpus.effective cpuset.mems.effective cpuset.cpus.exclusive.effective io.stat "
    "memory.current memory.events memory.events.local memory.stat memory.numa_stat "
    "memory.swap.current memory.swap.events memory.zswap.current pids.current pids.peak "
    "pids.events pids.events.local rdma.current rdma.peak rdma.events rdma.events.local "
    "misc.current misc.peak misc.events misc.events.local dmem.current"
)

_HUGETLB = LatePattern(r"hugetlb\.([0-9]{1,9}[KMG]B)\.(rsvd\.)?(max|current)\Z")
_HUGETLB_READ = LatePattern(r"hugetlb\.([0-9]{1,9}[KMG]B)\.(events|events\.local|numa_stat)\Z")


def unopened(key: str, features: KernelFeatures) -> str:
    """The error of opening a file of the cgroup for writing; empty if it opens."""
    available = features.controllers
    usual = key in _USUAL and (features.swap or ".swap." not in key)
    if usual and (available is None or key.partition(".")[0] in available):
        return ""
    if key in ("", ".", ".."):
        return DIRECTORY
    if "\0" in key:
        return INVALID
    if len(key.encode(errors="surrogatepass")) > _LONGEST:
        return LONG
    if key in _CORE or key in _CORE_READ:
        return ""
    if available is not None and key.partition(".")[0] not in available:
        return MISSING
    return "" if _has(key, features) else MISSING


def _has(key: str, features: KernelFeatures) -> bool:
    """Whether a cgroup with the controller has the file."""
    if key.startswith("hugetlb."):
        match = _HUGETLB.match(key) or _HUGETLB_READ.match(key)
        sizes = features.sizes
        known = match is not None and (sizes is None or match[1] in sizes)
        return known and (features.rsvd or ".rsvd." not in key)
    lacking = (
        (not features.swap and key.startswith("memory.swap."))
        or (not features.bfq and key == "io.bfq.weight")
        or (not features.iocost and key == "io.weight")
    )
    return not lacking and (key in _OF_CONTROLLERS or key in _OF_CONTROLLERS_READ)


def read_only(key: str) -> bool:
    """Whether the file is read-only."""
    return (
        key in _CORE_READ
        or key in _OF_CONTROLLERS_READ
        or (key.startswith("hugetlb.") and not key.endswith(".max"))
    )
