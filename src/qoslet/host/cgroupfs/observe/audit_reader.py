"""Reads the cgroups that an audit asks for; matches ``core.audit.live.LiveSource`` without units.

A file that is absent, one that may not be read, and a cgroup that vanished meanwhile are told apart.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from msgspec import Struct

from qoslet.core.audit.finding import Unread
from qoslet.core.audit.live import LiveCgroup, LiveTree, ReadRequest
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import DEFAULT_POINT, HOLDER, process_leaf
from qoslet.core.node.node import PLANNED_CONTROLLERS
from qoslet.host.cgroupfs.observe.process_origin import FoundProcesses, moved_processes
from qoslet.host.linux.descriptors import EXHAUSTED
from qoslet.host.linux.openat import LEAF_LINKS, checked

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 65536
_GONE = (errno.ENOENT, errno.ENODEV)
_SYS_RESOURCE = 24
_MEMORY_NODES = "cpuset.mems"
_NAMED = 5
"""How many processes of a cgroup are named."""
_DEEPEST = 100
"""Levels below which nothing is read: whoever is in a cgroup may nest others without end."""


class _Found(Struct):
    """A cgroup as it is read, over all hierarchies."""

    identity: int = 0
    values: dict[str, str] = {}
    unread: dict[str, str] = {}
    missing: list[str] = []
    pids: list[frozenset[int]] = []
    children: set[str] = set()
    nodes: str | None = None
    """The only memory node that the cgroup above has on v1: processes here can have no other one.
    Source: kernel/cgroup/cpuset-v1.c, validate_change."""
    counted: list[str] = []
    """Hierarchies that have as many children as those before, whose names were not listed."""


class CgroupReader:
    """``mounts``: v1 controller to mount point, of which those matter that plans have files of, and the
    freezer for its own file alone, or ``unified`` to that of v2."""

    def __init__(self, hierarchy: str, mounts: Mapping[str, str]) -> None:
        self._trees: dict[str, tuple[str, ...]] = {}
        if hierarchy == "v1":
            for name in sorted(PLANNED_CONTROLLERS & mounts.keys()):
                point = mounts[name]
                self._trees[point] = (*self._trees.get(point, ()), name)
        else:
            self._trees[mounts.get("unified", DEFAULT_POINT)] = ()
        self._v1 = hierarchy == "v1"
        self._freezer = mounts.get("freezer") if self._v1 else None
        self._shares: dict[tuple[str, ...], Mapping[str, tuple[str, ...]]] = {}

    def read(self, request: ReadRequest) -> LiveTree:
        """The cgroups of a request. Raises OSError where descriptors are exhausted."""
        found: dict[str, LiveCgroup] = {}
        unread: list[Unread] = []
        for path in sorted(request.cgroups):
            self._look(checked(path), request, found, unread, below=False)
        for path in request.walk:
            self._look(checked(path), request, found, unread, below=True)
        return LiveTree(found, tuple(unread), self._controllers(), least_oom_score_adj())

    def _controllers(self) -> frozenset[str] | None:
        """The controllers that the machine has."""
        if self._v1:
            return frozenset(name for names in self._trees.values() for name in names)
        try:
            with open(f"{next(iter(self._trees))}/cgroup.controllers", encoding="ascii") as file:
                return frozenset(file.read().split())
        except OSError:
            return None

    def _by_tree(self, files: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
        """The files of each hierarchy, by its mount point: cgroups have the same few sets of files."""
        if not self._v1:
            return dict.fromkeys(self._trees, files)
        return {
            point: tuple(file for file in files if controller(file) in controllers)
            for point, controllers in self._trees.items()
        }

    def _look(
        self,
        path: str,
        request: ReadRequest,
        found: dict[str, LiveCgroup],
        unread: list[Unread],
        *,
        below: bool,
    ) -> None:
        name = path or "/"
        files = request.files.get(name, request.default)
        shares = self._shares.get(files)
        if shares is None:
            shares = self._shares[files] = self._by_tree(files)
        group = _Found(values={}, unread={}, missing=[], pids=[], children=set(), counted=[])
        above = found.get(path.rpartition("/")[0]) if self._v1 else None
        nodes = above.values.get(_MEMORY_NODES, "") if above is not None else ""
        group.nodes = nodes if nodes.isdecimal() else None
        for point, controllers in self._trees.items():
            try:
                directory = os.open(point + path, _DIRECTORY)
            except OSError as error:
                if error.errno in EXHAUSTED:
                    raise
                if error.errno in _GONE:
                    group.missing += controllers or ("unified",)
                else:
                    unread.append(Unread(name, "", os.strerror(error.errno or 0)))
                continue
            try:
                if self._read_tree(directory, controllers, shares[point], group, below):
                    group.counted.append(point)
            except FileNotFoundError:
                group.missing += controllers or ("unified",)
            finally:
                os.close(directory)
        if not group.identity:
            return
        for file in files if self._freezer is not None else ():
            if controller(file) == "freezer":
                text = _text(None, f"{self._freezer}{path}/{file}", group.unread)
                group.values.update({} if text is None else {file: text})
        found[name] = _live(name, group, request)
        if group.children and path.count("/") >= _DEEPEST:
            unread.append(Unread(name, "", f"{_DEEPEST} levels deep: nothing below it is read"))
            return
        for child in sorted(group.children):
            self._look(f"{path}/{child}", request, found, unread, below=True)
        for child in sorted(self._uncounted(path, group, found)):
            self._look(f"{path}/{child}", request, found, unread, below=True)

    def _uncounted(
        self, path: str, group: _Found, found: Mapping[str, LiveCgroup]
    ) -> Collection[str]:
        """The names of children in the hierarchies that only counted them, where a child that others
        have is missing: what made up the count has a name that no other hierarchy has."""
        names: set[str] = set()
        for point in group.counted:
            lacking = self._trees[point][0]
            below = (found.get(f"{path}/{child}") for child in group.children)
            if any(one is None or lacking in one.missing for one in below):
                with suppress(OSError):
                    names.update(_children(point + path))
        return names - group.children

    def _read_tree(
        self,
        directory: int,
        controllers: tuple[str, ...],
        files: tuple[str, ...],
        group: _Found,
        below: bool,
    ) -> bool:
        """One hierarchy's directory of a cgroup; whether its children were counted only. Raises
        FileNotFoundError where it vanished."""
        status = os.fstat(directory)
        pids = _text(directory, "cgroup.procs", group.unread)
        if pids is None and "cgroup.procs" not in group.unread:
            raise FileNotFoundError(errno.ENOENT, "gone")
        group.identity = group.identity or status.st_ino
        if pids is not None:
            group.pids.append(frozenset(map(int, pids.split())))
        for file in files:
            if pids and file == _MEMORY_NODES and group.nodes is not None:
                group.values[file] = group.nodes
                continue
            text = _text(directory, file, group.unread)
            if text is not None:
                group.values[file] = text
        if not below or status.st_nlink == LEAF_LINKS:
            return False
        if controllers and status.st_nlink - LEAF_LINKS == len(group.children):
            return True
        group.children.update(_children(directory))
        return False


def _live(path: str, group: _Found, request: ReadRequest) -> LiveCgroup:
    union = frozenset[int]().union(*group.pids)
    union -= _holders(path, union)
    everywhere = frozenset.intersection(*group.pids) if group.pids else union
    pids = tuple(sorted(union))
    oom = request.wants_scores(path)
    moved = moved_processes(pids) if oom else FoundProcesses()
    told = {*moved.foreign, *moved.away}
    named = told if path in request.oom else {*told, *pids[:_NAMED]}
    return LiveCgroup(
        path=path,
        identity=group.identity,
        values=group.values,
        unread=group.unread,
        missing=tuple(sorted(group.missing)),
        processes=len(pids) if group.pids else None,
        pids=pids,
        partial=tuple(sorted(union - everywhere)),
        strangers=moved.foreign,
        away={pid: at for pid in moved.away if (at := _cgroup(pid))},
        commands={pid: name for pid in named if (name := _command(pid))},
        oom_score_adj=_oom(pids) if oom else None,
    )


def _holders(path: str, pids: Iterable[int]) -> frozenset[int]:
    """Those of the processes of a scope that qoslet has in it for its own sake."""
    above, _, leaf = path.rpartition("/")
    if not leaf.endswith(".scope") or not leaf.startswith(
        process_leaf(above, "")[: -len(".scope")]
    ):
        return frozenset()
    return frozenset(pid for pid in pids if HOLDER in (_proc(pid, "cmdline") or ""))


def _text(directory: int | None, file: str, unread: dict[str, str]) -> str | None:
    """A file without its last newline; None where it is absent, or noted as unread."""
    try:
        descriptor = os.open(file, _FILE, dir_fd=directory)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        if error.errno not in _GONE:
            unread[file] = os.strerror(error.errno or 0)
        return None
    try:
        data = os.read(descriptor, _CHUNK)
        while len(data) and len(data) % _CHUNK == 0:
            more = os.read(descriptor, _CHUNK)
            if not more:
                break
            data += more
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            # the processes of a threaded cgroup are listed in the domain above it only
            return ""
        if error.errno not in _GONE:
            unread[file] = os.strerror(error.errno or 0)
        return None
    finally:
        os.close(descriptor)
    return data.decode("utf-8", "replace").rstrip("\n")


def _children(directory: int | str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        yield from (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _proc(pid: int, file: str) -> str | None:
    text = _text(None, f"/proc/{pid}/{file}", {})
    return None if text is None else text.strip()


def _cgroup(pid: int) -> str:
    """The cgroup that a process is in, on v1 that of its memory; empty where it may not be read."""
    rows = [line.split(":", 2) for line in (_proc(pid, "cgroup") or "").splitlines()]
    paths = [path for _, names, path in rows if "memory" in names.split(",")]
    return (paths or [path for _, names, path in rows if not names] or [""])[0]


def least_oom_score_adj() -> int | None:
    """What processes have at least where not even the first process may lower it: in a container
    without CAP_SYS_RESOURCE. Source: proc(5) oom_score_adj; capabilities(7)."""
    for line in (_proc(1, "status") or "").splitlines():
        name, _, text = line.partition(":")
        if name == "CapBnd" and not int(text, 16) >> _SYS_RESOURCE & 1:
            own = _proc(1, "oom_score_adj")
            return None if own is None else int(own)
    return None


def _command(pid: int) -> str:
    return _proc(pid, "comm") or ""


def _oom(pids: tuple[int, ...]) -> tuple[int, ...] | None:
    """``oom_score_adj`` of the first process that can be read; None without one."""
    for pid in pids:
        text = _proc(pid, "oom_score_adj")
        if text is not None:
            return (int(text),)
    return None
