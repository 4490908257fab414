"""Episodes of memory pressure in a cgroup: when they begin, how much of the time tasks wait, when
they end.

Source: Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.memory.sample import MemorySample

FULL_RATIO, SOME_RATIO = 0.10, 0.30
"""A cgroup is under pressure if all its processes, or some, wait for at least these shares of the
time between two samples."""
MIN_SECONDS = 0.4
"""The shortest time over which a share is computed, in seconds."""
CALM_SECONDS = 3.0
"""Seconds without pressure after which an episode ends."""


class EpisodeChange(Struct, frozen=True):
    """An episode begins or ends; ``why`` has the numbers."""

    kind: Literal["pressure", "pressure_end"]
    why: str


class _PsiTotals(Struct, frozen=True):
    """Monotonic seconds, microseconds waited, and the inode of the cgroup."""

    at: float
    full: int
    some: int
    identity: int


class StallEpisodes(Struct):
    """The episodes of one cgroup. ``since`` is the sample before the current episode, ``until`` the
    last one with pressure."""

    last: _PsiTotals | None = None
    since: _PsiTotals | None = None
    until: _PsiTotals | None = None

    def record(self, sample: MemorySample) -> EpisodeChange | None:
        """Take in a sample; returns the change if an episode begins or ends with it."""
        if sample.pressure is None:
            return None
        psi = sample.pressure
        now = _PsiTotals(sample.at, psi.full_total, psi.some_total, sample.identity)
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
            "pressure", f"all processes waited {full:.0%} and some {some:.0%} of {seconds:.1f} s"
        )

    def end(self) -> EpisodeChange | None:
        """End the current episode, if there is one."""
        since, until = self.since, self.until
        self.since = self.until = None
        if since is None or until is None:
            return None
        full, some = (until.full - since.full) / 1e6, (until.some - since.some) / 1e6
        seconds = until.at - since.at
        return EpisodeChange(
            "pressure_end",
            f"in {seconds:.1f} s all processes waited {full:.1f} s and some {some:.1f} s",
        )


def _share(before: int, after: int, seconds: float) -> float:
    return min(1.0, max(0, after - before) / 1e6 / seconds)
