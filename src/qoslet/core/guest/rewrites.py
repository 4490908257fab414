"""How often a guest writes its values again after another manager has reset them.

The first reset of a file is answered at once; each further one waits twice as long as the one before.
All files of a node together have a budget, too: two writers never fight without end.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.reconcile.journal import Key


class RewriteBudget(Struct, frozen=True):
    """A file waits ``first_seconds`` before it is written again the second time, then twice as long
    each time, at most ``longest_seconds``; after ``calm_seconds`` without a reset it begins anew.
    All files: ``node_writes`` in ``node_seconds``."""

    first_seconds: float = 1.0
    longest_seconds: float = 600.0
    calm_seconds: float = 1200.0
    node_writes: int = 60
    node_seconds: float = 60.0


class Contest(Struct, frozen=True):
    """A file that another manager resets to ``found``. ``resets`` and ``rewrites`` count since it
    began; the times are monotonic seconds, ``retry_at`` is when it may be written again."""

    found: str
    since: float
    retry_at: float
    wait_seconds: float
    resets: int = 1
    rewrites: int = 0
    is_reset: bool = True
    """Whether the file holds the other's value now."""


class Rewrites:
    """The contests of a node."""

    def __init__(self, budget: RewriteBudget | None = None) -> None:
        self.budget = budget or RewriteBudget()
        self.contests: dict[Key, Contest] = {}
        self.resets = 0
        self.rewrites = 0
        self._recent: deque[float] = deque(maxlen=self.budget.node_writes)

    def reset(self, key: Key, found: str, now: float) -> bool:
        """Another manager's value was found in a file of ours; whether it may be written again
        now."""
        known = self.contests.get(key)
        if known is None:
            known = Contest(found, now, now, 0.0)
            self.resets += 1
        elif not known.is_reset:
            longer = min(
                max(self.budget.first_seconds, 2 * known.wait_seconds),
                self.budget.longest_seconds,
            )
            known = replace(
                known,
                found=found,
                retry_at=known.retry_at + longer,
                wait_seconds=longer,
                resets=known.resets + 1,
                is_reset=True,
            )
            self.resets += 1
        elif known.found != found:
            known = replace(known, found=found, resets=known.resets + 1)
            self.resets += 1
        self.contests[key] = known
        return now >= known.retry_at and self._has_tokens(now)

    def rewritten(self, key: Key, now: float) -> None:
        """A file was written again."""
        known = self.contests[key]
        self.contests[key] = replace(
            known, retry_at=now, rewrites=known.rewrites + 1, is_reset=False
        )
        self.rewrites += 1
        self._recent.append(now)

    def held(self, key: Key, now: float) -> None:
        """A file holds our value: after a while its contest is over."""
        known = self.contests.get(key)
        if known is None:
            return
        if known.is_reset:
            # whoever reset it has put our value back
            self.contests[key] = replace(known, is_reset=False, retry_at=now)
        elif now - known.retry_at >= self.budget.calm_seconds:
            del self.contests[key]

    def keep(self, keys: set[Key]) -> None:
        """Forget the files that are none of these."""
        for key in self.contests.keys() - keys:
            del self.contests[key]

    def next_at(self) -> float | None:
        """When the next file may be written again, in monotonic seconds."""
        times = [one.retry_at for one in self.contests.values() if one.is_reset]
        if not times:
            return None
        full = len(self._recent) == self.budget.node_writes
        earliest = self._recent[0] + self.budget.node_seconds if full else float("-inf")
        return max(min(times), earliest)

    def _has_tokens(self, now: float) -> bool:
        if len(self._recent) < self.budget.node_writes:
            return True
        return now - self._recent[0] >= self.budget.node_seconds
