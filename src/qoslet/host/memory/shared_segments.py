"""System V shared memory that processes leave behind; matches ``agent.memory_ports.SharedSegments``.

A segment of the host's IPC namespace outlives who made it, unless it is marked for removal. A container
with an IPC namespace of its own takes its segments along. Source: shmget(2), proc(5) ``sysvipc/shm``.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Collection

from qoslet.core.memory.sample import SharedSegment
from qoslet.core.memory.stat_parser import shared_segments
from qoslet.host.linux.procfs import text

_REMOVE = 0
_TICKS = os.sysconf("SC_CLK_TCK")


class KernelSegments:
    """The segments of this process's IPC namespace."""

    def made_by(self, pids: Collection[int]) -> list[SharedSegment]:
        """Those that these processes made and that would outlive them. Of another that had such an ID
        before they are older."""
        seen = shared_segments(text("/proc/sysvipc/shm"))
        left = (one for one in seen if one.creator in pids and not one.goes)
        # to a whole second
        return [one for one in left if one.made_at >= _begun_at(one.creator) - 2]

    def remove(self, segments: Collection[SharedSegment]) -> int:
        """Remove those that nobody uses; the bytes that they held."""
        made = {(one.number, one.creator, one.made_at) for one in segments}
        library, freed = ctypes.CDLL(None), 0
        for one in shared_segments(text("/proc/sysvipc/shm")):
            if (one.number, one.creator, one.made_at) in made and not one.users:
                freed += 0 if library.shmctl(one.number, _REMOVE, None) else one.held
        return freed


def _begun_at(pid: int) -> float:
    """When a process was started, in wall-clock seconds; never where it is gone. Source: proc(5) ``stat``, field 22."""
    fields = (text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if len(fields) < 20:
        return math.inf
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / _TICKS
    return time.time() - age
