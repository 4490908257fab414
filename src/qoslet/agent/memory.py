"""One room for memory: who is looked at and when, what happened to it, and whom that concerns.

Nothing is looked at while nothing happens: the kernel wakes it. A group at its limits is looked at
closely while it stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from qoslet.agent.memgroups import MemoryGroups
from qoslet.agent.ports import MemoryParts
from qoslet.agent.shared import Shared
from qoslet.core.memrow import WatchRow
from qoslet.core.memsample import NO_LIMIT, MemorySample, NodeMemory

CLOSE = 1.0
"""Seconds between two looks at groups that are at ``memory.high`` or under pressure."""
CLOSER = 0.5
"""The same, of groups that a watcher wants to see."""


class Watcher(Protocol):
    """Who is told of samples and may act on them: the guard, the pressure policy."""

    def consider(self, samples: Mapping[str, MemorySample], node: NodeMemory, now: float) -> None:
        """What was seen in this turn, by path: of woken groups, of those looked at closely.
        ``now`` is monotonic seconds. Acts by itself."""

    def watching(self) -> frozenset[str]:
        """Groups that it wants to see every ``CLOSER`` seconds."""

    def next_at(self) -> float | None:
        """When it wants to be asked in any case, in monotonic seconds."""

    def rows(self) -> Sequence[WatchRow]:
        """What it says of groups, for surfaces."""


PLUGS: tuple[Callable[[Shared, MemoryGroups], Watcher], ...] = ()
"""Plug point: who watches, in the order in which they are told. Each is made once."""


class Memory:
    """One for each wheel. Without ``parts`` it does nothing."""

    def __init__(self, shared: Shared, parts: MemoryParts | None) -> None:
        self._shared = shared
        self._parts = parts
        self.groups = MemoryGroups(shared)
        self.watchers = [plug(shared, self.groups) for plug in PLUGS] if parts else []
        self._last: dict[str, MemorySample] = {}
        self._close: frozenset[str] = frozenset()
        self._look_at: float | None = None

    def turn(self, *, whole: bool = False) -> None:
        """See what woke us and what is looked at closely; tell the watchers."""
        if self._parts is None:
            return
        now = self._shared.now
        if self.groups.update() or whole or self._shared.due:
            self._parts.watch.follow(self.groups.groups)
        wanted = self._wanted(now, whole)
        if not wanted and not self._due(now):
            return
        samples = {}
        for path in wanted & self.groups.groups.keys():
            sample = self._parts.reader.sample(path)
            if sample is not None:
                samples[path] = self._last[path] = sample
        node = self._parts.reader.node()
        for watcher in self.watchers:
            watcher.consider(samples, node, now)
        self._close = frozenset(path for path, one in samples.items() if _at_limit(one))
        pace = CLOSER if any(watcher.watching() for watcher in self.watchers) else CLOSE
        self._look_at = now + pace if self._close or pace == CLOSER else None

    def _wanted(self, now: float, whole: bool) -> frozenset[str]:
        """Whom to look at in this turn."""
        assert self._parts is not None
        if self._look_at is not None and now < self._look_at:
            return frozenset()
        woken = self._parts.watch.woken()
        if whole or "" in woken:
            return frozenset(self.groups.groups)
        close = self._close if self._look_at is not None else frozenset()
        return woken.union(close, *(watcher.watching() for watcher in self.watchers))

    def _due(self, now: float) -> bool:
        """Whether a watcher wants to be asked."""
        times = [watcher.next_at() for watcher in self.watchers]
        return any(at is not None and now >= at for at in times)

    def descriptors(self) -> Sequence[int]:
        """Become readable when something happens; none while a look is due soon anyway, so that
        a group that is throttled without end wakes nobody a hundred times a second."""
        if self._parts is None or self._look_at is not None:
            return ()
        return self._parts.watch.descriptors()

    def next_at(self) -> float | None:
        """The monotonic time of the next look."""
        times = [self._look_at, *(watcher.next_at() for watcher in self.watchers)]
        return min((one for one in times if one is not None), default=None)

    def rows(self) -> Sequence[WatchRow]:
        """What the watchers say."""
        return [row for watcher in self.watchers for row in watcher.rows()]


def _at_limit(sample: MemorySample) -> bool:
    """Whether a group is to be looked at closely: at its ``memory.high``, or waiting for
    memory."""
    if sample.high is not None and sample.current >= sample.high < NO_LIMIT:
        return True
    return sample.pressure is not None and sample.pressure.full_avg10 >= 1.0
