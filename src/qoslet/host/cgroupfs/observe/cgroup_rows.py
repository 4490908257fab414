"""Reads cgroups for a bundle: whole texts of the files that may be in one, hierarchy by hierarchy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from errno import ENODEV, ENOENT, EOPNOTSUPP

from msgspec import Struct

from qoslet.core.bundle.allowed import FILES_V1, files_v1, files_v2
from qoslet.core.bundle.rows import CgroupRow
from qoslet.core.cgroup.names import parents
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.linux.openat import FEW, MountedTree, checked
from qoslet.host.linux.procfs import text

_ABSENT = (ENOENT, ENODEV, EOPNOTSUPP)
CGROUPS_MOST = 20_000
"""Rows that are made of one machine."""
PROCESSES_MOST = 2000
"""Processes of one cgroup whose ``oom_score_adj`` is read."""


class FailedFile(Struct, frozen=True):
    """A file of a cgroup that is there and could not be read."""

    path: str
    file: str
    error: str


class CgroupsResult(Struct):
    """What was read. ``left_out`` counts the cgroups beyond ``CGROUPS_MOST``."""

    rows: list[CgroupRow]
    unread: list[FailedFile]
    left_out: int = 0


class CgroupFilesReader:
    """Reads the hierarchies at ``mounts`` (as for ``layout_of``); ``page_sizes`` are names as in
    ``hugetlb.2MB.max``. Closes everything with ``close``."""

    def __init__(
        self, hierarchy: str, mounts: Mapping[str, str], page_sizes: Iterable[str] = ()
    ) -> None:
        layout = layout_of(hierarchy, mounts, keeps=FEW)
        sizes = tuple(page_sizes)
        self._trees: list[tuple[MountedTree, list[tuple[str, tuple[str, ...]]]]] = []
        for tree in layout.trees:
            if hierarchy == "v1":
                known = [name for name in layout.controllers_of(tree) if name in FILES_V1]
                files = [(name, files_v1(name, sizes)) for name in known]
            else:
                files = [("v2", files_v2(sizes))]
            if files:
                self._trees.append((tree, files))

    def close(self) -> None:
        """Close every descriptor."""
        for tree, _ in self._trees:
            tree.close()

    def read(self, trees: Sequence[str], single: Sequence[str] = ()) -> CgroupsResult:
        """The cgroups at and below ``trees``, and those of ``single`` and directly below ``/``
        without the ones below them, parents first."""
        found = CgroupsResult([], [])
        for tree, files in self._trees:
            with_processes, paths = self._paths(tree, trees, single)
            for path in sorted(paths):
                if len(found.rows) >= CGROUPS_MOST:
                    found.left_out += len(files)
                    continue
                found.rows += self._rows(tree, path, files, path in with_processes, found.unread)
        return found

    @staticmethod
    def _paths(
        tree: MountedTree, trees: Sequence[str], single: Sequence[str]
    ) -> tuple[set[str], set[str]]:
        """The checked paths of a hierarchy that are there: those below ``trees``, and all."""
        below: set[str] = set()
        for path in trees:
            below.update(tree.below(checked(path)))
        alone = {checked(path) for path in single} | {""}
        for path in [*map(checked, trees), *alone]:
            alone.update(parents(path))
        alone.update(tree.children(""))
        return below, below | {path for path in alone if tree.identity(path) is not None}

    def _rows(
        self,
        tree: MountedTree,
        path: str,
        files: Iterable[tuple[str, tuple[str, ...]]],
        with_scores: bool,
        unread: list[FailedFile],
    ) -> Iterator[CgroupRow]:
        """The rows of one cgroup in one hierarchy; none where it has gone."""
        inode = tree.identity(path)
        if inode is None:
            return
        processes = self._text(tree, path, "cgroup.procs", unread)
        pids = None if processes is None else processes.split()
        scores = _scores(pids) if with_scores and pids is not None else None
        for hierarchy, names in files:
            texts = {name: self._text(tree, path, name, unread) for name in names}
            yield CgroupRow(
                path or "/",
                hierarchy,
                inode,
                None if pids is None else len(pids),
                {name: found for name, found in texts.items() if found is not None},
                scores,
            )

    @staticmethod
    def _text(tree: MountedTree, path: str, name: str, unread: list[FailedFile]) -> str | None:
        """A file's text; None where there is none or it cannot be read, which is noted."""
        try:
            return tree.read(path, name)
        except OSError as error:
            if error.errno not in _ABSENT:
                reason = os.strerror(error.errno or 0)
                unread.append(FailedFile(path or "/", name, reason))
            return None


def _scores(pids: Iterable[str]) -> tuple[int, ...]:
    """The distinct ``oom_score_adj`` of processes, the first one's first; one that has ended has
    none."""
    found: dict[int, None] = {}
    for number, pid in enumerate(pids):
        if number == PROCESSES_MOST:
            break
        score = (text(f"/proc/{pid}/oom_score_adj") or "").strip()
        if score.removeprefix("-").isdecimal():
            found[int(score)] = None
    return tuple(found)
