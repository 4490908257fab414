"""Memory counters by pod, container and QoS cgroup, across restarts and beyond a cgroup's life.

Where the kernel counts a cgroup with all below it (v2), each counts for itself; where it counts
each cgroup alone (v1), an event counts for those above, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import DecodeError, Struct, json
from msgspec.structs import asdict, replace

from qoslet.core.memory.counters import (
    CounterKey,
    MemoryCounters,
    ReclaimHistory,
    event,
    own_events,
)
from qoslet.core.memory.events import (
    KERNEL_EVENTS,
    NOTHING_RECLAIMED,
    RECLAIM_COUNTERS,
    UNPROTECTED,
    ZONES,
    EventKind,
    MemoryChange,
    ProtectedBytes,
    change_between,
)
from qoslet.core.memory.rows import MemoryEvent, MemoryRow, TrackedCgroup
from qoslet.core.memory.sample import MemorySample
from qoslet.core.memory.stall_episodes import EpisodeChange

MAX_REMOVED_CGROUPS = 200
"""Removed cgroups whose counters are kept."""
MAX_EVENTS = 200
"""Events kept."""


class _StoredCounters(Struct):
    """The stored form; field names are part of it."""

    tallies: list[MemoryCounters]
    events: list[MemoryEvent]


def _comparable(sample: MemorySample) -> MemorySample:
    """The part of a sample that the next one is compared with."""
    return replace(
        sample, stat={name: sample.stat[name] for name in RECLAIM_COUNTERS if name in sample.stat}
    )


class CounterStore:
    """Every counter, and the last events. Times are wall-clock seconds, except in
    ``ReclaimHistory``."""

    def __init__(self) -> None:
        self._counters: dict[CounterKey, MemoryCounters] = {}
        self._gone: dict[CounterKey, None] = {}
        self._recent: dict[CounterKey, ReclaimHistory] = {}
        self._tells_pressure = self._tells_protection = False
        self.events: deque[MemoryEvent] = deque(maxlen=MAX_EVENTS)

    def add(self, cgroups: Iterable[TrackedCgroup]) -> None:
        """Track cgroups; counters under their keys continue."""
        for cgroup in cgroups:
            self._gone.pop(cgroup.key, None)
            counters = self._counters.get(cgroup.key)
            if counters is None:
                self._counters[cgroup.key] = MemoryCounters(cgroup)
            else:
                counters.group = cgroup

    def remove(self, cgroups: Iterable[TrackedCgroup], wall: float) -> list[MemoryEvent]:
        """Mark cgroups as gone; returns the episodes that end with them. The oldest counters of
        gone cgroups are dropped."""
        events = []
        for cgroup in cgroups:
            counters = self._counters.get(cgroup.key)
            if counters is None:
                continue
            self._gone.setdefault(cgroup.key)
            events += _episode(counters, cgroup, counters.episodes.end(), wall)
        while len(self._gone) > MAX_REMOVED_CGROUPS:
            self._drop(next(iter(self._gone)))
        return events

    def _drop(self, key: CounterKey) -> None:
        del self._gone[key], self._counters[key]
        self._recent.pop(key, None)

    def record_sample(
        self,
        sample: MemorySample,
        cgroup: TrackedCgroup,
        above: Sequence[TrackedCgroup],
        wall: float,
        protection: ProtectedBytes = UNPROTECTED,
    ) -> list[MemoryEvent]:
        """Count what happened since the last sample; returns the events. ``above`` are the cgroups
        above it, the topmost first."""
        counters = self._counters.setdefault(cgroup.key, MemoryCounters(cgroup))
        before, earlier = counters.sample, counters.protection
        self._tells_pressure |= sample.pressure is not None
        self._tells_protection |= sample.low is not None
        change = change_between(before, sample, cgroup.request, protection, earlier)
        counters.sample, counters.protection = sample, protection
        counters.add(change)
        if not sample.events:
            alone = MemoryChange(change.events, NOTHING_RECLAIMED, change.zone)
            for ancestor in above:
                self._counters.setdefault(ancestor.key, MemoryCounters(ancestor)).add(alone)
        if change.reclaimed.taken:
            recent = self._recent.setdefault(cgroup.key, ReclaimHistory())
            since = sample.at if before is None else before.at
            recent.add(change.zone, change.reclaimed.taken, since, sample.at)
        pressure_events = _episode(counters, cgroup, counters.episodes.record(sample), wall)
        if before is None and not cgroup.uid:
            # counted before the first sample
            return pressure_events
        counts = change.events if _leaf(cgroup) else own_events(before, sample)
        shown = {kind: counts[kind] for kind in counts if kind in KERNEL_EVENTS}
        shown |= {kind: n for kind, n in change.events.items() if kind not in KERNEL_EVENTS}
        if not _leaf(cgroup):
            counters.told += shown.get("oom_kill", 0)
        return [
            *(event(cgroup, kind, count, wall) for kind, count in shown.items()),
            *pressure_events,
        ]

    def unattributed_kills(self, pod: TrackedCgroup, containers: Iterable[TrackedCgroup]) -> int:
        """Kills in a pod since the last call that no container's cgroup has counted: it was removed
        before it was sampled, or is not tracked. Only v2 counts them."""
        counters = self._counters.get(pod.key)
        if counters is None or counters.sample is None or not counters.sample.events:
            return 0
        claimed = sum(self.counted(container, "oom_kill") for container in containers)
        kills = max(0, counters.events.get("oom_kill", 0) - claimed - counters.told)
        counters.told += kills
        return kills

    def under_pressure(self) -> frozenset[str]:
        """Cgroups in an episode of memory pressure."""
        return frozenset(
            counters.group.path
            for key, counters in self._counters.items()
            if counters.episodes.since is not None and key not in self._gone
        )

    def counted(self, cgroup: TrackedCgroup, kind: EventKind) -> int:
        """How often an event has happened to a cgroup so far."""
        counters = self._counters.get(cgroup.key)
        return counters.events.get(kind, 0) if counters is not None else 0

    def attribute_kill(self, pod: CounterKey, container: TrackedCgroup) -> None:
        """Move one of those kills to this container."""
        self._counters[pod].told -= 1
        events = self._counters.setdefault(container.key, MemoryCounters(container)).events
        events["oom_kill"] = events.get("oom_kill", 0) + 1

    def dump(self) -> bytes:
        """Everything that is stored, as JSON."""
        stored = [
            replace(
                counters, sample=None if counters.sample is None else _comparable(counters.sample)
            )
            for counters in self._counters.values()
        ]
        return json.encode(_StoredCounters(stored, list(self.events)))

    def load(self, text: bytes) -> bool:
        """Continue from what ``dump`` gave; cgroups are gone until they are added. False, and
        nothing changed, if the text is no dump."""
        try:
            stored = json.decode(text, type=_StoredCounters)
        except DecodeError:
            return False
        self._counters = {counters.group.key: counters for counters in stored.tallies}
        self._gone = dict.fromkeys(self._counters)
        self.events.extend(stored.events)
        return True

    def record_absent(self, cgroup: TrackedCgroup) -> None:
        """Forget the last sample of a cgroup."""
        counters = self._counters.get(cgroup.key)
        if counters is not None:
            counters.sample = None

    def record_event(self, event: MemoryEvent, key: CounterKey) -> None:
        """Add to the list of events, and to the counters as their last one."""
        self.events.append(event)
        counters = self._counters.get(key)
        if counters is not None:
            counters.last = event

    def sample(self, cgroup: TrackedCgroup) -> MemorySample | None:
        """The last sample of a cgroup; None if there is none."""
        counters = self._counters.get(cgroup.key)
        sample = counters.sample if counters is not None and cgroup.key not in self._gone else None
        return sample if sample is not None and sample.path == cgroup.path else None

    def rows(self, now: float) -> list[MemoryRow]:
        """A row for every cgroup, the gone ones last. ``now`` is monotonic seconds."""
        order = [key for key in self._counters if key not in self._gone]
        return [self._row(key, now) for key in (*order, *self._gone)]

    def _row(self, key: CounterKey, now: float) -> MemoryRow:
        counters = self._counters[key]
        cgroup, sample = counters.group, counters.sample
        recent = self._recent.get(key)
        return MemoryRow(
            **asdict(cgroup),
            gone=sample is None or key in self._gone,
            current=sample.current if sample is not None else None,
            high=sample.high if sample is not None else None,
            max=sample.max if sample is not None else None,
            low=counters.protection.low,
            min=counters.protection.min,
            given_low=sample.low if sample is not None else None,
            given_min=sample.min if sample is not None else None,
            pressure=sample.pressure if sample is not None else None,
            events=dict(counters.events),
            reclaimed={
                zone: counters.reclaimed[zone] for zone in ZONES if zone in counters.reclaimed
            },
            stalled=counters.stalled / 1e6,
            waited=counters.waited / 1e6,
            pressed=counters.episodes.since is not None,
            tells_pressure=self._tells_pressure,
            tells_protection=self._tells_protection,
            recent=recent.spans(now) if recent is not None else {},
            last=counters.last,
        )


def _leaf(cgroup: TrackedCgroup) -> bool:
    """Whether no tracked cgroup is below it."""
    return cgroup.level == "container"


def _episode(
    counters: MemoryCounters, cgroup: TrackedCgroup, change: EpisodeChange | None, wall: float
) -> list[MemoryEvent]:
    """The event of an episode that begins or ends, counted."""
    if change is None:
        return []
    counters.events[change.kind] = counters.events.get(change.kind, 0) + 1
    return [replace(event(cgroup, change.kind, 1, wall), why=change.why)]
