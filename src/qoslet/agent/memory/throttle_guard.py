"""Watches cgroups at their memory.high, and acts on stalls there.

A cgroup is watched from when it comes near until it is calm, and now and then while its memory.high
is overridden; all others cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from qoslet.agent.memory.evictor import being_evicted
from qoslet.agent.memory.guard_actions import (
    HIGH,
    KILL_GRACE_SECONDS,
    ContainerKills,
    GuardActions,
)
from qoslet.agent.memory.tracked_cgroups import TrackedCgroups
from qoslet.agent.memory.watched_cgroup import WatchedCgroup
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.memory.rows import WatchRow
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.plan.totals import bytes_of
from qoslet.core.pressure import throttle_guard, throttle_stall
from qoslet.core.pressure.guard_decision import GuardDecision, StallSituation, decide, probe_bytes
from qoslet.core.pressure.guard_mode import Mode, WayToEnd
from qoslet.core.pressure.guard_report import GuardReport, GuardRow
from qoslet.core.pressure.stall_signs import mib
from qoslet.core.pressure.throttle_guard import HighOverride

CALM_SECONDS = 5.0
"""Seconds for which a group has to be calm to be left."""
POLL_SECONDS = 0.5
"""Seconds between two looks at a watched group."""
RAISED_POLL_SECONDS = 2.0
"""Seconds between two looks at one that is calm and held."""
MAX_DECISIONS = 50
"""Decisions that are remembered."""
RECLAIM_SECONDS = 1.0
"""Seconds for which a reclaim is waited for."""
KILL_SECONDS = KILL_GRACE_SECONDS + 1.0
"""Seconds for which the memory of a container that was ended is waited for."""


class Guard:
    """The guard of memory.high; a ``MemoryPolicy``. ``way`` says how a container of a pod is ended."""

    def __init__(
        self,
        context: SyncContext,
        groups: TrackedCgroups,
        parts: MemoryParts,
        *,
        way: Callable[[PodWorker], WayToEnd] = lambda worker: ("end", ""),
    ) -> None:
        self._context = context
        self._way = way
        self._cgroups = groups
        self._reclaim = parts.reclaim
        self._actions = GuardActions(context)
        self._reader = parts.reader
        self._kills = ContainerKills(context)
        self._last_kill: tuple[str, float] = ("", 0.0)
        self._seen: dict[str, MemorySample] = {}
        self._watched: dict[str, WatchedCgroup] = {}
        self._rows: deque[GuardRow] = deque(maxlen=MAX_DECISIONS)
        self._counts: dict[str, int] = {}

    def consider(self, samples: Mapping[str, MemorySample], node: NodeMemory, now: float) -> None:
        """Track cgroups at their memory.high, and decide about those that are stalled."""
        self._kills.kill_overdue()
        self._seen = dict(samples)
        for path in sorted(samples, key=lambda path: (self._stalled_since(path), path)):
            if path in self._watched or throttle_stall.is_near(samples[path]):
                self._update(path, samples[path], node, now)
        for path in [path for path in self._watched if self._is_gone(path, now)]:
            self._forget(path)
        workers = self._context.workers
        self._context.memory_wanted = {
            watched.cgroup.uid: watched.wanted
            for watched in self._watched.values()
            if watched.short_since is not None and watched.wanted and watched.cgroup.uid in workers
        }

    def watching(self) -> frozenset[str]:
        """The watched cgroups that are due; calm ones with an override only now and then."""
        now = self._context.now
        return frozenset(
            path for path, watched in self._watched.items() if self._next_read(watched) <= now
        )

    def next_at(self) -> float | None:
        """When the next watched cgroup or kill is due, in monotonic seconds."""
        times = [
            max(self._next_read(watched), watched.read_at + POLL_SECONDS)
            for watched in self._watched.values()
            if watched.calm_since is not None
        ]
        ends = self._kills.next_at()
        return min([*times, *([] if ends is None else [ends])], default=None)

    def rows(self) -> Sequence[WatchRow]:
        """The state of each watched cgroup."""
        return [
            WatchRow(path, "guard", verdict.state, verdict.because, self._not_freed(verdict))
            for path, watched in sorted(self._watched.items())
            for verdict in (watched.tracker.verdict,)
        ]

    def urgent(self) -> bool:
        """Whether a cgroup that may be acted on may stand still until the next ``consider``."""
        return any(watched.urgent(self._context.now) for watched in self._watched.values())

    def _is_gone(self, path: str, now: float) -> bool:
        """Whether a watched cgroup is not tracked, or not there: a container's goes before its pod."""
        if path not in self._cgroups.groups:
            return True
        unread = path not in self._seen and now - self._watched[path].read_at >= POLL_SECONDS
        return unread and path in self.watching() and self._reader.sample(path) is None

    def _not_freed(self, verdict: throttle_stall.StallVerdict) -> float | None:
        """Seconds for which reclaim has freed nothing of a cgroup that asks for memory."""
        return None if verdict.state == "calm" else max(0.0, self._context.now - verdict.freed_at)

    def report(self) -> GuardReport:
        """The decisions so far and the overrides in force."""
        return GuardReport(tuple(self._rows), tuple(self._actions.rows()), dict(self._counts))

    def _next_read(self, watched: WatchedCgroup) -> float:
        """When to sample a cgroup again."""
        now = self._context.now
        if watched.calm_since is None or now - watched.calm_since < CALM_SECONDS:
            return watched.read_at
        return watched.read_at + RAISED_POLL_SECONDS

    def _stalled_since(self, path: str) -> float:
        """Since when a cgroup is stalled: the longest stall is answered first."""
        watched = self._watched.get(path)
        if watched is None or watched.tracker.verdict.state != "stalled":
            return float("inf")
        return watched.tracker.verdict.since

    def _update(self, path: str, sample: MemorySample, node: NodeMemory, now: float) -> None:
        """Take in one sample of a cgroup."""
        group = self._cgroups.groups.get(path)
        worker = self._context.workers.get(group.uid) if group is not None else None
        planned = self._planned(path, worker)
        if group is None or planned is None or self._mode(worker) == "off":
            self._forget(path)
            return
        watched = self._watched.setdefault(path, WatchedCgroup(group, planned, now))
        watched.cgroup, watched.planned, watched.read_at = group, planned, now
        watched.acts = self._mode(worker) == "act"
        room = throttle_stall.swap_headroom(sample, node.swap_free)
        watched.tracker = throttle_stall.track_sample(
            watched.tracker, sample, room, refused=self._refused(path, watched)
        )
        self._check_override(path, watched, sample, room)
        verdict = watched.tracker.verdict
        state, certain = verdict.state, verdict.in_vain or self._refused(path, watched)
        if state == "stalled" and (now >= watched.blocked_until or certain):
            self._answer(path, watched, sample, node)
        if state != "stalled":
            watched.queued_since = watched.short_since = None
            if not watched.tracker.ask:
                watched.asked_at = None
            elif watched.acts:
                self._ask(path, watched)
        if state != "calm":
            watched.calm_since = None
        elif watched.calm_since is None:
            watched.calm_since = now
        elif now - watched.calm_since >= CALM_SECONDS and path not in self._actions.overrides:
            self._forget(path)

    def _ask(self, path: str, watched: WatchedCgroup) -> None:
        """At the first sample without progress, ask the kernel for a little: if it can free nothing,
        the next sample decides. That is no decision yet, and not logged."""
        signs = watched.tracker.verdict.signals
        if self._reclaim is None or self._reclaim.busy or watched.asked_at is not None:
            return
        amount = 0 if signs is None else probe_bytes(signs)
        if amount and not self._reclaim.begin(path, amount):
            watched.asked_at = self._context.now
            watched.blocked_until = watched.asked_at + RECLAIM_SECONDS

    def _refused(self, path: str, watched: WatchedCgroup) -> bool:
        """Whether the kernel was asked to reclaim from the cgroup and could free nothing."""
        asked = watched.asked_at is not None and self._reclaim is not None
        return asked and self._reclaim is not None and self._reclaim.refused(path)

    def _check_override(
        self, path: str, watched: WatchedCgroup, sample: MemorySample, room: int
    ) -> None:
        """Restore the planned memory.high once the cgroup fits below it."""
        override = self._actions.overrides.get(path)
        if override is None:
            return
        if override.identity != sample.identity or (
            override.raised and watched.planned >= override.value
        ):
            self._actions.drop(path)
            return
        override = throttle_guard.with_fit(replace(override, planned=watched.planned), sample, room)
        self._actions.overrides[path] = override
        if not override.raised:
            if sample.at - override.changed_at > throttle_guard.GUARD_POLICY.forget_seconds:
                self._actions.drop(path)
        elif throttle_guard.may_restore(override, sample.at):
            since = override.fits_since or override.close_since or sample.at
            because = f"usage below memory.high for {sample.at - since:.0f} s"
            error = self._actions.restore_high(path, because)
            self._record(watched, GuardDecision("restore", because, override.planned), error, "act")

    def _answer(
        self, path: str, watched: WatchedCgroup, sample: MemorySample, node: NodeMemory
    ) -> None:
        """Decide about a stall, and act or log what would be done."""
        now, mode = self._context.now, self._mode(self._context.workers.get(watched.cgroup.uid))
        situation = self._situation(watched, sample, node, mode)
        found = decide(situation)
        watched.wait(now, queued=found.queued, no_memory=found.no_memory)
        watched.wanted = found.wanted if mode == "act" else 0
        decision = self._permitted(found.decision, watched)
        if decision is None:
            return
        error = ""
        if mode == "act":
            error = self._act(path, watched, situation.override, decision, found.lowered)
        if error:
            watched.blocked_until = now + RECLAIM_SECONDS
        self._record(watched, decision, error, mode)

    def _permitted(
        self, decision: GuardDecision | None, watched: WatchedCgroup
    ) -> GuardDecision | None:
        """The decision; another one where it would kill what is not killed, or is evicted."""
        if decision is None or decision.answer != "end":
            return decision
        way, why = self._way(self._context.workers[watched.cgroup.uid])
        because = f"{decision.because}; {why}" if why else decision.because
        return GuardDecision(way, because, decision.value)

    def _situation(
        self, watched: WatchedCgroup, sample: MemorySample, node: NodeMemory, mode: Mode
    ) -> StallSituation:
        """Gather everything that the decision needs."""
        now, path = self._context.now, watched.cgroup.path
        above = self._cgroups.above(path)
        reclaim: Literal["idle", "busy", "absent"] = "idle"
        if self._reclaim is None:
            reclaim = "absent"
        elif mode == "act" and self._reclaim.busy:
            reclaim = "busy"
        return StallSituation(
            path=path,
            pod=next((row.path for row in (*above, watched.cgroup) if row.uid), ""),
            verdict=watched.tracker.verdict,
            override=self._actions.override_for(path, watched.planned, sample.identity),
            node=node,
            samples=self._samples(sample),
            overrides=dict(self._actions.overrides),
            reclaim=reclaim,
            queued=0.0 if watched.queued_since is None else now - watched.queued_since,
            killed=self._last_kill[0] if mode == "act" and now < self._last_kill[1] else "",
            refused=self._refused(path, watched),
            asked=watched.asked_at is not None and now - watched.asked_at >= RECLAIM_SECONDS,
            short_for=0.0 if watched.short_since is None else now - watched.short_since,
            evicted="" if watched.short_since is None else being_evicted(self._context),
        )

    def _samples(self, sample: MemorySample) -> dict[str, MemorySample]:
        """Samples of the raised cgroups and of all above, each read once in a sync; the stalled one
        as it was just sampled."""
        raised = [path for path, override in self._actions.overrides.items() if override.raised]
        paths = {
            watched.path for path in (sample.path, *raised) for watched in self._cgroups.above(path)
        }
        samples = {sample.path: sample}
        for path in paths.union(raised) - {sample.path}:
            seen = self._seen.get(path) or self._reader.sample(path)
            if seen is not None:
                samples[path] = self._seen[path] = seen
        return samples

    def _act(
        self,
        path: str,
        watched: WatchedCgroup,
        override: HighOverride,
        decision: GuardDecision,
        lowered: Mapping[str, int],
    ) -> str:
        """Carry a decision out. Returns the error, empty if none."""
        now = self._context.now
        for other, value in lowered.items():
            error = self._lower(other, value, watched)
            if error:
                return error
        match decision.answer:
            case "reclaim":
                assert self._reclaim is not None
                self._actions.overrides[path] = replace(override, reclaimed=True, changed_at=now)
                watched.blocked_until, watched.asked_at = now + RECLAIM_SECONDS, now
                return self._reclaim.begin(path, decision.value)
            case "raise" | "limit":
                watched.asked_at = None
                override = replace(override, doubted=watched.tracker.verdict.doubtful)
                return self._actions.raise_high(path, override, decision.value, decision.because)
            case "end" | "evict":
                watched.blocked_until = now + 2 * KILL_GRACE_SECONDS
                watched.tracker = throttle_stall.StallTracker(verdict=watched.tracker.verdict)
                worker = self._context.workers[watched.cgroup.uid]
                error = self._kills.kill(worker, path, decision.because)
                if not error and decision.answer == "end":
                    self._last_kill = (watched.cgroup.title, now + KILL_SECONDS)
                return error
            case _:
                return ""

    def _lower(self, path: str, value: int, needs: WatchedCgroup) -> str:
        """Take back what a cgroup was given and does not use. Returns the error, empty if none."""
        override, watched = self._actions.overrides[path], self._watched.get(path)
        because = f"to {mib(value)}, {needs.cgroup.title} needs the memory that it does not use"
        error = self._actions.raise_high(path, override, value, because)
        if not error:
            self._actions.overrides[path] = replace(override, value=value)
        if watched is not None:
            self._record(watched, GuardDecision("lower", because, value), error, "act")
        return error

    def _mode(self, worker: PodWorker | None) -> Mode:
        """The guard mode of a pod, else of the node."""
        default = self._context.config.guard
        if worker is None or worker.pod is None:
            return default
        return worker.pod.memory.guard or default

    def _planned(self, path: str, worker: PodWorker | None) -> int | None:
        """The planned memory.high of a cgroup; None if there is none or the cgroup is not below the
        root."""
        context = self._context
        for group in context.plan.upper() if worker is None else worker.placed_cgroups:
            if group.path == path and context.executor.ownership.contains(path):
                return bytes_of(group.settings, HIGH)
        return None

    def _record(
        self, watched: WatchedCgroup, decision: GuardDecision, error: str, mode: Mode
    ) -> None:
        """Keep, count and log a decision; one that changes nothing only if it is news."""
        context, changes = self._context, mode == "act" and not error and decision.answer != "none"
        said = watched.said.after(decision.key + error, context.now, changes=changes)
        if said is None:
            return
        watched.said = said
        signs = (
            watched.tracker.verdict.signals if decision.answer not in ("lower", "restore") else None
        )
        row = GuardRow(
            at=context.clock.wall(),
            path=watched.cgroup.path,
            pod=watched.cgroup.pod,
            container=watched.cgroup.container,
            mode=mode,
            answer=decision.answer,
            value=decision.value,
            because=decision.because,
            numbers="" if signs is None else signs.describe(),
            error=error,
        )
        self._rows.append(row)
        counted = f"{mode}/{decision.answer}"
        self._counts[counted] = self._counts.get(counted, 0) + 1
        context.log.notes.append(f"guard: {row.describe()}")

    def _forget(self, path: str) -> None:
        """Stop watching a cgroup."""
        self._watched.pop(path, None)
        self._actions.drop(path)
        if self._reclaim is not None:
            self._reclaim.forget(path)
