"""What the process runtime needs of control groups: join them, see who is in, end everybody.

A process is signalled through a pidfd, and only after its membership was seen again with that
descriptor open, so a reused number never hits a stranger.
"""

from __future__ import annotations

import time
from typing import Protocol

from qoslet.errors import CannotDo, QosletError
from qoslet.host.cgroupfs import Cgroupfs
from qoslet.host.cgroupkill import strike
from qoslet.host.safefs import checked

LEFTOVER_SECONDS = 0.5
"""How long processes may take to go that are in a new container's group."""


class Groups(Protocol):
    """What the process runtime needs of the kernel's control groups."""

    def join_fds(self, path: str) -> list[int]:
        """``cgroup.procs`` of the group in every hierarchy, open for writing; a child that
        writes ``0`` to each is inside. The caller closes them. Raises OSError, QosletError."""

    def members(self, path: str) -> set[int]:
        """The processes in the group itself, over all hierarchies."""

    def oom_kills(self, path: str) -> int | None:
        """How many processes of the group the kernel killed for memory; None if unknown."""

    def strike(self, path: str) -> bool:
        """SIGKILL to every process of the group and below, without waiting for any; True where
        none is left. Raises QosletError where it must not, such as outside our root or with
        this process inside."""


class KernelGroups(Cgroupfs):
    """The groups below one root on this machine."""

    def strike(self, path: str) -> bool:
        """SIGKILL to every process of the group and below; True where none is left."""
        return strike(self.layout, self._mine(checked(path)))


def end_group(groups: Groups, path: str) -> str | None:
    """Kill every member; None once the group is empty, else why it is not. A group that cannot
    be looked at holds nobody."""
    try:
        return None if groups.strike(path) else f"processes are left in {path}"
    except (QosletError, ValueError) as error:
        return str(error)
    except OSError:
        return None


def vacate(groups: Groups, path: str) -> None:
    """End what is in a new container's group: a start that nobody has kept. Raises ``CannotDo``
    where it does not go at once."""
    if not groups.members(path):
        return
    deadline = time.monotonic() + LEFTOVER_SECONDS
    while (wrong := end_group(groups, path)) is not None:
        if time.monotonic() >= deadline:
            raise CannotDo(wrong)
        time.sleep(0.005)
