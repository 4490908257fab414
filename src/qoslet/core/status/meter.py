"""How often a kind of work was done, and how long it took: a histogram as metrics show it."""

from __future__ import annotations

from msgspec import Struct

BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Upper bounds in seconds of the buckets that durations are counted in; one more is unbounded."""


class Meter(Struct, frozen=True):
    """How often a kind of work was done so far, how often that failed, and how long it took in
    all, in seconds. ``buckets`` counts durations by ``BOUNDS``, each for itself."""

    count: int = 0
    failures: int = 0
    seconds: float = 0.0
    buckets: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)

    def add(self, seconds: float, *, failed: bool = False) -> Meter:
        """One more."""
        at = next((n for n, bound in enumerate(BOUNDS) if seconds <= bound), len(BOUNDS))
        buckets = (*self.buckets[:at], self.buckets[at] + 1, *self.buckets[at + 1 :])
        return Meter(self.count + 1, self.failures + failed, self.seconds + seconds, buckets)
