"""So many of something within an hour, no more, also where the agent is started again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

HOUR_SECONDS = 3600.0


class KeptTimes(Protocol):
    """Keeps times for the next agent of this boot."""

    def load(self) -> Sequence[float]:
        """What was kept, the earliest first."""

    def save(self, times: Sequence[float]) -> None:
        """Keep these."""

    def forget(self) -> None:
        """Keep nothing."""


class HourBudget:
    """``most`` an hour. ``clock`` gives monotonic seconds of this boot; ``kept`` None: a new agent has
    a new budget."""

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
        """How many were taken, of those that count for the hour."""
        return len(self._taken)

    @property
    def is_used_up(self) -> bool:
        """Whether none is left now."""
        return len(self._taken) == self.most and self._clock() - self._taken[0] < HOUR_SECONDS

    def take(self) -> None:
        """Take one; there is one."""
        self._taken.append(self._clock())
        if self._kept is not None:
            self._kept.save(self._taken)
