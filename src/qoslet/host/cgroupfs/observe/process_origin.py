"""Which processes of a container's cgroup were not started there, and which of its processes are elsewhere, by
parents and mount namespaces.

Source: proc(5) /proc/PID/stat; mount_namespaces(7). A container's processes have an ancestor in it,
or are children of its shim, as ``kubectl exec`` starts them; orphans go to its first process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

_GENERATIONS = 16


class FoundProcesses(Struct, frozen=True):
    """Of a container's processes those that are ``foreign``; ``away`` are parents of others that are in the
    container's mount namespace, but not in its cgroup."""

    foreign: tuple[int, ...] = ()
    away: tuple[int, ...] = ()


def moved_processes(pids: Sequence[int]) -> FoundProcesses:
    """Those that were moved into the cgroup of a container, or out of it; the first of ``pids`` is the oldest.
    What cannot be read is neither foreign nor away."""
    inside = set(pids)
    parents = {pid: _parent(pid) for pid in pids}
    tops = [pid for pid in pids if parents[pid] not in (None, *inside)]
    if not tops:
        return FoundProcesses()
    main, host = tops[0], _host_mounts()
    foreign: tuple[int, ...] = ()
    if len(tops) > 1:
        own, shim = _mounts(main), parents[main]
        foreign = tuple(pid for pid in tops[1:] if _is_foreign(pid, parents[pid], shim, own, host))
    pairs = ((pid, parents[pid]) for pid in tops if pid not in foreign)
    away = dict.fromkeys(parent for pid, parent in pairs if parent and _is_away(parent, pid, host))
    return FoundProcesses(foreign, tuple(away))


def _is_away(parent: int, pid: int, host: str | None) -> bool:
    """Whether the parent of a container's process is of that container as well, and no shim."""
    mounts = _mounts(parent)
    return mounts not in (None, host) and mounts == _mounts(pid)


def _is_foreign(
    pid: int, parent: int | None, shim: int | None, own: str | None, host: str | None
) -> bool:
    """Whether a process whose parent is outside came from elsewhere: it is in another mount
    namespace, or, in a container without one, it does not descend from what started it."""
    mounts = _mounts(pid)
    if mounts is None or own is None:
        return False
    if mounts != own:
        return True
    return own == host and parent is not None and shim not in (1, *_ancestors(parent))


def _ancestors(pid: int) -> Iterator[int]:
    """A process and those above it."""
    current: int | None = pid
    for _ in range(_GENERATIONS):
        if not current:
            return
        yield current
        current = _parent(current)


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


@cache
def _host_mounts() -> str | None:
    """The mount namespace of the machine; where its first process may not be read, we count as in it."""
    return _mounts(1) or _mounts(os.getpid())


def _mounts(pid: int) -> str | None:
    """The mount namespace of a process; None where it may not be read."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return None
