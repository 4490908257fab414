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


class PendingWrite(Exception):
    """The write goes on, or waits for another one that does."""


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
        f"{where}/{file}: ENOENT: the cgroup is {kind} and has no such file; choose a root whose ancestors are all domains (cat cgroup.type)",
        errno.ENOENT,
    )


_GENERAL = {
    errno.EPERM: (
        "permission denied",
        "run as root, or delegate the cgroup to this user",
    ),
    errno.EACCES: (
        "permission denied",
        "run as root, or delegate the cgroup to this user",
    ),
    errno.EROFS: (
        "the hierarchy is mounted read-only",
        "mount it read-write, or run outside the container",
    ),
    errno.ENODEV: ("the cgroup was removed", "the next sync recreates it"),
    errno.ENOENT: ("the cgroup was removed", "the next sync recreates it"),
    errno.EBUSY: (
        "another process is using or changing the cgroup",
        "try again; cat cgroup.procs lists its processes",
    ),
    errno.ENOSPC: (
        "the kernel has no space or ID left for it",
        "remove unused cgroups; removed ones count until their memory is freed",
    ),
    errno.EOPNOTSUPP: (
        "the cgroup is threaded, or domain invalid below a threaded one (cat cgroup.type)",
        "choose a root whose ancestors are all domains",
    ),
    errno.ETIMEDOUT: (
        "the write is still waiting for reclaim",
        "stop a process in the cgroup, or set the limit above its usage",
    ),
    errno.ELOOP: (
        "the path contains a symbolic link",
        "cgroups have none: find out who created it",
    ),
    errno.ENOTDIR: (
        "a link or a file exists in place of a cgroup",
        "cgroups have none: find out who created it",
    ),
    errno.EINVAL: ("the kernel rejects this value", "see qoslet explain"),
    errno.ERANGE: ("the value is out of range", "see qoslet explain"),
    errno.ENOMEM: ("the kernel has no memory", "free some memory and try again"),
    errno.EMFILE: (
        "this process has as many files open as it may",
        "raise the limit: ulimit -n 1024, or LimitNOFILE= of the unit",
    ),
    errno.ENFILE: ("the machine has as many files open as it may", "raise fs.file-max"),
}

_CREATE = {
    errno.EINVAL: ("not a valid cgroup name", "no newline, not . and not .."),
    errno.ENAMETOOLONG: ("a name component is longer than 255 bytes", "choose a shorter one"),
    errno.EBUSY: (
        "a cgroup of that name is being removed",
        "the next sync creates it",
    ),
    errno.ENOENT: (
        "the parent cgroup does not exist",
        "create it first, or choose a root of one component such as /qoslet",
    ),
    errno.ENOSPC: (
        "the kernel has no ID left for another cgroup (memory: 65535)",
        "remove unused cgroups; removed ones count until their memory is freed",
    ),
    errno.EAGAIN: (
        "cgroup.max.descendants or cgroup.max.depth of an ancestor is reached",
        "raise it there, or remove cgroups",
    ),
}

_REMOVE = {
    errno.EINVAL: ("the root of the hierarchy cannot be removed", "give a cgroup below it"),
    errno.EBUSY: (
        "it has processes or child cgroups",
        "stop them first: cat cgroup.procs there and below",
    ),
}

_ENABLE = {
    errno.EBUSY: (
        "a v2 cgroup with processes cannot enable controllers for its children",
        "move them into a sibling cgroup (cat cgroup.procs), or choose another root",
    ),
    errno.ENOENT: ("the controller is not available", "enable it in the ancestors first"),
    errno.ENODEV: (
        "the controller is bound to a v1 hierarchy, or disabled in the kernel",
        "unmount it there, or boot without cgroup_disable= and cgroup_no_v1=",
    ),
    errno.EOPNOTSUPP: (
        "a threaded cgroup cannot have it (cat cgroup.type)",
        "choose a root whose ancestors are all domains",
    ),
    errno.EINVAL: (
        "the kernel does not have this controller, or it cannot be enabled here",
        "see cgroup.controllers of the root",
    ),
}

_ATTACH = {
    errno.ESRCH: ("the process has ended", "nothing is left to do"),
    errno.ENOSPC: (
        "cpuset.cpus or cpuset.mems of the cgroup is empty",
        "write both before a process joins",
    ),
    errno.EBUSY: (
        "a v2 cgroup that enables controllers for its children takes no processes",
        "move the process into a leaf",
    ),
    errno.EINVAL: ("the process cannot be moved (a kernel thread)", "leave it where it is"),
    errno.EOPNOTSUPP: (
        "the cgroup is threaded or domain invalid and takes no whole process (cat cgroup.type)",
        "choose a root whose ancestors are all domains",
    ),
    errno.EAGAIN: (
        "pids.max of the cgroup is reached",
        "raise it, or stop a process in the cgroup",
    ),
}

_SET = {
    errno.ENOENT: (
        "the cgroup or the file does not exist, in this kernel or below this parent",
        "see cgroup.controllers, or the mounts of v1",
    ),
    errno.ENODEV: (
        "the cgroup was removed, or an ancestor disabled its controller",
        "the next sync restores both",
    ),
    errno.ENOSPC: ("the kernel has no space for the value", "see qoslet explain"),
}

_CPUSET = {
    errno.EACCES: (
        "the parent cgroup does not have these CPUs or nodes",
        "add them there first",
    ),
    errno.EBUSY: ("a child cgroup uses more than that", "reduce the children first"),
    errno.ENOSPC: ("processes would be left without a CPU or node", "stop or move them first"),
}

_MEMORY = {
    errno.EBUSY: (
        "the cgroup uses more than that, and the kernel could not reclaim it",
        "wait until usage is below, or stop a process in it",
    ),
    errno.EINVAL: (
        "memory.limit_in_bytes cannot exceed memory.memsw.limit_in_bytes",
        "raise memsw first, lower it last",
    ),
}

_LIMITED = {
    errno.EINVAL: (
        "a limit is bytes, or max",
        "see qoslet explain",
    ),
    errno.EBUSY: _MEMORY[errno.EBUSY],
}

_HUGETLB = {
    errno.EBUSY: (
        "more huge pages are in use than that",
        "wait until they are freed, or stop a process in the cgroup",
    ),
    errno.EINVAL: ("a limit is bytes, or max (v1: -1)", "see qoslet explain"),
}

_PIDS = {
    errno.EINVAL: (
        "the value must be 0 to 4194304, or max",
        "see qoslet explain",
    ),
}

_WEIGHT = {
    errno.EINVAL: (
        "an idle cgroup (cpu.idle 1) takes no weight; else the value must be 1 to 10000",
        "write 0 to cpu.idle first",
    ),
}

_QUOTA = {
    errno.EINVAL: (
        "the quota is below 1 ms, the period not 1 ms to 1 s, or the parent cgroup has less",
        "raise the parent first, lower it last",
    ),
}

_BANDWIDTH = {
    errno.EINVAL: (
        "the quota is below 1 ms, or the period not 1 ms to 1 s",
        "see qoslet explain",
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
