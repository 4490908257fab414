"""Room for a lower memory limit on v2: page cache is taken back before the limit is written.

The kernel would do it in the write itself, and kill where it does not succeed; what is asked of
``memory.reclaim`` never kills. On v1 the write of the limit is refused with EBUSY instead.
Source: Documentation/admin-guide/cgroup-v2.rst memory.reclaim (5.19), mm/memcontrol.c
memory_max_write of Linux 6.12.
"""

from __future__ import annotations

import os
from errno import EAGAIN, EBUSY, ENOENT

from msgspec import Struct

from qoslet.core.reconcile.steps import Step
from qoslet.host.linux.openat import MountedTree

RECLAIM = "memory.reclaim"
_FRUITLESS = 16
"""Tries without any progress before it is given up, as the kernel's own for a limit."""


class LimitRoom(Struct, frozen=True):
    """Open files of a group: ``current`` tells what is in use, ``reclaim`` takes back, -1 where
    the kernel cannot; ``limit`` in bytes is what has to fit."""

    current: int
    reclaim: int
    limit: int

    def make(self) -> None:
        """Take back what is above the limit; waits in the kernel. Raises OSError: EBUSY where it
        does not fit."""
        fruitless = 0
        used = self._used()
        while used > self.limit:
            if self.reclaim < 0 or fruitless >= _FRUITLESS:
                raise OSError(EBUSY, os.strerror(EBUSY))
            try:
                os.write(self.reclaim, b"%d" % (used - self.limit))
            except OSError as error:
                if error.errno != EAGAIN:
                    raise
            before, used = used, self._used()
            fruitless = 0 if used < before else fruitless + 1

    def _used(self) -> int:
        return int(os.pread(self.current, 32, 0))

    def close(self) -> None:
        """Close both files."""
        for descriptor in (self.current, self.reclaim):
            if descriptor >= 0:
                os.close(descriptor)


def room_for(tree: MountedTree, path: str, step: Step) -> LimitRoom | None:
    """What makes room for a step's limit; None where it needs none. Raises OSError."""
    if not step.gently or step.file != "memory.max" or not step.value.isdecimal():
        return None
    current = tree.open_to_read(path, "memory.current")
    try:
        reclaim = tree.open_to_write(path, RECLAIM)
    except OSError as error:
        if error.errno != ENOENT:
            os.close(current)
            raise
        reclaim = -1
    return LimitRoom(current, reclaim, int(step.value))


def can_reclaim(tree: MountedTree, path: str) -> bool:
    """Whether the kernel takes memory back from a group when asked."""
    try:
        os.stat(RECLAIM, dir_fd=tree.fd(path), follow_symlinks=False)
    except OSError:
        return False
    return True


def write(tree: MountedTree, path: str, step: Step) -> None:
    """Write a step's value, once there is room for it. Raises OSError."""
    room = room_for(tree, path, step)
    if room is not None:
        try:
            room.make()
        finally:
            room.close()
    tree.write(path, step.file, step.value)


def by_hand(group: str, step: Step) -> str:
    """What stands before the command that writes a step's value in the directory ``group``."""
    if not step.gently:
        return ""
    from shlex import quote

    used = f"$(( $(cat {quote(f'{group}/memory.current')}) - {quote(step.value)} ))"
    return f"printf %s {used} > {quote(f'{group}/{RECLAIM}')} && "
