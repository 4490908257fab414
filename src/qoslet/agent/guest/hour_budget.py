"""So many of something within an hour, no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

HOUR_SECONDS = 3600.0


class HourBudget:
    """``most`` an hour. ``clock`` gives monotonic seconds."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self.most = most
        self._clock = clock
        self._taken: deque[float] = deque(maxlen=most)

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
