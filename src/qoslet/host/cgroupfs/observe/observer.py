"""Reads the cgroups of a subtree from this machine's kernel; matches ``agent.ports.Observer``.

Cgroups and files may vanish meanwhile: they are not in the result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from errno import EOPNOTSUPP
from stat import S_ISDIR
from typing import NamedTuple

from qoslet.core.cgroup.interface_files import KNOBS, controller
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.cgroupfs.observe.usage_files import UsageField, take_numbers, usage_files
from qoslet.host.cgroupfs.reclaim import can_reclaim
from qoslet.host.linux.descriptors import EXHAUSTED, are_few
from qoslet.host.linux.openat import (
    FEW,
    LEAF_LINKS,
    MountedTree,
    checked,
    file_name,
    open_retrying,
    read_file,
)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEVELS = 16
"""Directories above one another that are open at once, if descriptors are not few."""
_ASKED = 8
"""Cgroups that are asked for by name: a list of all costs as much as eight questions."""


class _Place(NamedTuple):
    """A cgroup's directories: one descriptor for each hierarchy, None if it is absent."""

    path: str
    directories: tuple[int | None, ...]


class CgroupObserver:
    """Reads ``files``, every known setting if None; ``watch`` adds to them. ``hierarchy`` and
    ``mounts`` are as for ``layout.layout_of``."""

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        files: Iterable[str] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._v1 = hierarchy == "v1"
        self._layout = layout_of(hierarchy, mounts, keeps=FEW)
        self._clock = clock
        self._files: frozenset[str] = frozenset()
        self._by_tree: list[tuple[str, ...]] = []
        usage = usage_files(hierarchy).items()
        self._usage_by_tree = [
            tuple(row for row in usage if self._layout.tree_of(controller(row[0])) is tree)
            for tree in self._layout.trees
        ]
        if files is None:
            names = (row.v1 if self._v1 else row.v2 for row in KNOBS)
            files = [name for name in names if name is not None]
        self.watch(files)

    def watch(self, files: Iterable[str]) -> None:
        """Read these settings from now on, too. Raises ValueError for an invalid file name."""
        self._files |= frozenset(files)
        by_tree: dict[int, list[str]] = {}
        for file in sorted(self._files):
            tree = self._layout.tree_of(controller(file_name(file)))
            if tree is not None:
                by_tree.setdefault(id(tree), []).append(file)
        self._by_tree = [tuple(by_tree.get(id(tree), ())) for tree in self._layout.trees]

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``; an absent root gives no cgroups.

        Without ``values`` only names, identities and processes are read, and groups count that
        are left over in any one v1 hierarchy.
        """
        at = self._clock()
        found: dict[str, ObservedCgroup] = {}
        path = checked(root)
        place = _Place(path, tuple(_open_path(tree, path) for tree in self._layout.trees))
        self._look(place, values, found, 0 if are_few() else _LEVELS)
        return Observed(at, found)

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One cgroup with its values, without those below; None if it is absent."""
        group = checked(path)
        if all(tree.identity(group) is None for tree in self._layout.trees):
            # at half the cost of opening it: a pod that comes has none yet
            return None
        place = _Place(group, tuple(_open_path(tree, group) for tree in self._layout.trees))
        try:
            return self._group(place, values=True)
        finally:
            _close(place.directories)

    def identity(self, path: str) -> int | None:
        """The inode of a cgroup; None where it is absent, on v1 in any hierarchy."""
        # by its name: this must not need a descriptor, of which there may be few
        group = checked(path)
        try:
            inodes = [os.lstat(f"{tree.point}{group}").st_ino for tree in self._layout.trees]
        except OSError:
            return None
        return inodes[0]

    def close(self) -> None:
        """Close every descriptor."""
        for tree in self._layout.trees:
            tree.close()

    def reclaimable_cache(self, path: str) -> int:
        """Bytes of page cache below a cgroup that the kernel can reclaim without a kill: on v2
        through ``memory.reclaim`` (5.19), on v1 when the limit is written."""
        from qoslet.core.memory.breakdown import file_list_bytes
        from qoslet.core.memory.stat_parser import pairs, stat_v1

        tree = self._layout.tree_of("memory")
        try:
            if tree is None or not (self._v1 or can_reclaim(tree, checked(path))):
                return 0
            text = tree.read(checked(path), "memory.stat")
        except OSError:
            return 0
        return file_list_bytes(stat_v1(text) if self._v1 else pairs(text))

    def _look(
        self, place: _Place, values: bool, found: dict[str, ObservedCgroup], levels: int
    ) -> None:
        """One cgroup and all below it; parents come before their children. Closes its directories, which
        stay open meanwhile for so many ``levels``: whoever is in a cgroup may nest others without end."""
        try:
            names = self._take(place, values, found)
            for name in names if levels else ():
                directories = tuple(_open_below(one, name) for one in place.directories)
                self._look(_Place(f"{place.path}/{name}", directories), values, found, levels - 1)
        finally:
            _close(place.directories)
        waiting = [] if levels else [f"{place.path}/{name}" for name in reversed(names)]
        while waiting:
            path = waiting.pop()
            directories = tuple(_open_path(tree, path) for tree in self._layout.trees)
            try:
                names = self._take(_Place(path, directories), values, found)
            finally:
                _close(directories)
            waiting += [f"{path}/{name}" for name in reversed(names)]

    def _take(self, place: _Place, values: bool, found: dict[str, ObservedCgroup]) -> list[str]:
        """Take in one cgroup; the names of those below it."""
        group = self._group(place, values)
        if group is None:
            return []
        found[place.path or "/"] = group
        return self._children(place, values)

    def _children(self, place: _Place, values: bool) -> list[str]:
        """Names of the cgroups below: of the first hierarchy, or of all without ``values``."""
        there = [one for one in place.directories if one is not None]
        names: set[str] = set()
        for directory in there[:1] if values else there:
            try:
                below = os.stat(directory).st_nlink - LEAF_LINKS
                if below == 0 or (below == len(names) <= _ASKED and _has_all(directory, names)):
                    continue
                with os.scandir(directory) as entries:
                    names.update(one.name for one in entries if one.is_dir(follow_symlinks=False))
            except OSError:
                continue
        return sorted(names)

    def _group(self, place: _Place, values: bool) -> ObservedCgroup | None:
        """One cgroup; None if it exists in no hierarchy (any more)."""
        directories = place.directories
        first = next((one for one in directories if one is not None), None)
        if first is None:
            return None
        inode = os.stat(first).st_ino
        pids = _processes(first)
        if pids is None:
            return None
        settings = self._settings(directories) if values else {}
        usage: dict[UsageField, int] = self._usage(directories) if values else {}
        return ObservedCgroup(
            path=place.path or "/",
            identity=inode,
            values=settings,
            missing=self._missing(directories),
            pids=pids,
            **usage,
        )

    def _missing(self, directories: Sequence[int | None]) -> tuple[str, ...]:
        """The v1 controllers in whose hierarchy the cgroup is absent."""
        if None not in directories:
            return ()
        pairs = zip(self._layout.trees, directories, strict=True)
        absent = [tree for tree, one in pairs if one is None]
        return tuple(sorted(n for tree in absent for n in self._layout.controllers_of(tree)))

    def _settings(self, directories: Sequence[int | None]) -> dict[str, str]:
        """The watched files that can be read."""
        found = {}
        for directory, files in zip(directories, self._by_tree, strict=True):
            if directory is None:
                continue
            for file in files:
                text = _text(directory, file)
                if text is not None:
                    found[file] = text
        return found

    def _usage(self, directories: Sequence[int | None]) -> dict[UsageField, int]:
        """What can be read of the usage."""
        found: dict[UsageField, int] = {}
        for directory, files in zip(directories, self._usage_by_tree, strict=True):
            if directory is None:
                continue
            for file, numbers in files:
                text = _text(directory, file)
                if text is not None:
                    take_numbers(text.encode(), numbers, found)
        return found


