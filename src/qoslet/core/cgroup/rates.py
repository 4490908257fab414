"""What happened between two looks at a kernel: rates and events, never across a replaced group."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.observed import Observed, ObservedCgroup


class Usage(Struct, frozen=True, gc=False):
    """One group over ``seconds``. ``cpu`` is in cores; ``throttled`` the seconds that its
    quota held it back, summed over its run queues; ``oom_kills`` counts those in between.
    ``memory`` and ``memory_peak`` are bytes at the later look. None means unknown."""

    seconds: float
    cpu: float | None = None
    throttled: float | None = None
    oom_kills: int | None = None
    memory: int | None = None
    memory_peak: int | None = None


def between(before: Observed, after: Observed) -> Mapping[str, Usage]:
    """Usage by path, for every group that is the same one (inode) in both looks."""
    seconds = after.at - before.at
    if seconds <= 0:
        return {}
    return {
        path: _usage(earlier, later, seconds)
        for path, later in after.cgroups.items()
        if (earlier := before.cgroups.get(path)) is not None and earlier.identity == later.identity
    }


def _usage(before: ObservedCgroup, after: ObservedCgroup, seconds: float) -> Usage:
    """Differences of counters; a counter that went back is unknown."""
    cpu = _grown(before.usage_usec, after.usage_usec)
    throttled = _grown(before.throttled_usec, after.throttled_usec)
    return Usage(
        seconds=seconds,
        cpu=None if cpu is None else cpu / 1e6 / seconds,
        throttled=None if throttled is None else throttled / 1e6,
        oom_kills=_grown(before.oom_kills, after.oom_kills),
        memory=after.memory,
        memory_peak=after.memory_peak,
    )


def _grown(before: int | None, after: int | None) -> int | None:
    """How far a counter went; None if unknown or reset."""
    if before is None or after is None or after < before:
        return None
    return after - before
