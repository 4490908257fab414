"""Reads only what cgroups use: what metrics show of them, each file once.

Names below a mount are opened as they are: a cgroup file system has no links.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping

from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.cgroupfs.observe.usage_files import UsageField, take_numbers, usage_files
from qoslet.host.linux.descriptors import EXHAUSTED
from qoslet.host.linux.openat import ONE_READ, checked, open_retrying, read_rest

_POINT = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_SHOWN = frozenset({"memory.memsw.usage_in_bytes"})
"""Files that tell usage which no metric has."""


class UsageObserver:
    """Neither settings nor processes, and only the cgroups that are asked for. ``hierarchy`` and
    ``mounts`` are as for ``cgroupfs.layout_of``. Holds one descriptor for each hierarchy."""

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        layout = layout_of(hierarchy, mounts)
        files = [row for row in usage_files(hierarchy).items() if row[0] not in NOT_SHOWN]
        self._clock = clock
        # Of each hierarchy its mount point, open, and what to read in each of its cgroups.
        self._hierarchies = [
            (
                os.open(tree.point, _POINT),
                tuple(row for row in files if layout.tree_of(controller(row[0])) is tree),
            )
            for tree in layout.trees
        ]

    def observe(self, paths: Iterable[str]) -> Observed:
        """Those of these cgroups that exist. Raises OSError out of descriptors."""
        at = self._clock()
        found = {}
        for path in paths:
            name = checked(path)[1:] or "."
            identity = self._identity(name)
            if identity is not None:
                found[path] = self._cgroup(path, name, identity)
        return Observed(at, found)

    def _identity(self, name: str) -> int | None:
        """The inode, of the first hierarchy that has the cgroup."""
        # before the counters: those of a cgroup that is recreated meanwhile go back under the old
        # inode, which no rate takes for usage, and begin under the new one
        for point, _ in self._hierarchies:
            try:
                return os.stat(name, dir_fd=point, follow_symlinks=False).st_ino
            except OSError:
                continue
        return None

    def _cgroup(self, path: str, name: str, identity: int) -> ObservedCgroup:
        """What one cgroup uses; a file that cannot be read leaves its numbers unknown."""
        found: dict[UsageField, int] = {}
        open_, read, close = os.open, os.read, os.close
        for point, files in self._hierarchies:
            for file, numbers in files:
                # here and not in a function: this is done for every file of a node
                place = f"{name}/{file}"
                try:
                    descriptor = open_(place, _FILE, dir_fd=point)
                except OSError as error:
                    if error.errno not in EXHAUSTED:
                        continue
                    descriptor = open_retrying(place, _FILE, point)
                try:
                    data = read(descriptor, ONE_READ)
                    if len(data) == ONE_READ:
                        data += read_rest(descriptor)
                except OSError:
                    continue
                finally:
                    close(descriptor)
                take_numbers(data, numbers, found)
        return ObservedCgroup(path, identity, {}, (), (), **found)

    def close(self) -> None:
        """Close every descriptor."""
        for point, _ in self._hierarchies:
            os.close(point)
