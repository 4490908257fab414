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


class Refused(QosletError):
    """The kernel said no. ``number`` is the errno, 0 where we did not ask it."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


def errno_name(number: int) -> str:
    """``EBUSY`` for 16."""
    return errno.errorcode.get(number, f"errno {number}")


def refused(deed: Deed, where: str, number: int, file: str = "", value: str = "") -> Refused:
    """The refusal of ``deed`` on the directory ``where`` as one line: what was tried on which
    path, the errno, what it means, what to do."""
    meaning, advice = _meaning(deed, number, file)
    place = f"{where}/{file}" if file else where
    tried = f" refuses {value!r} with" if value else ""
    return Refused(f"{place}{tried or ':'} {errno_name(number)}: {meaning}; {advice}", number)


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
    errno.EOPNOTSUPP: ("a threaded group cannot have it", "choose a root that is a domain"),
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
    errno.ENOENT: ("the group was removed meanwhile", "it is made again with the next look"),
}

_SET = {
    errno.ENOENT: (
        "the group or the file is gone or was never offered by the kernel or the group above",
        "see cgroup.controllers, or the mounts of v1",
    ),
    errno.ENOTSUP: ("the kernel does not support it", "leave the setting out"),
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

_QUOTA = {
    errno.EINVAL: (
        "the quota is below 1 ms, the period not 1 ms to 1 s, or the group above has less",
        "raise the group above first, lower it last",
    ),
}


def _meaning(deed: Deed, number: int, file: str) -> tuple[str, str]:
    """What it means and the next step; the most particular row that there is."""
    tables: list[dict[int, tuple[str, str]]] = []
    if deed == "set":
        if file.startswith("cpuset."):
            tables.append(_CPUSET)
        elif file.startswith("memory."):
            tables.append(_MEMORY)
        elif file.startswith("cpu.cfs_"):
            tables.append(_QUOTA)
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
