"""A cgroup at its memory.high, as the guard follows it."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.memory.rows import TrackedCgroup
from qoslet.core.pressure.guard_report import SaidDecisions
from qoslet.core.pressure.throttle_stall import StallTracker

FRESH_SECONDS = 5.0
"""Seconds for which one that has just come to its memory.high may stall at any moment."""


class WatchedCgroup(Struct):
    """One that is watched since ``begun``; ``acts``: in mode ``act``. ``said``: since the last
    change; nothing is decided before ``blocked_until``, but if the kernel refuses to
    reclaim, as it was asked to at ``asked_at``; ``queued_since``: since when it waits for another
    cgroup's reclaim; ``short_since``: since when there is no memory to give it, ``wanted`` bytes of the
    node's."""

    cgroup: TrackedCgroup
    planned: int
    begun: float
    acts: bool = False
    tracker: StallTracker = StallTracker()
    calm_since: float | None = None
    said: SaidDecisions = SaidDecisions()
    blocked_until: float = 0.0
    asked_at: float | None = None
    queued_since: float | None = None
    short_since: float | None = None
    wanted: int = 0
    read_at: float = 0.0

    def urgent(self, now: float) -> bool:
        """Whether it may be acted on, and shows no progress or was seen for a moment only."""
        new = now - self.begun < FRESH_SECONDS
        return self.acts and (new or self.tracker.ask or self.tracker.candidate == "stalled")

    def wait(self, now: float, *, queued: bool, no_memory: bool) -> None:
        """Remember since when it waits for another cgroup's reclaim, or for memory."""

        def since(before: float | None, waits: bool) -> float | None:
            if not waits:
                return None
            return now if before is None else before

        self.queued_since = since(self.queued_since, queued)
        self.short_since = since(self.short_since, no_memory)
