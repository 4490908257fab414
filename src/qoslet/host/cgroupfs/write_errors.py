"""What the kernel means by an errno on a control group, and what to do next.

Source: kernel/cgroup/*.c, mm/memcontrol*.c, kernel/sched/core.c of Linux 6.12;
Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
from typing import Literal

from qoslet.errors import QosletError

Deed = Literal["create", "set", "attach", "remove", "enable", "kill"]


class CgroupError(QosletError):
    """The kernel said no. ``number`` is the errno, 0 where we did not ask it."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


def errno_name(number: int) -> str:
    """``EBUSY`` for 16."""
    if number == errno.EOPNOTSUPP:
        # Python says ENOTSUP, which is the same number.
        return "EOPNOTSUPP"
    return errno.errorcode.get(number, f"errno {number}")


def cgroup_error(
    deed: Deed, where: str, number: int, file: str = "", value: str = ""
) -> CgroupError:
    """The refusal of ``deed`` on the directory ``where`` as one line: what was tried on which
    path, the errno, what it means, what to do."""
    meaning, advice = _meaning(deed, number, file)
    place = f"{where}/{file}" if file else where
    tried = f" refuses {value!r} with" if value else ""
    return CgroupError(f"{place}{tried or ':'} {errno_name(number)}: {meaning}; {advice}", number)


def no_domain(where: str, file: str, kind: str) -> CgroupError:
    """A file that a v2 group lacks because it is ``threaded`` or ``domain invalid``."""
    return CgroupError(
        f"{where}/{file}: ENOENT: the group is {kind} and has no such file; "
        "choose a root whose groups above are all domains (cat cgroup.type)",
        errno.ENOENT,
    )


_GENERAL = {
    errno.EPERM: (
        "this process has not the right to do it",
        "run as root, or have the group delegated to this user",
    ),
    errno.EACCES: (
        "this process has not the right to do it",
        "run as root, or have the group delegated to this user",
    ),
    errno.EROFS: (
        "the hierarchy is mounted read-only",
        "mount it read-write, or run outside the container that mounted it so",
    ),
    errno.ENODEV: ("the group was removed meanwhile", "it is made again with the next look"),
    errno.ENOENT: ("the group was removed meanwhile", "it is made again with the next look"),
    errno.EBUSY: (
        "somebody else uses or changes the group at this moment",
        "try again; cat cgroup.procs there tells who is in it",
    ),
    errno.ENOSPC: (
        "the kernel has no room or number left for it",
        "remove groups that nobody uses; removed ones count until their memory is freed",
    ),
    errno.EOPNOTSUPP: (
        "the group is threaded, or domain invalid below a threaded one (cat cgroup.type)",
        "choose a root whose groups above are all domains",
    ),
    errno.ETIMEDOUT: (
        "the write still waits while the kernel takes memory back (reclaim)",
        "end something in the group, or set the limit above its use",
    ),
    errno.ELOOP: (
        "a symbolic link stands in the path",
        "control groups have none: see who put it there",
    ),
    errno.ENOTDIR: (
        "a link or a file stands where a group should be",
        "control groups have none: see who put it there",
    ),
    errno.EINVAL: ("the kernel takes no such value here", "see the rule that gave it: explain"),
    errno.ERANGE: ("the value is out of the file's bounds", "see the rule that gave it: explain"),
    errno.ENOMEM: ("the kernel has no memory for it", "free some memory and try again"),
}

_CREATE = {
    errno.EINVAL: ("the name is no name for a group", "no newline, not . and not .."),
    errno.ENAMETOOLONG: ("a part of the name is longer than 255 bytes", "choose a shorter one"),
    errno.EBUSY: (
        "a group of that name is just being removed",
        "it is made with the next look",
    ),
    errno.ENOENT: (
        "the group above is not there",
        "make it first, or choose a root of one part such as /qoslet",
    ),
    errno.ENOSPC: (
        "the kernel has no number left for another group (memory: 65535)",
        "remove groups that nobody uses; removed ones count until their memory is freed",
    ),
    errno.EAGAIN: (
        "cgroup.max.descendants or cgroup.max.depth of a group above is reached",
        "raise it there, or remove groups",
    ),
}

_REMOVE = {
    errno.EINVAL: ("the hierarchy's own root cannot be removed", "name a group below it"),
    errno.EBUSY: (
        "it holds processes or groups",
        "end them first: cat cgroup.procs there and below",
    ),
}

