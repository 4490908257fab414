"""Watches groups at their memory.high closely, and answers a stall there.

A group is watched from when it comes near until it is calm, and now and then while its memory.high
is another one than planned; all others cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.memory.guard_actions import HIGH, KILL_GRACE_SECONDS, ContainerKills, GuardActions
from qoslet.agent.memory.tracked_cgroups import TrackedCgroups
from qoslet.agent.ports import MemoryParts
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.memory.rows import TrackedCgroup, WatchRow
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure import throttle_guard, throttle_stall
from qoslet.core.pressure.guard_decision import GuardDecision, StallSituation, decide
from qoslet.core.pressure.guard_report import GuardReport, GuardRow
from qoslet.core.pressure.throttle_guard import HighOverride, Mode
from qoslet.core.resources.cgroup_tree import Cgroup

CALM_SECONDS = 5.0
"""Seconds for which a group has to be calm to be left."""
RAISED_POLL_SECONDS = 2.0
"""Seconds between two looks at one that is calm and held."""
MAX_DECISIONS = 50
"""Decisions that are remembered."""
RECLAIM_SECONDS = 1.0
"""Seconds for which a reclaim is waited for."""
KILL_SECONDS = KILL_GRACE_SECONDS + 1.0
"""Seconds for which the memory of a container that was ended is waited for."""


class WatchedCgroup(Struct):
    """A group that is watched. ``logged`` is what was said last, and when; nothing is done before
    ``blocked_until``; ``queued_since``: since when it waits for another one's reclaim."""

    cgroup: TrackedCgroup
    planned: int
    tracker: throttle_stall.StallTracker = throttle_stall.StallTracker()
    calm_since: float | None = None
    logged: tuple[str, float] = ("", 0.0)
    blocked_until: float = 0.0
    queued_since: float | None = None
    read_at: float = 0.0


