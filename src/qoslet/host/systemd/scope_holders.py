"""What keeps a scope: one sleeping process of ours in each, because systemd ends an empty one.

With it a container's group, its values and its counters stand from before the first process to
after the last one, as a plain control group's do.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from qoslet.core.cgroup.names import HOLDER
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.host.linux.descriptors import owned

_SHELL = "/bin/sh"
_NEVER_KILLED = b"-1000"


class ScopeHolders:
    """The processes that keep scopes, by path. They end with this process: each reads from a
    pipe that only this one could write to."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._pipe: tuple[int, int] | None = None

    def begin(self, path: str) -> int:
        """A new process for a scope that is about to be made; its number. Raises OSError."""
        self.end(path)
        if self._pipe is None:
            self._pipe = os.pipe()
        with owned(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)) as null:
            pid = os.posix_spawn(
                _SHELL,
                ["sh", "-c", HOLDER],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, self._pipe[0], 0),
                    (os.POSIX_SPAWN_DUP2, null, 1),
                    (os.POSIX_SPAWN_DUP2, null, 2),
                ],
                setpgroup=0,
                setsigmask=(),
                setsigdef=(signal.SIGTERM, signal.SIGINT, signal.SIGPIPE),
            )
        _spare(pid)
        self._pids[path] = pid
        return pid

    def of(self, path: str) -> int | None:
        """The number of the process that keeps a scope."""
        return self._pids.get(path)

    def alive(self, path: str) -> bool:
        """Whether the scope's process still waits."""
        pid = self._pids.get(path)
        if pid is None:
            return False
        try:
            return os.waitpid(pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def end(self, path: str) -> None:
        """Let a scope go."""
        pid = self._pids.get(path)
        if pid is not None:
            # Only one that was not collected yet still has its number.
            if self.alive(path):
                os.kill(pid, signal.SIGKILL)
                _collect(pid)
            del self._pids[path]

    def close(self) -> None:
        """Let all go."""
        for path in list(self._pids):
            self.end(path)
        if self._pipe is not None:
            for descriptor in self._pipe:
                os.close(descriptor)
            self._pipe = None


def _spare(pid: int) -> None:
    """Keep the kernel from killing it with its group; without the right it stays as it is."""
    with suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
        file.write(_NEVER_KILLED)


def _collect(pid: int) -> None:
    """Wait for one that was killed, unless another did."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


class _Observer(Protocol):
    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``."""

    def watch(self, files: Iterable[str]) -> None:
        """Read these settings from now on."""

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One group, None where it is absent."""

    def identity(self, path: str) -> int | None:
        """The inode of a group, None where it is absent."""

    def reclaimable_cache(self, path: str) -> int:
        """Bytes of page cache that can be taken back."""


class ScopeFilter:
    """An observer that does not see the processes that keep scopes."""

    def __init__(self, observer: _Observer, holders: ScopeHolders) -> None:
        self._observer = observer
        self._holders = holders

    def watch(self, files: Iterable[str]) -> None:
        """Read these settings from now on."""
        self._observer.watch(files)

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``."""
        seen = self._observer.observe(root, values=values)
        groups = {path: self._without(group) for path, group in seen.cgroups.items()}
        return Observed(seen.at, groups)

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One group, None where it is absent."""
        seen = self._observer.read_cgroup(path)
        return None if seen is None else self._without(seen)

    def identity(self, path: str) -> int | None:
        """The inode of a group, None where it is absent."""
        return self._observer.identity(path)

    def reclaimable_cache(self, path: str) -> int:
        """Bytes of page cache that can be taken back."""
        return self._observer.reclaimable_cache(path)

    def _without(self, group: ObservedCgroup) -> ObservedCgroup:
        """A group without the process that keeps it."""
        pid = self._holders.of(group.path)
        if pid is None or pid not in group.pids:
            return group
        return replace(group, pids=tuple(one for one in group.pids if one != pid))
