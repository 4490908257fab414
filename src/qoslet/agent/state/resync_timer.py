"""When everything is observed again, whatever was announced.

A whole sync costs as much as there is on the node. So the time between two depends on what one
takes in which nothing is done, too: a node of many pods spends no larger share of a CPU on them
than a small one.
"""

from __future__ import annotations

from qoslet.agent.config import Config

HELD_SECONDS = 15.0
"""Seconds for which a whole sync waits for what is in a hurry."""


class ResyncTimer:
    """``at`` is the monotonic time of the next whole sync, None before the first."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._seconds = config.resync_seconds
        self._quiet_took = 0.0
        self.at: float | None = None

    def is_due(self, now: float, *, held: bool = False) -> bool:
        """Whether a sync at ``now`` is to be a whole one. ``held``: something is in a hurry."""
        at = self.due_at(held=held)
        return at is None or now >= at

    def due_at(self, *, held: bool = False) -> float | None:
        """When the next whole sync is due, None before the first."""
        return self.at if self.at is None or not held else self.at + HELD_SECONDS

    def synced(self, now: float, took: float, *, quiet: bool) -> None:
        """A whole sync is over after ``took`` seconds; ``quiet``: nothing differed."""
        config = self._config
        if quiet:
            self._quiet_took = took
        if quiet and self.at is not None and config.interval_seconds is None:
            self._seconds = min(self._seconds * 2, config.longest_resync_seconds)
        else:
            self._seconds = config.resync_seconds
        least = min(self._quiet_took / config.resync_share, config.longest_resync_seconds)
        self.at = now + max(self._seconds, least)
