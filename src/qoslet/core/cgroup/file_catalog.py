"""The files that a v2 group has, up to Linux 7.2: who has them, and which can be written.

Source: Documentation/admin-guide/cgroup-v2.rst; kernel/cgroup/cgroup.c, cpuset.c, pids.c, rdma.c,
misc.c, dmem.c; mm/memcontrol.c, hugetlb_cgroup.c; kernel/sched/core.c; block/blk-*.c.
"""

from __future__ import annotations

from qoslet.core.cgroup.features import Ground
from qoslet.core.cgroup.kernel_numbers import LatePattern

DIRECTORY, INVALID, MISSING = "is a directory", "invalid argument", "no such file or directory"
LONG = "file name too long"

_LONGEST = 255

_CORE = frozenset(
    [
        "cgroup.type",
        "cgroup.procs",
        "cgroup.threads",
        "cgroup.subtree_control",
        "cgroup.max.descendants",
        "cgroup.max.depth",
        "cgroup.freeze",
        "cgroup.kill",
        "cgroup.pressure",
        "cpu.pressure",
        "io.pressure",
        "irq.pressure",
        "memory.pressure",
    ]
)
"""Files of every group, whatever controllers it has."""

_CORE_READ = frozenset(
    [
        "cgroup.controllers",
        "cgroup.events",
        "cgroup.stat",
        "cgroup.stat.local",
        "cpu.stat",
        "cpu.stat.local",
    ]
)

_OF_CONTROLLERS = frozenset(
    [
        "cpu.weight",
        "cpu.weight.nice",
        "cpu.max",
        "cpu.max.burst",
        "cpu.idle",
        "cpu.uclamp.min",
        "cpu.uclamp.max",
        "cpuset.cpus",
        "cpuset.mems",
        "cpuset.cpus.partition",
        "cpuset.cpus.exclusive",
        "io.max",
        "io.weight",
        "io.bfq.weight",
        "io.latency",
        "io.prio.class",
        "memory.min",
        "memory.low",
        "memory.high",
        "memory.max",
        "memory.swap.max",
        "memory.swap.high",
        "memory.swap.peak",
        "memory.peak",
        "memory.zswap.max",
        "memory.zswap.writeback",
        "memory.oom.group",
        "memory.reclaim",
        "pids.max",
        "rdma.max",
        "misc.max",
        "dmem.max",
        "dmem.low",
        "dmem.min",
    ]
)

_USUAL = frozenset(file for file in _OF_CONTROLLERS if not file.startswith("io."))

_OF_CONTROLLERS_READ = frozenset(
    [
        "cpuset.cpus.effective",
        "cpuset.mems.effective",
        "cpuset.cpus.exclusive.effective",
        "io.stat",
        "memory.current",
        "memory.events",
        "memory.events.local",
        "memory.stat",
        "memory.numa_stat",
        "memory.swap.current",
        "memory.swap.events",
        "memory.zswap.current",
        "pids.current",
        "pids.peak",
        "pids.events",
        "pids.events.local",
        "rdma.current",
        "rdma.peak",
        "rdma.events",
        "rdma.events.local",
        "misc.current",
        "misc.peak",
        "misc.events",
        "misc.events.local",
        "dmem.current",
    ]
)

_HUGETLB = LatePattern(r"hugetlb\.([0-9]{1,9}[KMG]B)\.(rsvd\.)?(max|current)\Z")
_HUGETLB_READ = LatePattern(r"hugetlb\.([0-9]{1,9}[KMG]B)\.(events|events\.local|numa_stat)\Z")


def unopened(key: str, ground: Ground) -> str:
    """The error of opening a file of the group for writing; empty where it opens."""
    there = ground.controllers
    usual = key in _USUAL and (ground.swap or ".swap." not in key)
    if usual and (there is None or key.partition(".")[0] in there):
        return ""
    if key in ("", ".", ".."):
        return DIRECTORY
    if "\0" in key:
        return INVALID
    if len(key.encode(errors="surrogatepass")) > _LONGEST:
        return LONG
    if key in _CORE or key in _CORE_READ:
        return ""
    if there is not None and key.partition(".")[0] not in there:
        return MISSING
    return "" if _has(key, ground) else MISSING


def _has(key: str, ground: Ground) -> bool:
    """Whether a group with the controller has the file."""
    if key.startswith("hugetlb."):
        found = _HUGETLB.match(key) or _HUGETLB_READ.match(key)
        sizes = ground.sizes
        known = found is not None and (sizes is None or found[1] in sizes)
        return known and (ground.rsvd or ".rsvd." not in key)
    lacking = (
        (not ground.swap and key.startswith("memory.swap."))
        or (not ground.bfq and key == "io.bfq.weight")
        or (not ground.iocost and key == "io.weight")
    )
    return not lacking and (key in _OF_CONTROLLERS or key in _OF_CONTROLLERS_READ)


def read_only(key: str) -> bool:
    """Whether the kernel takes nothing for the file."""
    return (
        key in _CORE_READ
        or key in _OF_CONTROLLERS_READ
        or (key.startswith("hugetlb.") and not key.endswith(".max"))
    )
