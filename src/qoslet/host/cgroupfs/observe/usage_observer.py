"""Reads only what cgroups use: what metrics show of them, each file once.

Names below a mount are opened as they are: a cgroup file system has no links. Files stay open from one
look to the next: to read one again costs a quarter of opening, reading and closing it. A file of a
cgroup that was removed answers ENODEV, even where another one has its name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.cgroupfs.observe.usage_files import (
    UsageCounter,
    UsageField,
    take_numbers,
    usage_files,
)
from qoslet.host.linux.descriptors import EXHAUSTED, kept_at_most
from qoslet.host.linux.openat import KEPT_FILES, ONE_READ, checked, open_retrying

_POINT = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_SHOWN = frozenset({"memory.memsw.usage_in_bytes"})
"""Files that tell usage which no metric has."""


MOST_KEPT = 2048
"""Files that stay open at most: the kernel keeps a page for each."""


_UsageFile = tuple[int, str, tuple[UsageCounter, ...]]
"""A mount point's descriptor, the name below it, and the numbers in it."""


class _UsageFiles:
    """Those of one cgroup: ``open`` with their descriptors, and ``shut``, which were absent, could not
    be read or are too many."""

    __slots__ = ("identity", "open", "shut")

    def __init__(self, identity: int, shut: list[_UsageFile]) -> None:
        self.identity = identity
        self.open: list[tuple[int, tuple[UsageCounter, ...]]] = []
        self.shut = shut


class UsageObserver:
    """Neither settings nor processes, and only the cgroups that are asked for; each look asks for all
    that count. ``hierarchy`` and ``mounts`` are as for ``layout.layout_of``. Holds one descriptor
    for each hierarchy, and ``most`` for files (by default as many as a process may keep)."""

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        *,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        layout = layout_of(hierarchy, mounts)
        files = [row for row in usage_files(hierarchy).items() if row[0] not in NOT_SHOWN]
        self._clock, self._most = clock, most
        # Of each hierarchy its mount point, open, and what to read in each of its cgroups.
        self._hierarchies = [
            (
                os.open(tree.point, _POINT),
                tuple(row for row in files if layout.tree_of(controller(row[0])) is tree),
            )
            for tree in layout.trees
        ]
        self._cgroups: dict[str, _UsageFiles] = {}
        self._left = 0
        """How many more files may stay open."""
        KEPT_FILES.add(self)

    def observe(self, paths: Iterable[str]) -> Observed:
        """Those of these cgroups that exist. Raises OSError out of descriptors."""
        at = self._clock()
        most = min(MOST_KEPT, kept_at_most() // 2) if self._most is None else self._most
        self._left = most - sum(len(one.open) for one in self._cgroups.values())
        found = {}
        for path in paths:
            name = checked(path)[1:] or "."
            identity = self._identity(name)
            if identity is not None:
                found[path] = ObservedCgroup(
                    path, identity, {}, (), (), **self._usage(path, name, identity)
                )
        for path in self._cgroups.keys() - found.keys():
            self._forget(path)
        return Observed(at, found)

    def _identity(self, name: str) -> int | None:
        """The inode, of the first hierarchy that has the cgroup."""
        # before the counters: those of a cgroup that is recreated meanwhile go back under the old
        # inode, which no rate takes for usage, and begin under the new one
        for point, _ in self._hierarchies:
            with suppress(OSError):
                return os.stat(name, dir_fd=point, follow_symlinks=False).st_ino
        return None

    def _usage(self, path: str, name: str, identity: int) -> dict[UsageField, int]:
        """What one cgroup uses; a file that cannot be read leaves its numbers unknown."""
        known = self._cgroups.get(path)
        if known is not None and known.identity == identity:
            found: dict[UsageField, int] = {}
            if _read_open(known, found):
                self._read_shut(known, found)
                return found
        if known is not None:
            self._forget(path)
        shut = [
            (point, f"{name}/{file}", numbers)
            for point, files in self._hierarchies
            for file, numbers in files
        ]
        known = self._cgroups[path] = _UsageFiles(identity, shut)
        found = {}
        self._read_shut(known, found)
        return found

    def _read_shut(self, files: _UsageFiles, found: dict[UsageField, int]) -> None:
        """Read the files that are not open; those that can be read stay open, as many as may."""
        shut = list[_UsageFile]()
        for one in files.shut:
            point, place, numbers = one
            descriptor = self._opened(place, point)
            if descriptor is None:
                shut.append(one)
                continue
            try:
                take_numbers(_data(descriptor), numbers, found)
            except OSError:
                may_stay = False
            else:
                may_stay = self._left > 0
            if may_stay:
                self._left -= 1
                files.open.append((descriptor, numbers))
            else:
                os.close(descriptor)
                shut.append(one)
        files.shut = shut

    def _opened(self, place: str, point: int) -> int | None:
        """A file; None where it is absent. Raises OSError out of descriptors."""
        try:
            return os.open(place, _FILE, dir_fd=point)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                return None
        self.give_up()
        self._left = 0
        try:
            return open_retrying(place, _FILE, point)
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            return None

    def _forget(self, path: str) -> None:
        for descriptor, _ in self._cgroups.pop(path).open:
            os.close(descriptor)

    def give_up(self) -> None:
        """Close the files that only stay open."""
        for files in self._cgroups.values():
            for descriptor, _ in files.open:
                os.close(descriptor)
            files.open.clear()
        self._cgroups.clear()

    def close(self) -> None:
        """Close every descriptor."""
        KEPT_FILES.discard(self)
        self.give_up()
        for point, _ in self._hierarchies:
            os.close(point)


def _read_open(files: _UsageFiles, found: dict[UsageField, int]) -> bool:
    """Read the files that are open; False where one of them is of a cgroup that went."""
    pread = os.pread
    try:
        for descriptor, numbers in files.open:
            # here and not in a function: this is done for every file of a node
            data = pread(descriptor, ONE_READ, 0)
            if len(data) == ONE_READ:
                data = _data(descriptor)
            take_numbers(data, numbers, found)
    except OSError:
        return False
    return True


def _data(descriptor: int) -> bytes:
    """The whole of an open file. Raises OSError."""
    data = part = os.pread(descriptor, ONE_READ, 0)
    while len(part) == ONE_READ:
        part = os.pread(descriptor, ONE_READ, len(data))
        data += part
    return data
