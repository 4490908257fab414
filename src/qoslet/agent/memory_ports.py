"""What following and freeing memory needs of its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.memory.events import OomKill
from qoslet.core.memory.sample import MemorySample, NodeMemory, SharedSegment


class MemoryReader(Protocol):
    """Reads a kernel's memory figures."""

    def sample(self, path: str) -> MemorySample | None:
        """One cgroup; None where it is absent or has no memory controller."""

    def node(self) -> NodeMemory:
        """The machine."""

    def surviving_tmpfs(self) -> int:
        """Bytes in tmpfs mounts of the machine that outlive every pod: no volumes of pods."""


class MemoryWatch(Protocol):
    """Wakes when the kernel reports something about the memory of cgroups."""

    @property
    def how(self) -> tuple[str, ...]:
        """What wakes it, and what cannot: a sentence each."""

    @property
    def complete(self) -> bool:
        """Whether everything that is counted of a followed cgroup wakes it."""

    def follow(self, paths: Iterable[str]) -> None:
        """Watch these cgroups, too. One that was created again under its path is watched anew; an
        absent one is left out."""

    def drop(self, paths: Iterable[str]) -> None:
        """Stop to watch these."""

    def woken(self) -> frozenset[str]:
        """Cgroups to which something happened since the last call; an empty path stands for the
        machine, or an unknown cgroup."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``woken`` has something new."""


class OomLog(Protocol):
    """The kernel's log of its OOM kills."""

    @property
    def readable(self) -> bool:
        """Whether it can be read here."""

    def kills(self) -> Sequence[OomKill]:
        """Those since the last call, in order."""


class ProactiveReclaim(Protocol):
    """Reclaims memory of cgroups without waiting for it."""

    @property
    def busy(self) -> bool:
        """Whether it reclaims from so many cgroups that no other one can be begun."""

    def begin(self, path: str, amount: int) -> str:
        """Begin to reclaim so many bytes, in small amounts and for a moment; a reclaim of this cgroup
        that is running goes on instead. Returns what went wrong, empty if nothing; nothing is begun
        while it is busy."""

    def refused(self, path: str) -> bool:
        """Whether the last reclaim of this cgroup is over, and the kernel could free nothing of what
        was asked for."""

    def forget(self, path: str) -> None:
        """Drop what is known of a cgroup's last reclaim."""


class CounterFile(Protocol):
    """Keeps memory counters when the agent ends."""

    def load(self) -> bytes | None:
        """What was saved last, None without any."""

    def save(self, text: bytes) -> None:
        """Replace it. Raises OSError."""


class SharedSegments(Protocol):
    """The segments of this process's IPC namespace."""

    def made_by(self, pids: Collection[int]) -> Sequence[SharedSegment]:
        """Those that these processes made, and that do not go with their last user."""

    def remove(self, segments: Collection[SharedSegment]) -> int:
        """Remove those of them that nobody uses; the bytes that they held."""


class MemoryParts(Struct, frozen=True):
    """What ``agent.memory`` works with. ``reclaim`` is None where the kernel reclaims nothing on
    request, ``segments`` where no memory outlives the processes of a pod. ``hurry`` gives the thread that
    calls it the CPU before others, or no longer."""

    reader: MemoryReader
    watch: MemoryWatch
    log: OomLog
    counters: CounterFile | None = None
    reclaim: ProactiveReclaim | None = None
    hurry: Callable[[bool], None] = lambda first: None
    segments: SharedSegments | None = None