class Guard:
    """One for each wheel; an ``agent.memory.Watcher``."""

    def __init__(
        self,
        context: SyncContext,
        groups: TrackedCgroups,
        parts: MemoryParts,
        *,
        tuning: throttle_stall.StallTuning = throttle_stall.STALL_TUNING,
        policy: throttle_guard.GuardPolicy = throttle_guard.GUARD_POLICY,
    ) -> None:
        self._context = context
        self._groups = groups
        self._cold = parts.reclaim
        self._tuning = tuning
        self._policy = policy
        self._holding = GuardActions(context)
        self._reader = parts.reader
        self._ends = ContainerKills(context)
        self._ended: tuple[str, float] = ("", 0.0)
        self._close: dict[str, WatchedCgroup] = {}
        self._rows: deque[GuardRow] = deque(maxlen=MAX_DECISIONS)
        self._counts: dict[str, int] = {}

    def consider(self, samples: Mapping[str, MemorySample], node: NodeMemory, now: float) -> None:
        """Look at those that are at their memory.high or were; answer those that are stalled."""
        self._ends.kill_overdue()
        for path in sorted(samples, key=lambda path: (self._since(path), path)):
            if path in self._close or throttle_stall.is_near(samples[path], self._tuning):
                self._look(path, samples[path], node, now)
        for path in self._close.keys() - self._groups.groups.keys():
            self._forget(path)

    def watching(self) -> frozenset[str]:
        """The groups to look at; those that are calm and held now and then only."""
        now = self._context.now
        return frozenset(path for path, one in self._close.items() if self._due(one) <= now)

    def next_at(self) -> float | None:
        """When there is something to do, in monotonic seconds."""
        times = [self._due(one) for one in self._close.values() if one.calm_since is not None]
        ends = self._ends.next_at()
        return min([*times, *([] if ends is None else [ends])], default=None)

    def rows(self) -> Sequence[WatchRow]:
        """How the groups are that are watched."""
        return [
            WatchRow(path, "guard", one.tracker.verdict.state, one.tracker.verdict.because)
            for path, one in sorted(self._close.items())
        ]

    def report(self) -> GuardReport:
        """What was decided and what is held."""
        return GuardReport(tuple(self._rows), tuple(self._holding.rows()), dict(self._counts))

    def _due(self, one: WatchedCgroup) -> float:
        """When to look at a group again."""
        now = self._context.now
        if one.calm_since is None or now - one.calm_since < CALM_SECONDS:
            return one.read_at
        return one.read_at + RAISED_POLL_SECONDS

    def _since(self, path: str) -> float:
        """Since when a group is stalled; who has been for longest is answered first."""
        one = self._close.get(path)
        if one is None or one.tracker.verdict.state != "stalled":
            return float("inf")
        return one.tracker.verdict.since

    def _look(self, path: str, sample: MemorySample, node: NodeMemory, now: float) -> None:
        """One look at a group."""
        group = self._groups.groups.get(path)
        worker = self._context.workers.get(group.uid) if group is not None else None
        planned = self._planned(path, worker)
        if group is None or planned is None or self._mode(worker) == "off":
            self._forget(path)
            return
        one = self._close.setdefault(path, WatchedCgroup(group, planned))
        one.cgroup, one.planned, one.read_at = group, planned, now
        room = throttle_stall.swap_headroom(sample, node.swap_free)
        one.tracker = throttle_stall.track_sample(one.tracker, sample, room, self._tuning)
        self._hold(path, one, sample, room)
        state = one.tracker.verdict.state
        if state == "stalled" and now >= one.blocked_until:
            self._answer(path, one, sample, node)
        if state != "stalled":
            one.queued_since = None
        if state != "calm":
            one.calm_since = None
        elif one.calm_since is None:
            one.calm_since = now
        elif now - one.calm_since >= CALM_SECONDS and path not in self._holding.overrides:
            self._forget(path)

    def _hold(self, path: str, one: WatchedCgroup, sample: MemorySample, room: int) -> None:
        """A held group after a look at it: what is planned comes back when it is time."""
        hold = self._holding.overrides.get(path)
        if hold is None:
            return
        if hold.identity != sample.identity or (hold.raised and one.planned >= hold.value):
            self._holding.drop(path)
            return
        hold = throttle_guard.with_fit(
            replace(hold, planned=one.planned), sample, room, self._policy
        )
        self._holding.overrides[path] = hold
        if not hold.raised:
            if sample.at - hold.changed_at > self._policy.forget_seconds:
                self._holding.drop(path)
        elif throttle_guard.may_restore(hold, sample.at, self._policy):
            because = f"it has fitted for {throttle_guard.raised_seconds(hold, self._policy):.0f} s"
            error = self._holding.restore_high(path, because)
            if not (error and self._is_said(one, f"restore{error}")):
                self._tell(one, GuardDecision("restore", because, hold.planned), error, "act")

    def _answer(
        self, path: str, one: WatchedCgroup, sample: MemorySample, node: NodeMemory
    ) -> None:
        """Answer a stall, or say what would be done."""
        now, mode = self._context.now, self._mode(self._context.workers.get(one.cgroup.uid))
        situation = self._situation(one, sample, node, mode)
        found = decide(situation, self._policy)
        one.queued_since = (
            (now if one.queued_since is None else one.queued_since) if found.queued else None
        )
        decision = found.decision
        if decision is None:
            return
        if (mode != "act" or decision.answer == "none") and self._is_said(one, decision.answer):
            return
        error = ""
        if mode == "act":
            error = self._do(path, one, situation.override, decision, found.lowered)
        if error:
            one.blocked_until = now + RECLAIM_SECONDS
        if not (error and self._is_said(one, f"{decision.answer}{error}")):
            self._tell(one, decision, error, mode)

    def _situation(
        self, one: WatchedCgroup, sample: MemorySample, node: NodeMemory, mode: Mode
    ) -> StallSituation:
        """Everything that the decision needs: groups whose memory.high is raised are looked at
        afresh, with all above them."""
        now, path = self._context.now, one.cgroup.path
        above = self._groups.above(path)
        reclaim: Literal["idle", "busy", "absent"] = "idle"
        if self._cold is None:
            reclaim = "absent"
        elif mode == "act" and self._cold.busy:
            reclaim = "busy"
        return StallSituation(
            path=path,
            pod=next((row.path for row in (*above, one.cgroup) if row.uid), ""),
            verdict=one.tracker.verdict,
            override=self._holding.override_for(path, one.planned, sample.identity),
            node=node,
            samples=self._samples(sample),
            overrides=dict(self._holding.overrides),
            reclaim=reclaim,
            queued=0.0 if one.queued_since is None else now - one.queued_since,
            killed=self._ended[0] if mode == "act" and now < self._ended[1] else "",
        )

    def _samples(self, sample: MemorySample) -> dict[str, MemorySample]:
        """The stalled group as it was just seen, and afresh the raised ones and all above."""
        raised = [path for path, hold in self._holding.overrides.items() if hold.raised]
        paths = {one.path for path in (sample.path, *raised) for one in self._groups.above(path)}
        samples = {sample.path: sample}
        for path in paths.union(raised) - {sample.path}:
            seen = self._reader.sample(path)
            if seen is not None:
                samples[path] = seen
        return samples

    def _do(
        self,
        path: str,
        one: WatchedCgroup,
        hold: HighOverride,
        decision: GuardDecision,
        lower: Mapping[str, int],
    ) -> str:
        """Carry a decision out; what went wrong."""
        now = self._context.now
        for other, value in lower.items():
            error = self._lower(other, value, one)
            if error:
                return error
        match decision.answer:
            case "reclaim":
                assert self._cold is not None
                self._holding.overrides[path] = replace(hold, reclaimed=True, changed_at=now)
                one.blocked_until = now + RECLAIM_SECONDS
                return self._cold.begin(path, decision.value)
            case "raise" | "limit":
                return self._holding.raise_high(path, hold, decision.value, decision.because)
            case "end":
                one.blocked_until = now + 2 * KILL_GRACE_SECONDS
                one.tracker = throttle_stall.StallTracker(verdict=one.tracker.verdict)
                worker = self._context.workers[one.cgroup.uid]
                error = self._ends.kill(worker, path, decision.because)
                if not error:
                    self._ended = (one.cgroup.title, now + KILL_SECONDS)
                return error
            case _:
                return ""

    def _lower(self, path: str, value: int, needs: WatchedCgroup) -> str:
        """Take back what a group was given and does not use; what went wrong."""
        hold, one = self._holding.overrides[path], self._close.get(path)
        because = f"to {throttle_stall.mib(value)}, {needs.cgroup.title} needs what it does not use"
        error = self._holding.raise_high(path, hold, value, because)
        if not error:
            self._holding.overrides[path] = replace(hold, value=value)
        if one is not None:
            self._tell(one, GuardDecision("lower", because, value), error, "act")
        return error

    def _is_said(self, one: WatchedCgroup, key: str) -> bool:
        """Whether an answer, with what went wrong, was said of a group a short while ago."""
        said, at = one.logged
        return said == key and self._context.now - at < self._policy.log_repeat_seconds

    def _mode(self, worker: PodWorker | None) -> Mode:
        """The pod's own word, or the node's."""
        default = self._context.config.guard
        if worker is None or worker.pod is None:
            return default
        return worker.pod.memory.guard or default

    def _planned(self, path: str, worker: PodWorker | None) -> int | None:
        """The memory.high that is planned for a group; None where there is none, or it is not
        ours."""
        context = self._context
        for group in context.plan.upper() if worker is None else worker.groups:
            if group.path == path and context.executor.is_below_root(path):
                return planned_high(group)
        return None

    def _tell(self, one: WatchedCgroup, decision: GuardDecision, error: str, mode: Mode) -> None:
        """One line, one row, one count."""
        context = self._context
        signs = one.tracker.verdict.signals if decision.answer not in ("lower", "restore") else None
        one.logged = (f"{decision.answer}{error}", context.now)
        row = GuardRow(
            at=context.clock.wall(),
            path=one.cgroup.path,
            pod=one.cgroup.pod,
            container=one.cgroup.container,
            mode=mode,
            answer=decision.answer,
            value=decision.value,
            because=decision.because,
            numbers="" if signs is None else signs.describe(),
            error=error,
        )
        self._rows.append(row)
        key = f"{mode}/{decision.answer}"
        self._counts[key] = self._counts.get(key, 0) + 1
        context.log.notes.append(f"guard: {row.describe()}")

    def _forget(self, path: str) -> None:
        """A group is watched no more."""
        self._close.pop(path, None)
        self._holding.drop(path)


def planned_high(group: Cgroup) -> int | None:
    """The memory.high that is planned for a group in bytes; None where there is none."""
    for row in group.settings:
        if row.file == HIGH and row.applied.isdecimal():
            return int(row.applied)
    return None
