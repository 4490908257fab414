"""Watches groups at their memory.high closely, and answers a stall there.

A group is watched from when it comes near until it is calm, and now and then while its memory.high
is another one than planned; all others cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.holding import HIGH, KILLS, Ends, Holding
from qoslet.agent.memgroups import MemoryGroups
from qoslet.agent.pods import Pace
from qoslet.agent.ports import ColdMemory
from qoslet.agent.shared import Shared
from qoslet.core import guard, stall
from qoslet.core.guard import Bounds, Decision, GuardReport, GuardRow, Mode
from qoslet.core.memrow import Followed, WatchRow
from qoslet.core.memsample import NO_LIMIT, MemorySample, NodeMemory
from qoslet.core.tree import Cgroup

CALM = 5.0
"""Seconds for which a group has to be calm to be left."""
HELD = 2.0
"""Seconds between two looks at one that is calm and held."""
KEPT = 50
"""Decisions that are remembered."""
RECLAIMS = 1.0
"""Seconds for which a reclaim is waited for."""


class Close(Struct):
    """A group that is watched. ``said`` is what was said last, and when; nothing is done before
    ``waits``."""

    group: Followed
    planned: int
    track: stall.Track = stall.Track()
    calm_since: float | None = None
    said: tuple[str, float] = ("", 0.0)
    waits: float = 0.0
    seen: float = 0.0


class Guard:
    """One for each wheel; an ``agent.memory.Watcher``. ``cold`` reclaims, None where the kernel
    cannot."""

    def __init__(
        self,
        shared: Shared,
        groups: MemoryGroups,
        cold: ColdMemory | None = None,
        *,
        tuning: stall.Tuning = stall.TUNING,
        policy: guard.Policy = guard.POLICY,
    ) -> None:
        self._shared = shared
        self._groups = groups
        self._cold = cold
        self._tuning = tuning
        self._policy = policy
        self._holding = Holding(shared)
        self._ends = Ends(shared)
        self._close: dict[str, Close] = {}
        self._rows: deque[GuardRow] = deque(maxlen=KEPT)
        self._counts: dict[str, int] = {}

    def consider(self, samples: Mapping[str, MemorySample], node: NodeMemory, now: float) -> None:
        """Look at those that are at their memory.high or were; answer those that are stalled."""
        self._ends.carry()
        for path, one in samples.items():
            if path in self._close or stall.is_near(one, self._tuning):
                self._look(path, one, node, now)
        for path in self._close.keys() - self._groups.groups.keys():
            self._forget(path)

    def watching(self) -> frozenset[str]:
        """The groups to look at; those that are calm and held now and then only."""
        now = self._shared.now
        return frozenset(path for path, one in self._close.items() if self._due(one) <= now)

    def next_at(self) -> float | None:
        """When there is something to do, in monotonic seconds."""
        times = [self._due(one) for one in self._close.values() if one.calm_since is not None]
        ends = self._ends.next_at()
        return min([*times, *([] if ends is None else [ends])], default=None)

    def rows(self) -> Sequence[WatchRow]:
        """How the groups are that are watched."""
        return [
            WatchRow(path, "guard", one.track.verdict.state, one.track.verdict.because)
            for path, one in sorted(self._close.items())
        ]

    def report(self) -> GuardReport:
        """What was decided and what is held."""
        return GuardReport(tuple(self._rows), tuple(self._holding.rows()), dict(self._counts))

    def _due(self, one: Close) -> float:
        """When to look at a group again."""
        now = self._shared.now
        if one.calm_since is None or now - one.calm_since < CALM:
            return one.seen
        return one.seen + HELD

    def _look(self, path: str, sample: MemorySample, node: NodeMemory, now: float) -> None:
        """One look at a group."""
        group = self._groups.groups.get(path)
        pace = self._shared.paces.get(group.uid) if group is not None else None
        planned = self._planned(path, pace)
        if group is None or planned is None or self._mode(pace) == "off":
            self._forget(path)
            return
        one = self._close.setdefault(path, Close(group, planned))
        one.group, one.planned, one.seen = group, planned, now
        room = stall.room_in_swap(sample, node.swap_free)
        one.track = stall.follow(one.track, sample, room, self._tuning)
        self._hold(path, one, sample, room)
        state = one.track.verdict.state
        if state == "stalled" and now >= one.waits:
            self._answer(path, one, sample, node)
        if state != "calm":
            one.calm_since = None
        elif one.calm_since is None:
            one.calm_since = now
        elif now - one.calm_since >= CALM and path not in self._holding.holds:
            self._forget(path)

    def _hold(self, path: str, one: Close, sample: MemorySample, room: int) -> None:
        """A held group after a look at it: what is planned comes back when it is time."""
        hold = self._holding.holds.get(path)
        if hold is None:
            return
        if hold.identity != sample.identity or (hold.raised and one.planned >= hold.value):
            self._holding.drop(path)
            return
        hold = guard.held_on(replace(hold, planned=one.planned), sample, room, self._policy)
        self._holding.holds[path] = hold
        if not hold.raised:
            if sample.at - hold.at > self._policy.forget:
                self._holding.drop(path)
        elif guard.is_over(hold, sample.at, self._policy):
            because = f"it has fitted for {guard.stays(hold, self._policy):.0f} s"
            error = self._holding.give_back(path, because)
            self._tell(one, Decision("restore", because, hold.planned), error)

    def _answer(self, path: str, one: Close, sample: MemorySample, node: NodeMemory) -> None:
        """Answer a stall, or say what would be done."""
        now = self._shared.now
        hold = self._holding.of(path, one.planned, sample.identity)
        if self._cold is None:
            hold = replace(hold, reclaimed=True)
        bounds = self._bounds(one, sample)
        decision = guard.answer(hold, one.track.verdict, sample, node, bounds, self._policy)
        acts = self._mode(self._shared.paces.get(one.group.uid)) == "act"
        said, at = one.said
        if (not acts or decision.answer == "none") and (
            said == decision.answer and now - at < self._policy.quiet
        ):
            return
        error = self._do(path, one, hold, decision) if acts else ""
        if error:
            one.waits = now + RECLAIMS
        one.said = (decision.answer, now)
        self._tell(one, decision, error)

    def _do(self, path: str, one: Close, hold: guard.Hold, decision: Decision) -> str:
        """Carry a decision out; what went wrong."""
        now = self._shared.now
        match decision.answer:
            case "reclaim":
                assert self._cold is not None
                self._holding.holds[path] = replace(hold, reclaimed=True, at=now)
                one.waits = now + RECLAIMS
                return self._cold.begin(path, decision.value)
            case "raise" | "limit":
                return self._holding.take(path, hold, decision.value, decision.because)
            case "end":
                one.waits = now + 2 * KILLS
                one.track = stall.Track(verdict=one.track.verdict)
                pace = self._shared.paces[one.group.uid]
                return self._ends.end(pace, path, decision.because)
            case _:
                return ""

    def _mode(self, pace: Pace | None) -> Mode:
        """The pod's own word, or the node's."""
        default = self._shared.config.guard
        if pace is None or pace.pod is None:
            return default
        return pace.pod.memory.guard or default

    def _planned(self, path: str, pace: Pace | None) -> int | None:
        """The memory.high that is planned for a group; None where there is none, or it is not
        ours."""
        shared = self._shared
        for group in shared.live.upper() if pace is None else pace.groups:
            if group.path == path and shared.hands.inside(path):
                return planned_of(group)
        return None

    def _bounds(self, one: Close, sample: MemorySample) -> Bounds:
        """How far the group may go."""
        limits = {"own": NO_LIMIT if sample.max is None else sample.max, "above": NO_LIMIT}
        for above in self._groups.above(sample.path):
            seen = self._shared.hands.observer.look(above.path)
            limit = "" if seen is None else seen.values.get("memory.max", "")
            if seen is not None and limit.isdecimal():
                left = max(0, int(limit) - (seen.memory or 0))
                if above.uid:
                    limits["own"] = min(limits["own"], left + sample.current)
                else:
                    limits["above"] = min(limits["above"], left)
        return Bounds(limits["own"], limits["above"], one.group.uid != "")

    def _tell(self, one: Close, decision: Decision, error: str) -> None:
        """One line, one row, one count."""
        shared = self._shared
        mode = self._mode(shared.paces.get(one.group.uid))
        signs = one.track.verdict.signs
        row = GuardRow(
            at=shared.clock.wall(),
            path=one.group.path,
            pod=one.group.pod,
            container=one.group.container,
            mode=mode,
            answer=decision.answer,
            value=decision.value,
            because=decision.because,
            numbers="" if signs is None or decision.answer == "restore" else signs.describe(),
            error=error,
        )
        self._rows.append(row)
        key = f"{mode}/{decision.answer}"
        self._counts[key] = self._counts.get(key, 0) + 1
        shared.said.notes.append(f"guard: {row.describe()}")

    def _forget(self, path: str) -> None:
        """A group is watched no more."""
        self._close.pop(path, None)
        self._holding.drop(path)


def planned_of(group: Cgroup) -> int | None:
    """The memory.high that is planned for a group in bytes; None where there is none."""
    for row in group.settings:
        if row.file == HIGH and row.applied.isdecimal():
            return int(row.applied)
    return None
