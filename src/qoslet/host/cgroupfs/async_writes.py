"""Writes that may wait in the kernel until memory is taken back: off the loop's thread, one at
a time.

A memory limit below what is in use makes its writer reclaim, for as long as that takes.
Source: mm/memcontrol.c memory_high_write, memory_max_write; mm/memcontrol-v1.c
mem_cgroup_resize_max of Linux 6.12.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from errno import ETIMEDOUT

from msgspec import Struct

from qoslet.core.reconcile.limit_shrink import LIMIT, ROOM, SWAP_TOTAL
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.reclaim import LimitRoom, room_for
from qoslet.host.cgroupfs.write_errors import PendingWrite
from qoslet.host.linux.openat import MountedTree
from qoslet.host.linux.processes.limit import start_thread

USAGE = {
    "memory.max": "memory.current",
    "memory.high": "memory.current",
    LIMIT: "memory.usage_in_bytes",
    SWAP_TOTAL: "memory.memsw.usage_in_bytes",
}
"""The file that a limit's write may wait for, by the limit's."""
GRACE = 0.05
"""Seconds that a write may take before the loop goes on without it."""
DEADLINE = 30.0
"""Seconds after which a write that still waits counts as failed; it is not written again
before it has ended."""


class CompletedWrite(Struct, frozen=True):
    """A step that was pending, the value that it replaces, the error of its write, and whether
    it still goes on. ``anew``: the step came later and is to be written again, because the write
    that waited may have come after it."""

    step: Step
    before: str | None
    error: OSError | None
    pending: bool = False
    anew: bool = False


class WriteTimeout(OSError):
    """The write has not ended within the deadline."""


class _Job:
    """One write on its way."""

    def __init__(
        self, step: Step, descriptor: int, room: LimitRoom | None, before: str | None, now: float
    ) -> None:
        import threading

        self.step = step
        self.before = before
        self.begun = now
        self.over = threading.Event()
        self.error: OSError | None = None
        self.told = False
        self.later: Step | None = None
        self._descriptor = descriptor
        self._room = room

    def run(self) -> None:
        """Make room, write and close; the error is kept."""
        try:
            if self._room is not None:
                self._room.make()
            if self.later is None:
                os.write(self._descriptor, self.step.value.encode())
        except OSError as error:
            self.error = error
        finally:
            self.close()
            self.over.set()

    def close(self) -> None:
        """Close its files."""
        os.close(self._descriptor)
        if self._room is not None:
            self._room.close()


class AsyncWrites:
    """The one write that is on its way. Used from one thread; never waits longer than ``grace``
    seconds. A write that never ends does not keep the process from ending."""

    def __init__(
        self,
        grace: float = GRACE,
        deadline: float = DEADLINE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grace = grace
        self._deadline = deadline
        self._clock = clock
        self._job: _Job | None = None

    def write(self, tree: MountedTree, path: str, step: Step, before: str | None = None) -> None:
        """Write the value of a step. Raises OSError with the kernel's refusal, ``PendingWrite``
        where the write goes on after the grace or another one is on its way."""
        if self._job is not None:
            raise PendingWrite
        import threading

        room = room_for(tree, path, step)
        try:
            descriptor = tree.open_to_write(path, step.file)
        except OSError:
            if room is not None:
                room.close()
            raise
        job = _Job(step, descriptor, room, before, self._clock())
        try:
            start_thread(threading.Thread(target=job.run, name="slow-write", daemon=True))
        except OSError:
            job.close()
            raise
        if not job.over.wait(self._grace):
            self._job = job
            raise PendingWrite
        if job.error is not None:
            raise job.error

    def concerns(self, tree: MountedTree, path: str, step: Step) -> bool:
        """Whether a step's write may wait: its limit is not well above the usage, or depends on
        the write on its way. One that does not wait takes the place of that write."""
        if step.file not in USAGE:
            return False
        job = self._job
        if job is not None and job.step.path == step.path and step.file == SWAP_TOTAL:
            return True
        waits = may_wait(tree, path, step)
        if job is not None and not waits and job.step.path == step.path:
            job.later = step if job.step.file == step.file else job.later
        return waits

    def settled(self) -> CompletedWrite | None:
        """What came of the write on its way. One beyond the deadline is told once as ``WriteTimeout``.
        None: there is nothing to tell."""
        job = self._job
        if job is None:
            return None
        if job.over.is_set():
            self._job = None
            if job.later is not None:
                return CompletedWrite(job.later, job.before, None, anew=True)
            return None if job.told else CompletedWrite(job.step, job.before, job.error)
        if self._clock() - job.begun >= self._deadline and not job.told:
            job.told = True
            return CompletedWrite(job.step, job.before, WriteTimeout(ETIMEDOUT, "waits still"))
        return CompletedWrite(job.step, job.before, None, pending=True)


def may_wait(tree: MountedTree, path: str, step: Step) -> bool:
    """Whether writing the limit could make the kernel reclaim: it is not well above the usage."""
    usage = USAGE.get(step.file)
    if usage is None or not step.value.isdecimal():
        return False
    try:
        used = int(tree.read(path, usage))
    except (OSError, ValueError):
        return False
    return int(step.value) < used + ROOM
