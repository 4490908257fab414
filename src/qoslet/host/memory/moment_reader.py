"""Reads the numbers of planned cgroups for a recording, those of quiet pods less often.

A pod whose CPU time has not grown has done nothing since it was read last: one file tells, and the
others are left alone for ``QUIET_SECONDS``. A pod near its ``memory.high`` or limit is always read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from qoslet.core.cgroup.interface_files import UNLIMITED, controller
from qoslet.core.recording.moment import NODE, Moment, RecordedRow, Series
from qoslet.core.recording.values import (
    CPU_FILE,
    FILES_V1,
    FILES_V2,
    cpu_time,
    node_series,
    values_v1,
    values_v2,
)
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.linux.openat import MountedTree, checked
from qoslet.host.memory.reader import MemoryFiles

QUIET_SECONDS = 30.0
"""Seconds after which a pod is read again in any case."""
NEAR_RATIO = 0.9
"""Share of ``memory.high`` or of the limit from which a pod is read every time."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST = 64 * 1024


class MomentReader:
    """The reader. ``hierarchy`` and ``mounts`` are as for ``layout.layout_of``."""

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        layout = layout_of(hierarchy, mounts)
        self._hierarchy = hierarchy
        self._values = values_v1 if hierarchy == "v1" else values_v2
        self._node = MemoryFiles(hierarchy, mounts)
        self._clock, self._wall = clock, wall
        self._files: dict[MountedTree, list[str]] = {}
        for file in FILES_V1 if hierarchy == "v1" else FILES_V2:
            tree = layout.tree_of(controller(file))
            if tree is not None:
                self._files.setdefault(tree, []).append(file)
        self._cpu = layout.tree_of(controller(CPU_FILE[hierarchy]))
        self._last: dict[str, Series] = {}
        self._read_at: dict[str, float] = {}
        self.quiet = 0
        """Cgroups that were not read the last time."""

    def read(self, rows: Sequence[RecordedRow]) -> Moment:
        """The cgroups of these rows now. What is absent has no series."""
        wall, at = self._wall(), self._clock()
        series = {NODE: node_series(self._node.node())}
        fresh = {NODE}
        for paths, is_pod in _pods(rows):
            if is_pod and not self._is_due(paths, at):
                known = {path: self._last[path] for path in paths if path in self._last}
                series.update(known)
                continue
            for path in paths:
                found = self._series(path)
                if found is not None:
                    series[path] = found
                    fresh.add(path)
            if is_pod:
                self._read_at[paths[0]] = at
        self._last = series
        self.quiet = len(series) - len(fresh)
        for path in self._read_at.keys() - series.keys():
            del self._read_at[path]
        return Moment(round(wall, 3), round(at, 3), series, tuple(rows), frozenset(fresh))

    def close(self) -> None:
        """Close every descriptor."""
        for tree in self._files:
            tree.close()

    def _is_due(self, paths: Sequence[str], at: float) -> bool:
        """Whether the cgroups of a pod have to be read, its own first."""
        last = self._last.get(paths[0])
        read_at = self._read_at.get(paths[0])
        if last is None or read_at is None or at - read_at >= QUIET_SECONDS or self._cpu is None:
            return True
        if any(path not in self._last or _is_near(self._last[path]) for path in paths):
            return True
        try:
            recreated = self._cpu.identity(checked(paths[0])) != last.identity
            if recreated and self._hierarchy == "v2":
                return True
            text = self._cpu.read(checked(paths[0]), CPU_FILE[self._hierarchy])
        except OSError:
            return True
        used, before = cpu_time(self._hierarchy, text), last.values.get("cpu.usage_usec")
        return used is None or before is None or used != before

    def _series(self, path: str) -> Series | None:
        """One cgroup through open directories, never two of one name; None where it is absent."""
        texts: dict[str, str] = {}
        identity = None
        for tree, files in self._files.items():
            try:
                directory = tree.directory(checked(path))
            except OSError:
                continue
            try:
                if identity is None:
                    identity = os.fstat(directory).st_ino
                _read(directory, files, texts)
            finally:
                os.close(directory)
        return None if identity is None else Series(path, identity, self._values(texts))


def _pods(rows: Iterable[RecordedRow]) -> list[tuple[list[str], bool]]:
    """The paths of each pod, its own first, and alone those of other cgroups."""
    found: list[tuple[list[str], bool]] = []
    of_pod: dict[str, list[str]] = {}
    for one in rows:
        path = one.row.path
        if not path:
            continue
        if one.row.level == "pod":
            of_pod[one.uid] = [path]
            found.append((of_pod[one.uid], True))
        elif one.uid in of_pod:
            of_pod[one.uid].append(path)
        else:
            found.append(([path], False))
    return found


def _is_near(series: Series) -> bool:
    """Whether a cgroup is close to its memory.high or its limit."""
    values = series.values
    limit = min(values.get("memory.high", UNLIMITED), values.get("memory.max", UNLIMITED))
    return limit < UNLIMITED and values.get("memory.current", 0) >= limit * NEAR_RATIO


def _read(directory: int, files: Sequence[str], texts: dict[str, str]) -> None:
    """Files of an open directory, each made whole by one read; those that are absent are left out."""
    for file in files:
        try:
            descriptor = os.open(file, _FILE, dir_fd=directory)
        except OSError:
            continue
        try:
            texts[file] = os.read(descriptor, _MOST).decode("ascii", "replace")
        except OSError:
            continue
        finally:
            os.close(descriptor)
