"""Whether a group waits for memory: from when on, how much of the time, and until when.

Goes by the looks there are. Source: Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.memory.sample import MemorySample

FULL_RATIO, SOME_RATIO = 0.10, 0.30
"""Shares of the time between two looks for which all processes of a group, or some, wait where it
is under pressure."""
MIN_SECONDS = 0.4
"""Seconds over which a share is taken at least."""
CALM_SECONDS = 3.0
"""Seconds without pressure after which it is over."""


class EpisodeChange(Struct, frozen=True):
    """A beginning or an end; ``why`` has the numbers."""

    kind: Literal["pressure", "pressure_end"]
    why: str


class _Look(Struct, frozen=True):
    """Monotonic seconds, microseconds waited, and which group it was."""

    at: float
    full: int
    some: int
    identity: int


class StallEpisodes(Struct):
    """Of one group. ``since`` is the look before the episode that goes on, ``until`` the last one
    with pressure."""

    last: _Look | None = None
    since: _Look | None = None
    until: _Look | None = None

    def record(self, sample: MemorySample) -> EpisodeChange | None:
        """What a look says, if it begins or ends anything."""
        if sample.pressure is None:
            return None
        psi = sample.pressure
        now = _Look(sample.at, psi.full_total, psi.some_total, sample.identity)
        before = self.last
        if before is None or before.identity != now.identity or now.at < before.at:
            self.last = now
            return self.end()
        seconds = now.at - before.at
        if seconds < MIN_SECONDS:
            return None
        self.last = now
        full, some = _share(before.full, now.full, seconds), _share(before.some, now.some, seconds)
        if full < FULL_RATIO and some < SOME_RATIO:
            calm = self.until is not None and now.at - self.until.at >= CALM_SECONDS
            return self.end() if calm else None
        self.until = now
        if self.since is not None:
            return None
        self.since = before
        return EpisodeChange(
            "pressure", f"all its processes {full:.0%} and some {some:.0%} of {seconds:.1f} s"
        )

    def end(self) -> EpisodeChange | None:
        """The end of what goes on, if anything does."""
        since, until = self.since, self.until
        self.since = self.until = None
        if since is None or until is None:
            return None
        full, some = (until.full - since.full) / 1e6, (until.some - since.some) / 1e6
        seconds = until.at - since.at
        return EpisodeChange(
            "pressure_end",
            f"in {seconds:.1f} s all its processes waited {full:.1f} s and some {some:.1f} s",
        )


def _share(before: int, after: int, seconds: float) -> float:
    return min(1.0, max(0, after - before) / 1e6 / seconds)
