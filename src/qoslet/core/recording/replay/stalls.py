"""The guard of memory.high on a recording: what it would decide about each stall.

The recording cannot say what a raised memory.high would have led to: a raise, or a lifted limit,
counts as relief of the stall that it answers, and what it grants counts as used for the others.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure import throttle_stall
from qoslet.core.pressure.guard_decision import GuardDecision, Resolution, StallSituation, decide
from qoslet.core.pressure.guard_mode import Mode
from qoslet.core.pressure.guard_report import SaidDecisions
from qoslet.core.pressure.stall_tuning import StallTuning
from qoslet.core.pressure.throttle_guard import HighOverride
from qoslet.core.recording.replay.kills import Kills
from qoslet.core.recording.replay.policy import ReplayPolicy
from qoslet.core.recording.replay.result import ReplayDecision, ReplayKill, ReplayStall
from qoslet.core.recording.replay.scene import Scene

RECLAIM_SECONDS = 1.0
"""Seconds for which a reclaim is waited for."""
KILL_SECONDS = 3.0
"""Seconds for which the memory of a killed container is waited for."""


class _Watched(Struct):
    """A cgroup near its memory.high, and its stall if it has one now."""

    tracker: throttle_stall.StallTracker = throttle_stall.StallTracker()
    blocked_until: float = 0.0
    stall: int | None = None
    said: SaidDecisions = SaidDecisions()


class StallReplay:
    """Follows the cgroups at their memory.high. ``kills`` is shared with the shortages."""

    def __init__(self, policy: ReplayPolicy, kills: Kills) -> None:
        self._policy = policy
        self._kills = kills
        self._watched: dict[str, _Watched] = {}
        self._overrides: dict[str, HighOverride] = {}
        self._last_kill: tuple[str, float] = ("", 0.0)
        self.decisions: list[ReplayDecision] = []
        self.stalls: list[ReplayStall] = []

    def consider(self, scene: Scene) -> None:
        """Take in one moment."""
        for path in self._watched.keys() - scene.samples.keys():
            self._end_stall(path, scene)
            del self._watched[path]
            self._overrides.pop(path, None)
        tuning = replace(
            self._policy.tuning,
            max_gap_seconds=scene.gap(self._policy.tuning.max_gap_seconds),
            max_stall_gap_seconds=scene.gap(self._policy.tuning.max_stall_gap_seconds),
        )
        for path in sorted(scene.samples.keys() & scene.fresh, key=self._since):
            sample = scene.samples[path]
            is_near = path in self._watched or throttle_stall.is_near(sample, tuning)
            if is_near and scene.mode(path, self._policy.mode) != "off":
                self._update(path, sample, scene, tuning)

    def _since(self, path: str) -> tuple[float, str]:
        """The longest stall is answered first."""
        watched = self._watched.get(path)
        stalled = watched is not None and watched.tracker.verdict.state == "stalled"
        return (watched.tracker.verdict.since if watched and stalled else float("inf")), path

    def _update(self, path: str, sample: MemorySample, scene: Scene, tuning: StallTuning) -> None:
        watched = self._watched.setdefault(path, _Watched())
        room = throttle_stall.swap_headroom(sample, scene.node.swap_free)
        watched.tracker = throttle_stall.track_sample(watched.tracker, sample, room, tuning)
        verdict = watched.tracker.verdict
        if verdict.state != "stalled":
            if watched.stall is not None and watched.tracker.progress_at < sample.at:
                # what reads its own program text back again and again does not get on
                return
            if len(watched.tracker.samples) > 1:
                self._kills.settle(path, "progressed", scene.seconds)
            self._end_stall(path, scene)
            self._overrides.pop(path, None)
            return
        if watched.stall is None:
            row = scene.rows[path]
            self.stalls.append(ReplayStall(path, row.pod, row.container, verdict.since))
            watched.stall = len(self.stalls) - 1
        is_over = self.stalls[watched.stall].relief is not None or self._kills.is_dead(path)
        if not is_over and scene.seconds >= watched.blocked_until:
            self._answer(path, watched, scene)

    def _answer(self, path: str, watched: _Watched, scene: Scene) -> None:
        sample, mode = scene.samples[path], scene.mode(path, self._policy.mode)
        planned = scene.rows[path].row.planned.get("memory.high", "")
        high = int(planned) if planned.isdecimal() else sample.high or UNLIMITED
        override = self._overrides.get(path)
        if override is None or override.identity != sample.identity:
            override = HighOverride(high, high, scene.seconds, sample.identity)
        found = decide(self._situation(path, watched, scene, override, mode), self._policy.guard)
        decision = found.decision
        if decision is None:
            return
        changes = mode == "act" and decision.answer != "none"
        said = watched.said.after(
            decision.key, scene.seconds, changes=changes, policy=self._policy.guard
        )
        if said is not None:
            watched.said = said
            self._record(path, decision, mode, scene, watched)
        if mode == "act":
            self._act(path, watched, override, found, scene)

    def _situation(
        self, path: str, watched: _Watched, scene: Scene, override: HighOverride, mode: Mode
    ) -> StallSituation:
        raised = [at for at, one in self._overrides.items() if one.raised and at in scene.samples]
        paths = {other for at in (path, *raised) for other in (at, *scene.above(at))}
        killed, until = self._last_kill
        return StallSituation(
            path=path,
            pod=scene.pod_path(path),
            verdict=watched.tracker.verdict,
            override=override,
            node=scene.node,
            samples={at: scene.samples[at] for at in paths},
            overrides=dict(self._overrides),
            reclaim="idle" if scene.hierarchy == "v2" else "absent",
            killed=killed if mode == "act" and scene.seconds < until else "",
        )

    def _act(
        self, path: str, watched: _Watched, override: HighOverride, found: Resolution, scene: Scene
    ) -> None:
        assert found.decision is not None
        decision = found.decision
        for other, value in found.lowered.items():
            self._overrides[other] = replace(self._overrides[other], value=value)
        match decision.answer:
            case "reclaim":
                self._overrides[path] = replace(override, reclaimed=True, changed_at=scene.seconds)
                watched.blocked_until = scene.seconds + RECLAIM_SECONDS
            case "raise" | "limit":
                raises = override.raises + 1
                self._overrides[path] = replace(
                    override, value=decision.value, changed_at=scene.seconds, raises=raises
                )
                self._relieve(watched, decision, scene)
            case "end":
                row = scene.rows[path]
                kill = ReplayKill(
                    scene.wall, scene.seconds, "stall", path, row.pod, row.container,
                    decision.because,
                )  # fmt: skip
                self._kills.add(kill, scene.samples[path], scene.samples[path].current)
                name = f"{row.pod}/{row.container}".strip("/")
                self._last_kill = (name, scene.seconds + KILL_SECONDS)
                self._relieve(watched, decision, scene)

    def _relieve(self, watched: _Watched, decision: GuardDecision, scene: Scene) -> None:
        assert watched.stall is not None
        stall = self.stalls[watched.stall]
        relief = round(scene.seconds - stall.begin, 3)
        self.stalls[watched.stall] = replace(stall, relief=relief, relieved_by=decision.answer)

    def _end_stall(self, path: str, scene: Scene) -> None:
        watched = self._watched[path]
        if watched.stall is not None:
            stall = self.stalls[watched.stall]
            self.stalls[watched.stall] = replace(stall, end=scene.seconds)
            watched.stall = None

    def _record(
        self, path: str, decision: GuardDecision, mode: Mode, scene: Scene, watched: _Watched
    ) -> None:
        row, signals = scene.rows[path], watched.tracker.verdict.signals
        self.decisions.append(
            ReplayDecision(
                wall=scene.wall,
                seconds=scene.seconds,
                cause="stall",
                path=path,
                pod=row.pod,
                container=row.container,
                mode=mode,
                answer=decision.answer,
                value=decision.value,
                because=decision.because,
                numbers="" if signals is None else signals.describe(),
            )
        )
