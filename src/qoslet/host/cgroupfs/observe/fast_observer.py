"""Reads only what tells whether a tree is as planned.

Names below a mount are opened as they are: a cgroup file system has no links.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from qoslet.core.cgroup.interface_files import KNOBS, controller, released
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.linux.openat import ONE_READ, checked, read_rest

_POINT = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

_Hierarchy = tuple[int, tuple[str, ...]]
"""An open directory of a hierarchy, and the files to read in each group."""


class FastObserver:
    """Reads the settings that can differ from the plan: ``files``, which are planned, and all known
    ones that a cgroup may have without a plan. Neither usage nor processes. ``hierarchy`` and
    ``mounts`` are as for ``layout.layout_of``."""

    def __init__(
        self, hierarchy: str, mounts: Mapping[str, str] | str, files: Iterable[str]
    ) -> None:
        layout = layout_of(hierarchy, mounts)
        known = {row.v1 if hierarchy == "v1" else row.v2 for row in KNOBS}
        judged = {file for file in known if file and released(file, hierarchy) is not None}
        wanted = sorted({*judged, *files})
        self._hierarchies: list[_Hierarchy] = [
            (
                os.open(tree.point, _POINT),
                tuple(file for file in wanted if layout.tree_of(controller(file)) is tree),
            )
            for tree in layout.trees
        ]

    def observe(
        self, paths: Iterable[str], identities: Mapping[str, int] | None = None
    ) -> Observed | None:
        """The cgroups, if each of them exists in every hierarchy; else None. ``identities`` were
        read just before and are not read again."""
        wanted = dict.fromkeys(paths)
        above = {path.rpartition("/")[0] for path in wanted}
        known = identities or {}
        found = {}
        top = _directory_of_all(wanted)
        try:
            with self._opened(top) as hierarchies:
                for path in wanted:
                    name, leaf = checked(path)[len(top) :] or ".", path not in above
                    identity = known.get(path, 0)
                    found[path] = _cgroup(hierarchies, name, path, leaf=leaf, identity=identity)
        except OSError:
            return None
        return Observed(0.0, found)

    @contextmanager
    def _opened(self, top: str) -> Iterator[Sequence[_Hierarchy]]:
        """The directory ``top`` of each hierarchy, with its files. Raises OSError."""
        found: list[_Hierarchy] = []
        try:
            for point, files in self._hierarchies:
                found.append((os.open(top[1:] or ".", _POINT, dir_fd=point), files))
            yield found
        finally:
            for directory, _ in found:
                os.close(directory)

    def close(self) -> None:
        """Close every descriptor."""
        for point, _ in self._hierarchies:
            os.close(point)


def _directory_of_all(paths: Iterable[str]) -> str:
    """The deepest directory that all are at or below, with a slash at its end: names are looked up
    from there, once for each file."""
    # by characters, at half the cost of components: each path ends with a slash
    common = os.path.commonprefix([f"{checked(path)}/" for path in paths]) or "/"  # noqa: RUF071
    return common[: common.rindex("/") + 1]


def _cgroup(
    hierarchies: Sequence[_Hierarchy], name: str, path: str, *, leaf: bool, identity: int
) -> ObservedCgroup:
    """One cgroup, ``name`` below the directories. Raises OSError if it is missing in a hierarchy. If
    no file of it is read, only a ``leaf`` is checked: it exists only with all above it."""
    values: dict[str, str] = {}
    open_, read, close = os.open, os.read, os.close
    for point, files in hierarchies:
        if not identity:
            identity = os.stat(name, dir_fd=point, follow_symlinks=False).st_ino
        before = len(values)
        for file in files:
            # here and not in a function: this is done for every file of a node
            try:
                descriptor = open_(f"{name}/{file}", _FILE, dir_fd=point)
            except OSError:
                continue
            try:
                data = read(descriptor, ONE_READ)
                if len(data) == ONE_READ:
                    data += read_rest(descriptor)
                values[file] = data.decode("utf-8", "replace").rstrip("\n")
            except OSError:
                continue
            finally:
                close(descriptor)
        if leaf and len(values) == before and not os.access(name, os.F_OK, dir_fd=point):
            raise FileNotFoundError
    return ObservedCgroup(path, identity, values)
