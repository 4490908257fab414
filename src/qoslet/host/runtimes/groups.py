"""End every process of a control group, and nothing else.

A process is signalled through a pidfd, and only after its membership was seen again with that
descriptor open, so a reused number never hits a stranger.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Protocol

KILL_SECONDS = 10.0
"""How long a group may take to become empty after SIGKILL."""

_PAUSE = 0.005


class Groups(Protocol):
    """What the process runtime needs of the kernel's control groups."""

    def join_fds(self, path: str) -> list[int]:
        """``cgroup.procs`` of the group in every hierarchy, open for writing; a child that
        writes ``0`` to each is inside. The caller closes them. Raises OSError."""

    def members(self, path: str) -> set[int]:
        """The processes in the group itself, over all hierarchies."""

    def oom_kills(self, path: str) -> int | None:
        """How many processes of the group the kernel killed for memory; None if unknown."""

    def kill(self, path: str) -> bool:
        """End all members at once where the kernel can (``cgroup.kill``); else False."""


def signal_member(groups: Groups, path: str, pid: int, number: int) -> bool:
    """Send a signal to ``pid`` if it is a member of the group; False if it is not (any more)."""
    if pid <= 1 or pid == os.getpid():
        return False
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if pid not in groups.members(path):
            return False
        signal.pidfd_send_signal(descriptor, number)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def end_group(groups: Groups, path: str, seconds: float = KILL_SECONDS) -> bool:
    """Kill every member and wait until the group is empty; False if it is not within
    ``seconds``. Children of the caller are left for it to reap."""
    deadline = time.monotonic() + seconds
    while True:
        members = groups.members(path) - {0}
        if not members:
            return True
        if not groups.kill(path):
            for pid in members:
                signal_member(groups, path, pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE)
