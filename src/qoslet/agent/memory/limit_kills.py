"""How often QoS cgroups and those above them were out of memory at their own limit, of late."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.limit_pressure import LIMIT_KILL_SECONDS, own_kills

CLOSE_WATCH_SECONDS = 20.0
"""Seconds for which the pods below are sampled closely: what was killed cannot be seen later."""

FRESH_SECONDS = 5.0
"""Seconds after which a kill is no reason for an eviction: what is killed next will be one."""


class LimitKills:
    """Counts from sample to sample, each cgroup its own."""

    def __init__(self) -> None:
        self._last: dict[str, MemorySample] = {}
        self._times: dict[str, deque[tuple[float, int]]] = {}

    def add(self, sample: MemorySample, now: float, first: MemorySample | None) -> None:
        """Count what happened since the last sample of the cgroup, or since its ``first``."""
        before = self._last.get(sample.path, first)
        self._last[sample.path] = sample
        kills = 0 if before is None else own_kills(before, sample)
        if kills:
            self._times.setdefault(sample.path, deque()).append((now, kills))

    def recent(self, now: float) -> Mapping[str, tuple[int, float]]:
        """How often, and since how many seconds, for each cgroup with any."""
        found = {}
        for path, times in list(self._times.items()):
            while times and now - times[0][0] > LIMIT_KILL_SECONDS:
                times.popleft()
            if times:
                found[path] = sum(count for _, count in times), now - times[0][0]
            else:
                del self._times[path]
        return found

    def lasted(self, path: str, now: float) -> float | None:
        """Seconds from the first to the last time; None where there is no other than a while ago: what
        was killed was enough."""
        times = self._times.get(path)
        if not times or now - times[-1][0] > FRESH_SECONDS:
            return None
        return times[-1][0] - times[0][0]

    def last(self, path: str) -> MemorySample | None:
        """The last sample of a cgroup."""
        return self._last.get(path)

    def watched_until(self) -> float:
        """Until when the pods below are sampled closely; 0 if nothing happened."""
        ends = [times[-1][0] + CLOSE_WATCH_SECONDS for times in self._times.values() if times]
        return max(ends, default=0.0)

    def clear(self) -> None:
        """Begin again: a pod was evicted."""
        self._times.clear()

    def forget(self, paths: set[str]) -> None:
        """Drop cgroups that are gone."""
        for path in paths:
            self._last.pop(path, None)
            self._times.pop(path, None)
