"""Samples the memory of cgroups when the kernel reports events, and runs the policies on it.

A quiet cgroup costs nothing: the kernel wakes the agent. A cgroup at its limits is sampled closely
while it stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from qoslet.agent.memory.accounting import MemoryAccounting
from qoslet.agent.memory.pressure_eviction import PressureEviction
from qoslet.agent.memory.throttle_guard import Guard
from qoslet.agent.memory.tracked_cgroups import TrackedCgroups
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.rows import WatchRow
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure.eviction_ranking import NO_PRESSURE_REPORT
from qoslet.core.pressure.guard_report import NO_GUARD_REPORT, GuardReport
from qoslet.core.status.memory_view import MemoryView

LIMIT_POLL_SECONDS = 1.0
"""Seconds between two looks at groups that are at ``memory.high`` or under pressure."""
WATCH_POLL_SECONDS = 0.5
"""The same, of groups that a watcher wants to see."""
ALL_POLL_SECONDS = 5.0
"""Seconds between two looks at all groups while tasks of the machine wait for memory."""

VIEW_SECONDS = 5.0
"""Seconds in which surfaces show the amounts of one look while the kernel takes no memory."""

NO_KERNEL_LOG = "cannot read the kernel log: of OOM kills only the first process is known"


class MemoryPolicy(Protocol):
    """Reads samples and may act on them: the guard, the eviction under pressure."""

    def consider(self, samples: Mapping[str, MemorySample], node: NodeMemory, now: float) -> None:
        """Act on the samples of this sync, by path: of woken cgroups and of watched ones. ``now``
        is monotonic seconds."""

    def watching(self) -> frozenset[str]:
        """Cgroups to sample every ``WATCH_POLL_SECONDS``."""

    def next_at(self) -> float | None:
        """When to call ``consider`` at the latest, in monotonic seconds."""

    def rows(self) -> Sequence[WatchRow]:
        """The state of watched cgroups, for surfaces."""

    def urgent(self) -> bool:
        """Whether somebody may stand still until the next ``consider``."""


MemoryPlug = Callable[[SyncContext, TrackedCgroups, MemoryParts], MemoryPolicy]

POLICIES: tuple[MemoryPlug, ...] = (
    Guard,
    lambda context, groups, parts: PressureEviction(context, groups, parts),
)
"""Plug point: who watches, in the order in which they are told. Each is made once."""


class MemoryMonitor:
    """One for each reconciler. Does nothing without ``parts``; ``plugs`` are the policies instead of
    ``POLICIES``."""

    def __init__(
        self,
        context: SyncContext,
        parts: MemoryParts | None,
        plugs: Sequence[MemoryPlug] | None = None,
    ) -> None:
        self._context = context
        self._parts = parts
        self.groups = TrackedCgroups(context)
        plugs = POLICIES if plugs is None else plugs
        self.policies = [plug(context, self.groups, parts) for plug in plugs] if parts else []
        self._accounting = MemoryAccounting(context, parts, self.groups) if parts else None
        self._near_limit: frozenset[str] = frozenset()
        self._next_read: float | None = None
        self._node: NodeMemory | None = None
        self._read_at = 0.0
        self._viewed_at = 0.0
        self._woken = False
        self._all_at = float("-inf")
        self._touched: set[str] = set()
        self.urgent = False
        """Whether somebody may stand still until the next sync."""

    def sync(self, *, whole: bool = False) -> None:
        """Sample woken and watched cgroups and run the policies."""
        if self._parts is None or self._accounting is None:
            return
        now = self._context.now
        self._touched |= self._context.work_queue
        self._woken = False
        wanted = self._cgroups_to_read(now, whole)
        if wanted or self._due(now):
            node = self._node_at(now)
            samples = self._sample(wanted)
            # what the machine has may be unread: nothing is decided by that
            for policy in self.policies if node.total else ():
                policy.consider(samples, node, now)
            self._update_near_limit(wanted, samples)
        self._schedule(now)
        self._accounting.resolve_kills()
        self._accounting.save()
        self.urgent = any(policy.urgent() for policy in self.policies)
        self.hurry(self.urgent)

    def hurry(self, first: bool) -> None:
        """Go before others, if somebody may have to be helped: from the end of a sync until memory was
        looked at in the next one, and all else observed, where that is due: its share of the time is
        bounded. What a sync changes has no hurry, unless somebody may stand still meanwhile."""
        if self._parts is not None:
            acts = self._context.config.guard == "act" or bool(self.groups.guarded_pods)
            self._parts.hurry(first and acts)

    def update_tracking(self, *, whole: bool = False) -> None:
        """At the end of a sync: track the cgroups of pods that it touched, or of all."""
        if self._parts is None or self._accounting is None:
            return
        touched = self._touched | self._context.work_queue
        self._touched = set()
        moved = self.groups.update(None if whole else touched)
        self._accounting.update_tracking(moved)
        self._parts.watch.drop([one.path for one in moved.removed])
        # a group may have been made anew under its path
        again = [one.path for uid in touched for one in self.groups.of_pod(uid)]
        come = [one.path for one in moved.added]
        self._parts.watch.follow(self.groups.groups if whole else {*again, *come})
        # of groups that others may have made, what happened before is no news
        above = frozenset(one.path for one in moved.added if not one.uid)
        self.groups.first.update(self._sample(above))
        self.hurry(True)

    def _cgroups_to_read(self, now: float, whole: bool) -> frozenset[str]:
        """The cgroups to sample in this sync."""
        assert self._parts is not None
        held = self._next_read is not None and now < self._next_read
        if held and not self._context.work_queue and not whole:
            return frozenset()
        woken = self._parts.watch.woken()
        self._woken = bool(woken)
        if (whole and self._missed(now)) or ("" in woken and self._all_due(now)):
            return frozenset(self.groups.groups)
        woken = (woken - {""}) | self._leaving()
        if whole and self._accounting is not None:
            woken |= self._accounting.store.under_pressure()
        if held:
            return woken
        return woken.union(self._near_limit, *(policy.watching() for policy in self.policies))

    def _all_due(self, now: float) -> bool:
        """Whether to sample all cgroups now because something happened to the machine. Where the kernel
        reclaims for limits only, those who wait there tell that by themselves, and the machine may
        wait as long as one of them does: now and then is enough."""
        if not self._missed(now) and now - self._all_at < ALL_POLL_SECONDS:
            return False
        self._all_at = now
        return True

    def _leaving(self) -> frozenset[str]:
        """The cgroups that may be removed in this sync: this may be the last sample. While a
        container of a pod that ends runs, they stay."""
        context = self._context
        over = [context.workers[uid] for uid in context.work_queue if uid in context.workers]
        return frozenset(
            group.path
            for worker in over
            if not worker.cleanup_done
            and (
                worker.phase in (WorkerPhase.TERMINATED, WorkerPhase.CLEANING_UP)
                or (worker.phase is WorkerPhase.TERMINATING and context.may_have_ended(worker.uid))
            )
            for group in worker.placed_cgroups
            if group.path is not None
        )

    def _missed(self, now: float) -> bool:
        """Whether events may have happened that wake nobody: the kernel has reclaimed since the
        last sync, or the watch is incomplete."""
        assert self._parts is not None
        before, node = self._node, self._node_at(now)
        if before is None or node.stolen is None or not self._parts.watch.complete:
            return True
        return node.stolen != before.stolen

    def _node_at(self, now: float) -> NodeMemory:
        """The node's memory, read once in a sync."""
        assert self._parts is not None
        if self._node is None or self._read_at != now:
            self._node, self._read_at = self._parts.reader.node(), now
        return self._node

    def _sample(self, wanted: frozenset[str]) -> dict[str, MemorySample]:
        """Sample cgroups and count what happened."""
        assert self._parts is not None
        assert self._accounting is not None
        samples = {}
        for path in sorted(wanted & self.groups.groups.keys()):
            sample = self._parts.reader.sample(path)
            if sample is not None:
                samples[path] = sample
            elif not self._is_there(path):
                self._accounting.record_absent(path)
        self._accounting.record(samples)
        return samples

    def _is_there(self, path: str) -> bool:
        """Whether a cgroup that could not be sampled exists and counts memory: it would be counted
        from zero next time."""
        seen = self._context.executor.observer.read_cgroup(path)
        return seen is not None and seen.memory is not None

    def _update_near_limit(
        self, wanted: frozenset[str], samples: Mapping[str, MemorySample]
    ) -> None:
        """Keep the cgroups that are at a limit; drop those that are gone."""
        at_limit = {path for path, one in samples.items() if _at_limit(one)}
        self._near_limit = (
            frozenset(at_limit | (self._near_limit - wanted)) & self.groups.groups.keys()
        )

    def _schedule(self, now: float) -> None:
        """Set the time of the next samples."""
        if self._next_read is not None and now < self._next_read:
            return
        closer = any(policy.watching() for policy in self.policies)
        # a group that was woken is left alone for a moment: it may be woken without end
        busy = self._woken or self._near_limit or closer
        self._next_read = (
            now + (WATCH_POLL_SECONDS if closer else LIMIT_POLL_SECONDS) if busy else None
        )

    def _due(self, now: float) -> bool:
        """Whether a policy is due."""
        times = [policy.next_at() for policy in self.policies]
        return any(at is not None and now >= at for at in times)

    def descriptors(self) -> Sequence[int]:
        """Become readable when the kernel reports an event. None while samples are due soon anyway,
        so that a throttled cgroup does not wake the agent a hundred times a second."""
        if self._parts is None or self._next_read is not None:
            return ()
        return self._parts.watch.descriptors()

    def next_at(self) -> float | None:
        """The monotonic time of the next samples."""
        times = [self._next_read, *(policy.next_at() for policy in self.policies)]
        if self._accounting is not None:
            times.append(self._accounting.next_at())
        return min((one for one in times if one is not None), default=None)

    @property
    def guard_report(self) -> GuardReport:
        """What the guard did so far; reads nothing."""
        guards = (one for one in self.policies if isinstance(one, Guard))
        return next((one.report() for one in guards), NO_GUARD_REPORT)

    def view(self) -> MemoryView:
        """The current state for surfaces. Samples all cgroups if memory was reclaimed since or the
        last view is too old, and always those without a sample."""
        if self._parts is None or self._accounting is None:
            return MemoryView()
        now = self._context.now
        if self._missed(now) or now - self._viewed_at >= VIEW_SECONDS:
            self._viewed_at = now
            self._sample(frozenset(self.groups.groups))
        else:
            self._sample(self._accounting.unread())
        return MemoryView(
            groups=tuple(self._accounting.rows()),
            events=tuple(self._accounting.store.events),
            node=self._node,
            watched=tuple(row for policy in self.policies for row in policy.rows()),
            guard=self.guard_report,
            pressure=next(
                (w.report() for w in self.policies if isinstance(w, PressureEviction)),
                NO_PRESSURE_REPORT,
            ),
            how=(*self._parts.watch.how, *(() if self._parts.log.readable else (NO_KERNEL_LOG,))),
            page=self._context.node.host.page_size,
        )

    def close(self) -> None:
        """Store the counters for the next agent."""
        self.hurry(False)
        if self._accounting is not None:
            self._accounting.save(now=True)


def _at_limit(sample: MemorySample) -> bool:
    """Whether a cgroup is at its ``memory.high`` or waits for memory."""
    if sample.high is not None and sample.current >= sample.high < UNLIMITED:
        return True
    return sample.pressure is not None and sample.pressure.full_avg10 >= 1.0
