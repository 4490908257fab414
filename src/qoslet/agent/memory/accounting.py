"""Counts memory events, logs those that matter, and stores the counters across restarts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from qoslet.agent.memory.tracked_cgroups import TrackedCgroups, TrackingChange
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.names import parents
from qoslet.core.memory.counter_store import CounterStore
from qoslet.core.memory.counters import CounterKey, event
from qoslet.core.memory.effective_protection import (
    AncestorState,
    EffectiveMemory,
    ProtectionTree,
    protection_of,
)
from qoslet.core.memory.event_log import MemoryEventLog
from qoslet.core.memory.events import UNPROTECTED, ProtectedBytes
from qoslet.core.memory.oom_kills import OomKillTracker, ResolvedKill, inside
from qoslet.core.memory.rows import MemoryEvent, MemoryRow
from qoslet.core.memory.sample import MemorySample
from qoslet.core.plan.effective_memory import recursive

SAVE_SECONDS = 60.0
"""Seconds between two writings of what was counted, where anything was."""


class MemoryAccounting:
    """One for each agent; continues with the counters that the previous agent stored."""

    def __init__(self, context: SyncContext, parts: MemoryParts, groups: TrackedCgroups) -> None:
        self._context = context
        self._parts = parts
        self._cgroups = groups
        self.store = CounterStore()
        self._protections = ProtectionTree()
        self._kills = OomKillTracker()
        self._event_log = MemoryEventLog()
        self._pids: dict[CounterKey, int] = {}
        self._changed = False
        self._saved_at = context.now
        kept = parts.counters.load() if parts.counters is not None else None
        if kept is not None and not self.store.load(kept):
            context.log_note(
                "cannot read the memory counters of the previous agent; counting from zero"
            )

    def update_tracking(self, moved: TrackingChange) -> None:
        """Add and remove the counters of cgroups that appeared or went."""
        ended = self.store.remove(moved.removed, self._context.clock.wall())
        self.store.events.extend(ended)
        self.store.add(moved.added)
        if ended:
            self._log(ended)
        for group in moved.removed:
            self._protections.drop(group.path)
        for group in moved.added:
            sample = self.store.sample(group)
            if sample is not None:
                self._protections.put(protection_of(sample))

    def record_absent(self, path: str) -> None:
        """Forget the last sample of a cgroup that does not exist."""
        self.store.record_absent(self._cgroups.groups[path])
        self._protections.drop(path)

    def unread(self) -> frozenset[str]:
        """Tracked cgroups without a sample."""
        return frozenset(path for path in self._cgroups.groups if path not in self._protections)

    def record(self, samples: Mapping[str, MemorySample]) -> None:
        """Count what happened between the last samples and these."""
        wall = self._context.clock.wall()
        found: list[MemoryEvent] = []
        self._note_pids({self._cgroups.groups[path].uid for path in samples})
        effective = self._protected(samples)
        whole: set[str] = set()
        for path in sorted(samples, key=len):
            group, above = self._cgroups.groups[path], self._cgroups.above(path)
            kept = effective.get(path, UNPROTECTED)
            events = self.store.record_sample(samples[path], group, above, wall, kept)
            if any(one.kind == "oom_group_kill" for one in events):
                whole.add(path)
            together = not whole.isdisjoint({path, *parents(path)})
            for one in events:
                if one.kind == "oom_kill":
                    self._killed(one, group.key, whole=together)
                else:
                    self.store.record_event(one, group.key)
                    found.append(one)
        self._unattributed(samples, wall)
        self._changed = self._changed or bool(samples)
        self._log(found)

    def _unattributed(self, samples: Mapping[str, MemorySample], wall: float) -> None:
        """Find kills in pods whose container's cgroup was removed before it was sampled."""
        for path in samples:
            pod = self._cgroups.groups[path]
            if pod.level != "pod":
                continue
            containers = [one for one in self._cgroups.of_pod(pod.uid) if one.level == "container"]
            count = self.store.unattributed_kills(pod, containers)
            if count:
                whole = self.store.counted(pod, "oom_group_kill") > 0
                self._killed(event(pod, "oom_kill", count, wall), pod.key, whole=whole)

    def _killed(self, one: MemoryEvent, key: CounterKey, *, whole: bool) -> None:
        """Count kills; the kernel's log names the processes."""
        readable = self._parts.log.readable
        self._kills.add_count(one, key, self._context.now, readable, whole=whole)

    def _protected(self, samples: Mapping[str, MemorySample]) -> dict[str, ProtectedBytes]:
        """The protected bytes of each cgroup, by the last samples above and beside it."""
        for sample in samples.values():
            self._protections.put(protection_of(sample))
        paths = [path for path in samples if self._protections.is_protected(path)]
        return {
            path: ProtectedBytes(one.protected, one.hard)
            for path, one in self._solved(paths).items()
        }

    def _solved(self, paths: Collection[str]) -> dict[str, EffectiveMemory]:
        """The effective memory of these cgroups. Untracked cgroups above them are read only here:
        other processes may write there."""
        above = {at for path in paths for at in parents(path)}
        for at in sorted(above):
            if at in self._cgroups.groups and at in self._protections:
                continue
            sample = self._parts.reader.sample(at)
            if sample is None:
                self._protections.drop(at)
            else:
                self._protections.put(protection_of(sample))
        handed_down = recursive(self._context.node.host)
        known: dict[str, AncestorState] = {}
        found = {
            path: self._protections.effective(path, recursive=handed_down, known=known)
            for path in paths
        }
        return {path: one for path, one in found.items() if one is not None}

    def resolve_kills(self) -> None:
        """Name killed processes as far as the kernel's log tells by now."""
        if self._kills.next_at() is not None:
            self._log([])

    def next_at(self) -> float | None:
        """When a counted kill is due without a name."""
        return self._kills.next_at()

    def _log(self, found: list[MemoryEvent]) -> None:
        now = self._context.now
        if self._kills.next_at() is not None:
            self._kills.add_records(self._parts.log.kills(), now)
            for settled in self._kills.resolve(now, self._ended()):
                found.append(self._placed(settled))
                self.store.record_event(found[-1], settled.key)
        self._context.log.notes += self._event_log.lines(found, now)

    def _placed(self, one: ResolvedKill) -> MemoryEvent:
        """The event of a kill, moved from its pod to the container that the log names."""
        uid, container = one.key
        for group in self._cgroups.of_pod(uid) if uid and not container and one.group else ():
            if group.level == "container" and inside(one.group, group.path):
                self.store.attribute_kill(one.key, group)
                return replace(
                    one.event,
                    path=group.path,
                    level=group.level,
                    title=group.title,
                    container=group.container,
                )
        return one.event

    def _note_pids(self, uids: Iterable[str]) -> None:
        """Remember the first process of each running container of these pods."""
        for uid in uids:
            worker = self._context.workers.get(uid)
            for state in worker.container_states if worker is not None else ():
                if state.running and state.pid is not None:
                    self._pids[uid, state.name] = state.pid
        if len(self._pids) > 2 * len(self._cgroups.groups):
            known = {group.key for group in self._cgroups.groups.values()}
            self._pids = {key: pid for key, pid in self._pids.items() if key in known}

    def _ended(self) -> dict[CounterKey, int]:
        """The first process of each container that its runtime reports as OOMKilled."""
        return {
            key: self._pids[key]
            for worker in self._context.workers.values()
            for state in worker.container_states
            if not state.running
            and state.reason == "OOMKilled"
            and (key := (worker.uid, state.name)) in self._pids
        }

    def rows(self) -> list[MemoryRow]:
        """A row for every counted cgroup."""
        rows = self.store.rows(self._context.now)
        solved = self._solved({row.path for row in rows if not row.gone})
        return [
            row
            if row.gone or row.path not in solved
            else self._with_effective(row, solved[row.path])
            for row in rows
        ]

    def _with_effective(self, row: MemoryRow, effective: EffectiveMemory) -> MemoryRow:
        """A row with the effective values of this moment."""
        binds = effective.binds
        if binds is not None and self._context.node.hierarchy == "v1":
            binds = replace(binds, file="memory.limit_in_bytes")
        losses = self._protections.losses(row.path, effective)
        return replace(row, low=effective.protected, min=effective.hard, binds=binds, losses=losses)

    def save(self, *, now: bool = False) -> None:
        """Store the counters every ``SAVE_SECONDS``, or ``now``."""
        due = now or self._context.now - self._saved_at >= SAVE_SECONDS
        if self._parts.counters is None or not self._changed or not due:
            return
        self._changed, self._saved_at = False, self._context.now
        try:
            self._parts.counters.save(self.store.dump())
        except OSError as error:
            self._context.log.errors.append(f"cannot save memory events: {error.strerror}")
