"""What an eviction needs of System V shared memory, which outlives the processes that made it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from qoslet.core.memory.sample import SharedSegment


class SharedSegments(Protocol):
    """The segments of this process's IPC namespace."""

    def made_by(self, pids: Collection[int]) -> Sequence[SharedSegment]:
        """Those that these processes made, and that nobody has marked for removal."""

    def remove(self, segments: Collection[SharedSegment]) -> int:
        """Remove those of them that nobody uses; the bytes that they held."""
