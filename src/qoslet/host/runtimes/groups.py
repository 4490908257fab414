"""End every process of a control group, and nothing else.

A process is signalled through a pidfd, and only after its membership was seen again with that
descriptor open, so a reused number never hits a stranger.
"""

from __future__ import annotations

import os
import signal
from typing import Protocol

from qoslet.errors import QosletError


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
        """End every process of the group and below; True once none is left. Raises QosletError
        where it must not, such as outside our root or with this process inside."""


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


def end_group(groups: Groups, path: str) -> bool:
    """Kill every member and see that the group is empty; False if it is not. Children of the
    caller are left for it to reap."""
    try:
        return groups.kill(path)
    except (QosletError, OSError):
        return False