def _open_path(tree: MountedTree, path: str) -> int | None:
    """A cgroup's directory; None if it is absent or a link. Raises OSError out of descriptors."""
    try:
        return tree.directory(path)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return None


def _open_below(directory: int | None, name: str) -> int | None:
    """A child's directory. Raises OSError out of descriptors: it is not absent then."""
    if directory is None:
        return None
    try:
        return open_retrying(name, _DIRECTORY, directory)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return None


def _has_all(directory: int, names: Iterable[str]) -> bool:
    """Whether all names are directories there."""
    try:
        facts = [os.stat(name, dir_fd=directory, follow_symlinks=False) for name in names]
    except FileNotFoundError:
        return False
    return all(S_ISDIR(one.st_mode) for one in facts)


def _close(directories: Iterable[int | None]) -> None:
    """Close those that are open."""
    for directory in directories:
        if directory is not None:
            os.close(directory)


def _processes(directory: int) -> tuple[int, ...] | None:
    """The processes of a cgroup; None where it has gone. The kernel lists those of a threaded cgroup in the
    domain above it only."""
    try:
        descriptor = open_retrying("cgroup.procs", _FILE, directory)
        try:
            return tuple(map(int, read_file(descriptor).split()))
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return () if error.errno == EOPNOTSUPP else None


def _text(directory: int, file: str) -> str | None:
    """A file without its last newline; None if it cannot be read."""
    try:
        descriptor = open_retrying(file, _FILE, directory)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        return None
    try:
        return read_file(descriptor).rstrip("\n")
    except OSError:
        return None
    finally:
        os.close(descriptor)