_ENABLE = {
    errno.EBUSY: (
        "a v2 group that has processes of its own cannot give controllers to those below",
        "move them into a group beside (cat cgroup.procs), or choose another root",
    ),
    errno.ENOENT: ("the controller is not there", "enable it in the groups above first"),
    errno.ENODEV: (
        "the controller is bound to a v1 hierarchy, or switched off for the kernel",
        "unmount it there, or boot without cgroup_disable= and cgroup_no_v1=",
    ),
    errno.EOPNOTSUPP: (
        "a threaded group cannot have it (cat cgroup.type)",
        "choose a root whose groups above are all domains",
    ),
    errno.EINVAL: (
        "the kernel knows no such controller, or it cannot be switched here",
        "see cgroup.controllers of the root",
    ),
}

_ATTACH = {
    errno.ESRCH: ("the process has ended", "nothing is left to do"),
    errno.ENOSPC: (
        "cpuset.cpus or cpuset.mems of the group is empty",
        "write both before a process joins",
    ),
    errno.EBUSY: (
        "a v2 group whose controllers are given to those below takes no processes",
        "let the process join a leaf",
    ),
    errno.EINVAL: ("the process cannot be moved (a kernel thread)", "leave it where it is"),
    errno.EOPNOTSUPP: (
        "the group is threaded or domain invalid and takes no whole process (cat cgroup.type)",
        "choose a root whose groups above are all domains",
    ),
    errno.EAGAIN: ("the group's pids.max is reached", "raise it, or end something in the group"),
}

_SET = {
    errno.ENOENT: (
        "the group or the file is gone or was never offered by the kernel or the group above",
        "see cgroup.controllers, or the mounts of v1",
    ),
    errno.ENODEV: (
        "the group was removed meanwhile, or its controller was switched off above it",
        "both are made good with the next look",
    ),
    errno.ENOSPC: ("the kernel has no room for the value", "see the rule that gave it: explain"),
}

_CPUSET = {
    errno.EACCES: (
        "the group above does not have these CPUs or nodes",
        "widen it there first",
    ),
    errno.EBUSY: ("a group below uses more than that", "narrow those first"),
    errno.ENOSPC: ("processes would be left without a CPU or node", "end or move them first"),
}

_MEMORY = {
    errno.EBUSY: (
        "the group uses more than that and the kernel could not take it back",
        "wait until usage is below, or end something in it",
    ),
    errno.EINVAL: (
        "memory.limit_in_bytes may not pass memory.memsw.limit_in_bytes",
        "raise memsw first, lower it last",
    ),
}

_LIMITED = {
    errno.EINVAL: (
        "a limit is bytes, or max",
        "see the rule that gave it: explain",
    ),
    errno.EBUSY: _MEMORY[errno.EBUSY],
}

_HUGETLB = {
    errno.EBUSY: (
        "more huge pages are in use than that",
        "wait until they are given back, or end something in the group",
    ),
    errno.EINVAL: ("a limit is bytes, or max (v1: -1)", "see the rule that gave it: explain"),
}

_PIDS = {
    errno.EINVAL: (
        "a number from 0 to 4194304, or max, is taken",
        "see the rule that gave it: explain",
    ),
}

_WEIGHT = {
    errno.EINVAL: (
        "an idle group (cpu.idle 1) takes no weight; else it is a number from 1 to 10000",
        "write 0 to cpu.idle first",
    ),
}

_QUOTA = {
    errno.EINVAL: (
        "the quota is below 1 ms, the period not 1 ms to 1 s, or the group above has less",
        "raise the group above first, lower it last",
    ),
}

_BANDWIDTH = {
    errno.EINVAL: (
        "the quota is below 1 ms, or the period not 1 ms to 1 s",
        "see the rule that gave it: explain",
    ),
}


_BY_FILE = (
    ("cpuset.", _CPUSET),
    ("memory.limit", _MEMORY),
    ("memory.memsw.", _MEMORY),
    ("memory.", _LIMITED),
    ("hugetlb.", _HUGETLB),
    ("pids.", _PIDS),
    ("cpu.weight", _WEIGHT),
    ("cpu.cfs_", _QUOTA),
    ("cpu.max", _BANDWIDTH),
)
"""What errors of a write mean by the beginning of the file's name; the first one counts."""


def _meaning(deed: Deed, number: int, file: str) -> tuple[str, str]:
    """What it means and the next step; the most particular row that there is."""
    tables: list[dict[int, tuple[str, str]]] = []
    if deed == "set":
        tables += [table for start, table in _BY_FILE if file.startswith(start)][:1]
    by_deed = {
        "create": _CREATE,
        "remove": _REMOVE,
        "enable": _ENABLE,
        "attach": _ATTACH,
        "set": _SET,
    }
    tables += [by_deed.get(deed, {}), _GENERAL]
    for table in tables:
        if number in table:
            return table[number]
    return os.strerror(number), "see the kernel's log"
