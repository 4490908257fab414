"""What the process runtime needs of control groups: join them, see who is in, end everybody.

A process is signalled through a pidfd, and only after its membership was seen again with that
descriptor open, so a reused number never hits a stranger.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from qoslet.core.cgroup.names import is_below
from qoslet.errors import SHORTAGES, CannotDo, QosletError
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.kill import frozen_above, oom_kills, strike
from qoslet.host.containers.records import parent_of
from qoslet.host.linux.descriptors import are_few
from qoslet.host.linux.openat import MountedTree, checked, give_up_kept, parent
from qoslet.host.oci.containers import tidy

LEFTOVER_SECONDS = 0.5
"""How long processes may take to go that are in a new container's group."""


class ContainerCgroups(Protocol):
    """What the process runtime needs of the kernel's control groups."""

    def join_fds(self, path: str) -> list[int]:
        """``cgroup.procs`` of the group in every hierarchy, open for writing; a child that
        writes ``0`` to each is inside. The caller closes them. Raises OSError, QosletError."""

    def members(self, path: str) -> set[int]:
        """The processes in the group itself, over all hierarchies."""

    def identity(self, path: str) -> int | None:
        """What tells a group from one that was made again under its path; None if unknown."""

    def oom_kills(self, path: str) -> int | None:
        """How many processes of the group the kernel killed for memory; None if unknown."""

    def ends_with_oom_kill(self, path: str) -> bool:
        """Whether systemd ends the group after an OOM kill in it."""

    def tidy(self, paths: Iterable[str]) -> None:
        """Groups of containers and those above them go from the hierarchies in which only a
        runtime makes groups."""

    def strike(self, path: str) -> bool:
        """SIGKILL to every process of the group and below, without waiting for any; True where
        none is left. Raises QosletError where it must not, such as outside our root or with
        this process inside."""

    def frozen(self, path: str) -> str | None:
        """The group above that keeps the processes of a group from dying; None where none does."""


class KernelContainerCgroups(Cgroupfs):
    """The groups below one root on this machine. ``makers`` are the processes that make scopes:
    a child of theirs in one keeps it, and does not count as the container's. ``own`` are systemd's
    own hierarchies beside those of v1 (``mountinfo.systemds_own``). ``oom_ends_scopes``: scopes have
    an ``OOMPolicy`` here."""

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        root: str,
        own: Iterable[str] = (),
        *,
        oom_ends_scopes: bool = False,
    ) -> None:
        super().__init__(hierarchy, mounts, root)
        self._oom_ends_scopes = oom_ends_scopes
        self.makers: Callable[[], Collection[int]] = tuple
        self._own = [MountedTree(point) for point in own]

    def join_fds(self, path: str) -> list[int]:
        """A scope is joined in systemd's own hierarchies, too, where it is systemd's: what stays in
        the unit that it came from would end with that."""
        opened = super().join_fds(path)
        own = self._own if path.endswith(".scope") else []
        try:
            for tree in own:
                with suppress(FileNotFoundError):
                    opened.append(tree.open_to_write(checked(path), "cgroup.procs"))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        if are_few():
            # room for its pipes and for the child
            give_up_kept()
        return opened

    def strike(self, path: str) -> bool:
        """SIGKILL to every process of the group and below; True where none is left."""
        group = self._mine(checked(path))
        pod = parent(group)
        above = pod if is_below(pod, self.root) else None
        return strike(self.layout, group, self._keeping(group), above=above)

    def frozen(self, path: str) -> str | None:
        """The group above that keeps the processes of a group from dying."""
        return frozen_above(self.layout, checked(path))

    def tidy(self, paths: Iterable[str]) -> None:
        """Remove the cgroups of ended containers, and empty ones above them, from the v1 hierarchies
        that no kubelet uses: a runtime creates its cgroups there, too."""
        known = [tree.point for tree in self.layout.trees]
        for path in paths:
            tidy(checked(path), self.root, known)

    def members(self, path: str) -> set[int]:
        """The processes in the group itself, over all hierarchies."""
        group = checked(path)
        return super().members(group) - self._keeping(group)

    def oom_kills(self, path: str) -> int | None:
        """How many processes of the group the kernel killed for memory; None if unknown."""
        tree = self.layout.tree_of("memory")
        return None if tree is None else oom_kills(tree, checked(path), self.hierarchy)

    def ends_with_oom_kill(self, path: str) -> bool:
        """Whether systemd ends the group after an OOM kill in it: ``OOMPolicy`` decides about
        memory.oom.group, too, and the driver gives it to a scope by the planned value."""
        tree = self.layout.tree_of("memory") if self._oom_ends_scopes else None
        if tree is None or not path.endswith(".scope"):
            return False
        try:
            return tree.read(checked(path), "memory.oom.group").strip() == "1"
        except OSError:
            return False

    def _keeping(self, group: str) -> set[int]:
        """The processes that keep a scope."""
        if not group.endswith(".scope"):
            return set()
        makers = self.makers()
        return {pid for pid in super().members(group) if parent_of(pid) in makers}


def end_group(groups: ContainerCgroups, path: str) -> str | None:
    """Kill every member; None once the group is empty, else why it is not. A group that is not there holds
    nobody; one that this process has no descriptor for may."""
    try:
        if groups.strike(path):
            return None
        frozen = groups.frozen(path)
        thaw = f": {frozen} is frozen; thaw it" if frozen else ""
        return f"processes are left in {path}{thaw}"
    except (QosletError, ValueError) as error:
        return str(error)
    except OSError as error:
        return error.strerror if error.errno in SHORTAGES else None


def vacate(groups: ContainerCgroups, path: str) -> None:
    """End what is in a new container's group: a start that nobody has kept. Raises ``CannotDo``
    where it does not go at once."""
    if not groups.members(path):
        return
    deadline = time.monotonic() + LEFTOVER_SECONDS
    while (wrong := end_group(groups, path)) is not None:
        if time.monotonic() >= deadline:
            raise CannotDo(wrong)
        time.sleep(0.005)
