"""Told by this machine's kernel when something happens to memory; matches
``agent.memory_ports.MemoryWatch``.

v2: inotify on ``memory.events`` of each group; v1: one eventfd for being out of memory in any group.
Both: a pressure trigger of the machine, which no group exceeds. Nothing is polled.
Source: cgroup-v2.rst "memory.events", psi.rst "Monitoring for pressure thresholds",
cgroup-v1/memory.rst "9. OOM Control".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.inotify import Changes
from qoslet.host.linux.openat import MountedTree, checked
from qoslet.host.memory.psi_trigger import Triggers

_EVENTS = "memory.events"


class _Way(Protocol):
    """How groups are followed on one kind of hierarchy."""

    how: tuple[str, ...]

    def add(self, path: str) -> None:
        """Follow a group. Raises OSError."""

    def drop(self, path: str) -> None:
        """Follow it no longer."""

    def woken(self) -> frozenset[str]:
        """Groups to which something happened."""

    def descriptors(self) -> list[int]:
        """Readable then."""

    def close(self) -> None:
        """Give everything back."""


class KernelWatch:
    """The watch. ``hierarchy`` and ``mounts`` are as for ``layout.layout_of``."""

    def __init__(self, hierarchy: str, mounts: Mapping[str, str] | str) -> None:
        self._tree = layout_of(hierarchy, mounts).tree_of("memory")
        self._followed: dict[str, int] = {}
        self._failed = ""
        self._triggers = Triggers()
        self._way: _Way | None = None
        if self._tree is not None:
            try:
                self._way = _Legacy(self._tree) if hierarchy == "v1" else _Unified(self._tree)
            except OSError as error:
                self._failed = f"cgroups are only polled: {error.strerror}"
        self._v2 = hierarchy != "v1"
        self._triggers.add("", "/proc/pressure/memory")

    @property
    def how(self) -> tuple[str, ...]:
        """What wakes it, and what cannot."""
        way = self._way.how if self._way is not None else ()
        return (*way, *([self._failed] if self._failed else []), self._triggers.how)

    @property
    def complete(self) -> bool:
        """Whether everything that is counted wakes it."""
        return self._v2 and not self._failed

    def follow(self, paths: Iterable[str]) -> None:
        """These groups, too."""
        for path in paths if self._way is not None else ():
            identity = self._identity(checked(path))
            if self._followed.get(path) == identity:
                continue
            self.drop([path])
            if identity is not None:
                self._add(path, identity)

    def drop(self, paths: Iterable[str]) -> None:
        """These no longer."""
        for path in paths:
            if self._followed.pop(path, None) is not None and self._way is not None:
                self._way.drop(path)

    def _add(self, path: str, identity: int) -> None:
        assert self._way is not None
        try:
            self._way.add(path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._failed = f"{path} is only polled: {error.strerror}"
            return
        self._followed[path] = identity

    def woken(self) -> frozenset[str]:
        """Groups to which something happened since asked last."""
        found = self._way.woken() if self._way is not None else frozenset()
        return found | self._triggers.woken()

    def descriptors(self) -> list[int]:
        """Readable when there is something to tell."""
        return [
            *(self._way.descriptors() if self._way is not None else ()),
            *self._triggers.descriptors(),
        ]

    def close(self) -> None:
        """Give everything back."""
        self._triggers.close()
        if self._way is not None:
            self._way.close()
            self._way = None

    def _identity(self, path: str) -> int | None:
        assert self._tree is not None
        try:
            return self._tree.identity(path)
        except OSError:
            return None


class _Unified:
    """v2: the kernel tells of each change of the file, at most every 10 ms for each group."""

    how: tuple[str, ...] = ("memory.events of each cgroup wakes the agent",)

    def __init__(self, tree: MountedTree) -> None:
        self._tree = tree
        self._changes = Changes()

    def add(self, path: str) -> None:
        """Have the kernel signal a v1 cgroup's out-of-memory events. Raises OSError."""
        with owned(
            self._tree.open(checked(path), _EVENTS, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        ) as at:
            self._changes.add(path, f"/proc/self/fd/{at}")

    def drop(self, path: str) -> None:
        """Follow it no longer."""
        self._changes.drop(path)

    def woken(self) -> frozenset[str]:
        """Groups whose counters changed."""
        return self._changes.changed()

    def descriptors(self) -> list[int]:
        """The inotify instance."""
        return self._changes.descriptors()

    def close(self) -> None:
        """Give it back."""
        self._changes.close()


class _Legacy:
    """v1: one eventfd counts every time that a group is out of memory, and once for each group
    that goes; it does not say which. Source: mm/memcontrol-v1.c memcg_event_remove."""

    how: tuple[str, ...] = (
        "an OOM in any cgroup wakes the agent",
        "cgroup v1 does not report throttling, reclaim or pressure by cgroup",
    )

    def __init__(self, tree: MountedTree) -> None:
        self._tree = tree
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._going = 0

    def add(self, path: str) -> None:
        """Have the kernel signal a v1 cgroup's out-of-memory events. Raises OSError."""
        with owned(self._tree.open_to_read(checked(path), "memory.oom_control")) as control:
            self._tree.write(checked(path), "cgroup.event_control", f"{self._fd} {control}")

    def drop(self, path: str) -> None:
        """The kernel forgets it with the group, and tells that."""
        self._going += 1

    def woken(self) -> frozenset[str]:
        """An unknown group."""
        try:
            told = os.eventfd_read(self._fd)
        except BlockingIOError:
            return frozenset()
        known = min(told, self._going)
        self._going -= known
        return frozenset([""]) if told > known else frozenset()

    def descriptors(self) -> list[int]:
        """The eventfd."""
        return [self._fd]

    def close(self) -> None:
        """Give it back, and with it what the kernel keeps."""
        os.close(self._fd)
