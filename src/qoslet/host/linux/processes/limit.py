"""Which limit keeps this process from making others, or threads.

Source: fork(2) EAGAIN; kernel/fork.c copy_process (RLIMIT_NPROC, threads-max), kernel/cgroup/pids.c
(pids.max here or above), kernel/pid.c (pid_max).
"""

from __future__ import annotations

import os
import resource
from errno import EAGAIN, ENOMEM
from threading import Event, Thread

from qoslet.host.linux.mountinfo import mounts
from qoslet.host.linux.procfs import text

_STACK_BYTES = 8 << 20
"""The usual size of a thread's stack."""

BEGIN_SECONDS = 30.0
"""How long a thread that was made may take to begin."""

NO_PROCESS = (EAGAIN, ENOMEM)
"""Errors of fork and what it needs that pass: they say nothing of what was to be started."""


class _StartEvent(Event):
    """Is waited for without a limit by ``Thread.start``, for ever where a thread that was made has
    no memory to begin."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for ``BEGIN_SECONDS`` at most."""
        return super().wait(BEGIN_SECONDS if timeout is None else timeout)


def start_thread(thread: Thread) -> None:
    """Start a thread. Raises OSError where the kernel has none left for us, with EAGAIN, or no
    room for its stack or its beginning, with ENOMEM: Python says the first two as RuntimeError,
    without a number."""
    vars(thread)["_started"] = _StartEvent()
    try:
        thread.start()
    except RuntimeError as error:
        number = EAGAIN if _has_room() else ENOMEM
        raise OSError(number, f"cannot start a thread: {error}") from error
    if thread.ident is None:
        raise OSError(ENOMEM, "cannot start a thread: it has no memory to begin")


def _has_room() -> bool:
    """Whether another stack fits the address space of this process (ulimit -v)."""
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return True
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    used = int((text("/proc/self/statm") or "0").split()[0]) * resource.getpagesize()
    return used + max(stack, _STACK_BYTES) <= most


def reason_of(number: int) -> str:
    """Why no process could be made, and what to do."""
    if number == ENOMEM:
        return "no process can be made: the kernel has no memory for it"
    return f"no process can be made: {_limit()}"


def _limit() -> str:
    """The limit that is reached, else those that may be."""
    point, group = _pids_cgroup()
    while point and group not in ("", "/"):
        most, now = text(f"{point}{group}/pids.max"), text(f"{point}{group}/pids.current")
        if most and now and most.strip().isdigit() and int(now) >= int(most):
            return f"cgroup {group} has {now.strip()} processes, its pids.max (raise it, or TasksMax= of the unit)"
        group = os.path.dirname(group)
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and os.geteuid():
        return f"user {os.geteuid()} may have {soft} processes (raise ulimit -u, or LimitNPROC= of the unit)"
    return "the machine has too many (see kernel.pid_max, kernel.threads-max and pids.max)"


def _pids_cgroup() -> tuple[str, str]:
    """Where the controller ``pids`` is mounted, and the cgroup of this process there; empty texts
    where that is not known."""
    own: dict[str, str] = {}
    for line in (text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    name = "pids" if "pids" in own else ""
    kind = "cgroup" if name else "cgroup2"
    for mount in mounts():
        if mount.type == kind and (not name or name in mount.options):
            return mount.point, own.get(name, "")
    return "", ""
