"""Rates and events between two observations of the same cgroups."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.observed import Observed, ObservedCgroup


class Usage(Struct, frozen=True, gc=False):
    """One cgroup over ``seconds``. ``cpu`` is in cores; ``throttled`` the seconds for which its
    quota throttled it, summed over its run queues; ``oom_kills`` counts OOM kills. ``memory`` and
    ``memory_peak`` are bytes of the later observation. None means unknown."""

    seconds: float
    cpu: float | None = None
    throttled: float | None = None
    oom_kills: int | None = None
    memory: int | None = None
    memory_peak: int | None = None


def between(before: Observed, after: Observed) -> Mapping[str, Usage]:
    """Usage by path, for every cgroup with the same inode in both observations."""
    seconds = after.at - before.at
    if seconds <= 0:
        return {}
    return {
        path: _usage(earlier, later, seconds)
        for path, later in after.cgroups.items()
        if (earlier := before.cgroups.get(path)) is not None and earlier.identity == later.identity
    }


def _usage(before: ObservedCgroup, after: ObservedCgroup, seconds: float) -> Usage:
    """Differences of counters; None for a counter that went back."""
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
    """The growth of a counter; None if unknown or reset."""
    if before is None or after is None or after < before:
        return None
    return after - before
