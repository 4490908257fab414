"""Limits how often something is done within an hour, also across restarts of the agent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

HOUR_SECONDS = 3600.0


class KeptTimes(Protocol):
    """Stores times for the next agent of the same boot."""

    def load(self) -> Sequence[float]:
        """The stored times, the earliest first."""

    def save(self, times: Sequence[float]) -> None:
        """Store these times in place of the earlier ones."""

    def forget(self) -> None:
        """Delete the stored times."""


class HourBudget:
    """Allows ``most`` uses within any hour. ``clock`` gives monotonic seconds of this boot. Without
    ``kept`` a new agent begins with a full budget."""

    def __init__(
        self, most: int, clock: Callable[[], float], kept: KeptTimes | None = None
    ) -> None:
        self.most = most
        self._clock, self._kept = clock, kept
        now = clock()
        known = [] if kept is None else kept.load()
        recent = [at for at in known if now - HOUR_SECONDS < at <= now]
        self._taken: deque[float] = deque(recent, maxlen=most)
        if kept is not None and not recent:
            kept.forget()

    @property
    def count(self) -> int:
        """How many uses are on record: the latest ones, at most ``most``."""
        return len(self._taken)

    @property
    def is_used_up(self) -> bool:
        """Whether ``most`` uses fall within the last hour."""
        return len(self._taken) == self.most and self._clock() - self._taken[0] < HOUR_SECONDS

    def take(self) -> None:
        """Record one use; the caller has seen that the budget is not used up."""
        self._taken.append(self._clock())
        if self._kept is not None:
            self._kept.save(self._taken)
