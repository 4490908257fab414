"""Evicts pods if memory is short: on the node, below a QoS cgroup at its limit, or in a stuck pod.

Cgroups are sampled only while tasks wait for memory; the node is, the more often the less memory is
available. One pod is evicted at a time; what that freed is measured before the next decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from qoslet.agent.memory.eviction_candidates import (
    came_back,
    candidate_of,
    is_below_cgroup,
    is_sampled,
    largest_since,
    nears_limit,
    swap_room,
    with_fillers,
)
from qoslet.agent.memory.evictor import Evictor
from qoslet.agent.memory.memory_history import FRESH_SECONDS, MemoryHistory
from qoslet.agent.memory.tracked_cgroups import TrackedCgroups
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.api.memory_annotations import GuardMode
from qoslet.core.memory.breakdown import surviving_bytes
from qoslet.core.memory.effective_protection import (
    EffectiveMemory,
)
from qoslet.core.memory.rows import WatchRow
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.node.node import eviction_reservation
from qoslet.core.pressure.eviction_ranking import (
    Candidate,
    EvictionChoice,
    EvictionReason,
    PressureReport,
    PressureRow,
    choose_victim,
)
from qoslet.core.pressure.fill_forecast import FillForecast, fill_forecast, filling_state, growing
from qoslet.core.pressure.limit_pressure import (
    STUCK_SECONDS,
    class_state,
    killed_state,
    stuck_state,
    waits_at_own_limits,
)
from qoslet.core.pressure.node_pressure import (
    PRESSURE_THRESHOLDS,
    PressureState,
    PressureThresholds,
    is_uneasy,
    node_state,
    spare_bytes,
    wanted_state,
)
from qoslet.core.quantity import ZERO

CLOSE_WATCH_SECONDS = 3.0
"""Seconds for which it is looked closely after the last sign of pressure."""
LOG_REPEAT_SECONDS = 30.0
"""Seconds after which the same decision is said again."""
MAX_FILL_RATE = 4 << 30
"""Bytes a second that are thought to be filled at most."""
MAX_FILL_RATE_WITH_PSI = 512 << 20
"""The same where the kernel wakes us, but for a disk so fast that nobody waits while page cache is
read again and again."""
IDLE_POLL_SECONDS = (0.5, 30.0)
"""Seconds between two looks at the node while nothing else wakes us, at least and at most."""
SHORTAGE_POLL_SECONDS = 0.25
"""Seconds between two looks at the node while little can be had and something waits or reclaims."""


class PressureEviction:
    """A ``MemoryPolicy``. It does nothing if the guard is off for all pods."""

    def __init__(self, context: SyncContext, groups: TrackedCgroups, parts: MemoryParts) -> None:
        self._context = context
        self._cgroups = groups
        self._reader = parts.reader
        self._history = MemoryHistory(context, groups)
        self._low_since: float | None = None
        self._evictor = Evictor(context, parts.segments)
        self._close_until = 0.0
        self._watch_pods = False
        self._node_at = 0.0
        self._forecast: FillForecast | None = None
        self._since: dict[str, float] = {}
        self._logged: dict[str, tuple[object, float]] = {}
        self._rows: dict[str, WatchRow] = {}

    def consider(self, samples: Mapping[str, MemorySample], node: NodeMemory, now: float) -> None:
        """Check whether memory is short, and evict a pod if so."""
        if not self._enabled():
            self._node_at, self._close_until = 0.0, 0.0
            return
        self._history.remember(samples, node)
        thresholds = self._thresholds()
        self._forecast = fill_forecast(
            self._history.node, self._history.protected_bytes, thresholds
        )
        self._schedule(node, now, thresholds)
        if self._evictor.follow(samples, node, now):
            self._history.node.clear()
            self._since.clear()
            self._history.limit_kills.clear()
            self._low_since = None
            return
        samples = self._history.fresh(now)
        states = self._states(samples, thresholds)
        self._evictor.restart_due(now, calm=not states)
        for path in self._since.keys() - {state.path for state in states}:
            del self._since[path]
        self._rows = {path: row for path, row in self._rows.items() if path in self._since}
        for state in states:
            span = sum(stall.seconds for stall in state.rates)
            lasted = now - self._since.setdefault(state.path, now - span)
            workers = self._context.workers.values()
            below = [one for one in workers if is_below_cgroup(one, state.path)]
            if not is_sampled(below, self._cgroups.groups, samples, lasted):
                self._close_until = max(self._close_until, now + CLOSE_WATCH_SECONDS)
                continue
            choice = self._choice(state, lasted, samples)
            if self._act(state, choice, node, now):
                break

    def watching(self) -> frozenset[str]:
        """The QoS cgroups while tasks wait for memory, with pods if one may be evicted."""
        if self._context.now > self._close_until and not self._evictor.in_progress:
            return frozenset()
        levels = ("node", "qos", "pod") if self._watch_pods else ("node", "qos")
        rows = self._cgroups.groups.values()
        return frozenset(row.path for row in rows if row.level in levels)

    def next_at(self) -> float | None:
        """When to sample the node, or to restart an evicted pod."""
        if not self._enabled():
            return None
        back = self._evictor.next_at()
        return self._node_at if back is None else min(self._node_at, back)

    def rows(self) -> Sequence[WatchRow]:
        """Where memory is short, and what was decided."""
        return list(self._rows.values())

    def urgent(self) -> bool:
        """Whether memory is short, or will be in a moment."""
        return bool(self._since) or self._fills()

    def _fills(self) -> bool:
        """Whether the node may be full before a verdict."""
        return self._forecast is not None and self._forecast.near

    def report(self) -> PressureReport:
        """The decisions so far."""
        return self._evictor.report()

    def _mode(self, worker: PodWorker) -> GuardMode:
        """The guard mode of a pod, else of the node."""
        own = worker.pod.memory.guard if worker.pod is not None else None
        return own or self._context.config.guard

    def _enabled(self) -> bool:
        """Whether the guard is on for any pod."""
        return self._context.config.guard != "off" or bool(self._cgroups.guarded_pods)

    def _thresholds(self) -> PressureThresholds:
        """The thresholds with the node's own hard eviction threshold."""
        hard = eviction_reservation(self._context.node).get("memory", ZERO).value
        return replace(PRESSURE_THRESHOLDS, eviction_bytes=hard) if hard else PRESSURE_THRESHOLDS

    def _schedule(self, node: NodeMemory, now: float, thresholds: PressureThresholds) -> None:
        """Set how closely to sample until the next sync."""
        newest = list(self._history.node)[-2:]
        uneasy = self._fills() or is_uneasy(newest, self._history.protected_bytes, thresholds)
        begins = uneasy and now > self._close_until
        if uneasy:
            self._close_until = now + CLOSE_WATCH_SECONDS
        self._close_until = max(self._close_until, self._history.limit_kills.watched_until())
        left = spare_bytes(node, self._history.protected_bytes, thresholds)
        # where nobody waits, page cache under memory.low can still be had
        if node.available - self._history.hard_bytes >= thresholds.eviction_bytes:
            self._low_since = None
        elif self._low_since is None:
            self._low_since = now
        # what of pods' page cache is protected was seen while all was well, long ago maybe
        known = self._since or self._history.limit_kills.recent(now) or self._context.memory_wanted
        self._watch_pods = begins or left <= 0 or self._fills() or bool(known)
        fill = MAX_FILL_RATE if node.pressure is None else MAX_FILL_RATE_WITH_PSI
        soon = (
            SHORTAGE_POLL_SECONDS
            if self._fills() or (left <= 0 and now <= self._close_until)
            else IDLE_POLL_SECONDS[0]
        )
        until = 0.0 if self._fills() else left / fill
        self._node_at = now + min(IDLE_POLL_SECONDS[1], max(soon, until))

    def _states(
        self, samples: Mapping[str, MemorySample], thresholds: PressureThresholds
    ) -> list[PressureState]:
        """Where memory is short: the node alone if it is, else QoS cgroups and pods at their
        limits."""
        self._watch_pods = self._watch_pods or nears_limit(samples, self._cgroups.groups)
        low = 0.0 if self._low_since is None else self._context.now - self._low_since
        state = node_state(
            tuple(self._history.node),
            self._history.protected_cache(samples)[0],
            thresholds,
            low_seconds=low,
            at_limits=waits_at_own_limits(self._history.of_pods(samples), thresholds),
        )
        if state.kind == "short":
            return [state]
        forecast = self._forecast
        if forecast and forecast.outruns(thresholds) and (fill := self._growing(samples)):
            groups, node = self._cgroups.groups, self._history.node[-1]
            forecast = forecast.with_swap(swap_room(fill, groups, node, self._reader))
            if forecast.outruns(thresholds):
                return [filling_state(forecast)]
        wanted = self._context.memory_wanted
        if wanted:
            keys = [self._context.workers[uid].key for uid in wanted]
            return [wanted_state(state, keys, max(wanted.values()))]
        found = []
        for path, (kills, seconds) in self._history.limit_kills.recent(self._context.now).items():
            last = self._history.limit_kills.last(path)
            if last is None or self._history.limit_kills.lasted(path, self._context.now) is None:
                continue
            killed = killed_state(last, kills, seconds)
            if killed.kind == "short":
                found.append(killed)
        for path in sorted(samples.keys() & self._cgroups.groups.keys()):
            level, history = self._cgroups.groups[path].level, self._history.of(path)
            if level == "container":
                continue
            judge = stuck_state if level == "pod" else class_state
            state = judge(history, thresholds)
            if state.kind == "short" and path not in {one.path for one in found}:
                found.append(state)
        return found

    def _growing(self, samples: Mapping[str, MemorySample]) -> frozenset[str]:
        """The cgroups of the pods that fill the node."""
        pods = {one[-1].path: one for one in self._history.of_pods(samples)}
        return growing(pods, self._forecast) if self._forecast else frozenset()

    def _choice(
        self, state: PressureState, lasted: float, samples: Mapping[str, MemorySample]
    ) -> EvictionChoice:
        """Which pod to evict."""
        below = [
            worker
            for worker in self._context.workers.values()
            if is_below_cgroup(worker, state.path)
        ]
        if (waits := self._why_none(state, lasted, below)) is not None:
            return waits
        killed, now = self._history.limit_kills, self._context.now
        effective = self._history.effective(samples, state.path)
        if (kills := killed.recent(now).get(state.path)) is not None:
            since = now - kills[1] - FRESH_SECONDS
            samples = {**samples, **largest_since(self._history.of_pods(), since)}
            if not state.rates:
                # without another kill it is over
                lasted = min(lasted, killed.lasted(state.path, now) or 0.0)
        candidates = self._candidates(state, below, samples, effective)
        if state.kind == "wanted":
            # the guard has waited for it
            return choose_victim(candidates, state.missing, 0.0, self._context.memory_wanted)
        if not state.path:
            fill, alone = self._growing(samples), state.kind == "filling"
            candidates = with_fillers(candidates, below, fill, alone=alone)
        return choose_victim(candidates, state.missing, lasted)

    def _why_none(
        self, state: PressureState, lasted: float, below: Sequence[PodWorker]
    ) -> EvictionChoice | None:
        """The choice of nobody as long as an eviction is on, or what is full is a pod at its own limit; None
        where somebody may be chosen."""
        ending = self._evictor.in_progress
        # what fills the node faster than it is freed does not wait
        if ending or (self._evictor.settling and state.kind != "filling"):
            reason = EvictionReason.IN_PROGRESS if ending else EvictionReason.SETTLING
            return EvictionChoice("none", self._evictor.because, reason)
        own = any(state.path in worker.top_cgroups for worker in below)
        if own and lasted < STUCK_SECONDS:
            text = f"it has been at its own limit for {lasted:.1f} s; qoslet leaves that to the "
            text += f"kernel and the guard for {STUCK_SECONDS:.0f} s"
            return EvictionChoice("none", text, EvictionReason.OWN_LIMIT)
        return None

    def _candidates(
        self,
        state: PressureState,
        below: Sequence[PodWorker],
        samples: Mapping[str, MemorySample],
        effective: Mapping[str, EffectiveMemory],
    ) -> list[Candidate]:
        """The pods among whom one is chosen, with what the end of each frees."""
        rows = self._cgroups.groups
        pods = [samples[path] for path in samples if path in rows and rows[path].level == "pod"]
        shmem = self._history.node[-1].shmem if self._history.node else None
        surviving = surviving_bytes(self._reader.surviving_tmpfs(), shmem, pods)
        wall = self._context.clock.wall()
        found = [
            candidate_of(one, samples, effective, surviving, self._mode(one), wall, state.in_vain)
            for one in below
        ]
        return [one for one in found if one is not None]

    def _act(
        self, state: PressureState, choice: EvictionChoice, node: NodeMemory, now: float
    ) -> bool:
        """Log the decision and carry it out; True if a pod is evicted."""
        where, victim = state.path or "the node", choice.victim
        held = self._history.of(state.path)[-1].current if state.path else -node.available
        if victim is not None and came_back(state, held, self._reader):
            return False
        key = "" if victim is None else victim.key
        what = {
            "end": f"evicting {key}",
            "would end": f"would evict {key} (observe only)",
            "none": "no victim",
        }[choice.verdict]
        line = f"{what}: {choice.because}; {state.because}"
        self._rows[state.path] = WatchRow(state.path, "pressure", choice.verdict, line)
        about = (choice.verdict, victim and victim.uid, choice.reason)
        before = self._logged.get(state.path)
        if before is None or before[0] != about or now - before[1] >= LOG_REPEAT_SECONDS:
            self._logged[state.path] = (about, now)
            because = f"{choice.because}; {state.because}"
            wall = self._context.clock.wall()
            row = PressureRow(wall, state.path, choice.verdict, because, key)
            self._evictor.record(row, f"{what}: memory is short on {where}: {because}")
        if victim is None or choice.verdict != "end":
            return False
        message = f"{where} was low on memory: {choice.because}; {state.because}"
        self._evictor.evict(victim, state.path, message, node, now)
        # what was killed before says nothing of the time after it
        self._history.limit_kills.clear()
        return True
