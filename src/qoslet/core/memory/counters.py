"""Memory counters of one cgroup, and the events made from them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from qoslet.core.memory.events import (
    KERNEL_EVENTS,
    NOTHING_RECLAIMED,
    ZONES,
    EventKind,
    MemoryChange,
    OomKill,
    ProtectedBytes,
    Reclaimed,
    Zone,
)
from qoslet.core.memory.rows import MemoryEvent, TrackedCgroup
from qoslet.core.memory.sample import MemorySample
from qoslet.core.memory.stall_episodes import StallEpisodes

CounterKey = tuple[str, str]

SPAN_SECONDS = 2.0
"""Seconds of one span."""
MAX_SPANS = 30
"""Spans that are kept."""


class MemoryCounters(Struct):
    """The counters under one key. ``sample`` is the last one, None if there is no cgroup. ``told``
    counts kills of a pod that no container's cgroup has counted; ``stalled`` and ``waited`` are
    microseconds, as in ``MemoryChange``."""

    group: TrackedCgroup
    events: dict[EventKind, int] = {}
    reclaimed: dict[Zone, Reclaimed] = {}
    stalled: int = 0
    waited: int = 0
    episodes: StallEpisodes = field(default_factory=StallEpisodes)
    sample: MemorySample | None = None
    protection: ProtectedBytes = ProtectedBytes()
    last: MemoryEvent | None = None
    told: int = 0

    def add(self, change: MemoryChange) -> None:
        """Count a change."""
        for kind, count in change.events.items():
            self.events[kind] = self.events.get(kind, 0) + count
        if change.reclaimed != NOTHING_RECLAIMED:
            self.reclaimed[change.zone] = self.reclaimed.get(change.zone, NOTHING_RECLAIMED).plus(
                change.reclaimed
            )
        self.stalled += change.stalled
        self.waited += change.waited


class ReclaimHistory:
    """Reclaimed pages over the last minute, in spans of equal length. Times are monotonic
    seconds."""

    def __init__(self) -> None:
        self._spans: dict[int, dict[Zone, float]] = {}

    def add(self, zone: Zone, pages: int, since: float, until: float) -> None:
        """Add pages that were reclaimed between two samples, spread evenly."""
        last = int(until // SPAN_SECONDS)
        first = max(int(since // SPAN_SECONDS), last - MAX_SPANS + 1)
        covered = int(until // SPAN_SECONDS) - int(since // SPAN_SECONDS) + 1
        for span in range(first, last + 1):
            pages_by_zone = self._spans.setdefault(span, {})
            pages_by_zone[zone] = pages_by_zone.get(zone, 0.0) + pages / covered
        for old in [known for known in self._spans if known <= last - MAX_SPANS]:
            del self._spans[old]

    def spans(self, now: float) -> Mapping[Zone, tuple[int, ...]]:
        """The last ``MAX_SPANS`` spans by zone, without zones in which nothing was reclaimed."""
        last = int(now // SPAN_SECONDS)
        by_zone: dict[Zone, tuple[int, ...]] = {}
        for zone in ZONES:
            pages = tuple(
                round(self._spans.get(span, {}).get(zone, 0.0))
                for span in range(last - MAX_SPANS + 1, last + 1)
            )
            if any(pages):
                by_zone[zone] = pages
        return by_zone


def own_events(before: MemorySample | None, after: MemorySample) -> dict[EventKind, int]:
    """What happened to a cgroup itself, without those below it."""
    if before is not None and before.identity != after.identity:
        before = None
    old = before.local if before is not None else {}
    grown: dict[EventKind, int] = {}
    for kind in KERNEL_EVENTS:
        count = after.local.get(kind, 0) - old.get(kind, 0)
        if count > 0:
            grown[kind] = count
    return grown


def event(cgroup: TrackedCgroup, kind: EventKind, count: int, wall: float) -> MemoryEvent:
    """An event without a process."""
    return MemoryEvent(
        at=wall,
        kind=kind,
        count=count,
        path=cgroup.path,
        level=cgroup.level,
        title=cgroup.title,
        pod=cgroup.pod,
        container=cgroup.container,
    )


def named(event: MemoryEvent, kill: OomKill | None, size: str = "") -> MemoryEvent:
    """The event of a kill with the killed process; ``size`` is its memory, for people."""
    if kill is None:
        return event
    if kill.limit:
        own_limit = kill.limit in (kill.group, event.path)
        why = "at its limit" if own_limit else f"at the limit of {kill.limit}"
    else:
        why = "the machine had no memory left" if kill.group else ""
    parts = [part for part in (size, why) if part]
    return replace(event, process=kill.name, pid=kill.pid, count=1, why=", ".join(parts))
