"""Evictions where the node is short of memory, on a recording.

What pods that were evicted before would have freed counts as available while the recording still
has them. Shortage at the limit of a QoS cgroup is left to the kernel here.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from qoslet.core.memory.breakdown import protected_cache
from qoslet.core.memory.effective_protection import (
    EffectiveMemory,
    effective_memory,
    protection_of,
)
from qoslet.core.memory.sample import NodeMemory
from qoslet.core.pressure.eviction_ranking import (
    ENDING_SECONDS,
    Candidate,
    charged_and_freed,
    choose_victim,
)
from qoslet.core.pressure.node_pressure import PressureState, node_state
from qoslet.core.recording.replay.kills import Kills
from qoslet.core.recording.replay.policy import ReplayPolicy
from qoslet.core.recording.replay.result import ReplayDecision, ReplayKill
from qoslet.core.recording.replay.scene import Scene

MAX_SAMPLES = 24
"""Looks that are kept of the node."""


class ShortageReplay:
    """Follows the memory of the node. ``kills`` is shared with the stalls."""

    def __init__(self, policy: ReplayPolicy, kills: Kills) -> None:
        self._policy = policy
        self._kills = kills
        self._history: deque[NodeMemory] = deque(maxlen=MAX_SAMPLES)
        self._since: float | None = None
        self._low_since: float | None = None
        self._logged = ("", "")
        self.decisions: list[ReplayDecision] = []

    def consider(self, scene: Scene) -> None:
        """Take in one moment."""
        effective = effective_memory(
            [protection_of(sample) for sample in scene.samples.values()], recursive=True
        )
        protected = sum(
            protected_cache(sample, effective[path].protected)
            for path, sample in scene.samples.items()
            if path in effective and scene.rows[path].row.level == "pod"
        )
        self._history.append(scene.node)
        if self._state(scene, protected, 0).kind != "short":
            for path in self._kills.open_of("shortage"):
                self._kills.settle(path, "progressed", scene.seconds)
        state = self._state(scene, protected, self._kills.freed())
        if state.kind != "short":
            self._since, self._logged = None, ("", "")
            return
        if self._since is None:
            self._since = scene.seconds - sum(rate.seconds for rate in state.rates)
        self._choose(scene, state, effective)

    def _state(self, scene: Scene, protected: int, freed: int) -> PressureState:
        """The node's verdict if so many bytes more were available."""
        thresholds = self._policy.thresholds
        gap = scene.gap(thresholds.max_gap_seconds)
        thresholds = replace(thresholds, max_gap_seconds=gap)
        if scene.node.available - protected >= thresholds.eviction_bytes:
            self._low_since = None
        elif self._low_since is None:
            self._low_since = scene.seconds
        low = 0.0 if self._low_since is None else scene.seconds - self._low_since
        samples = [
            replace(one, available=one.available + freed, free=one.free + freed)
            for one in self._history
        ]
        if freed and samples[-1].available - protected >= thresholds.eviction_bytes:
            low = 0.0
        return node_state(samples, protected, thresholds, low_seconds=low)

    def _choose(
        self, scene: Scene, state: PressureState, effective: dict[str, EffectiveMemory]
    ) -> None:
        assert self._since is not None
        pods = {path: row for path, row in scene.rows.items() if row.row.level == "pod"}
        found = [
            _candidate(scene, path, effective, self._policy, self._kills, state.in_vain)
            for path in pods
            if path in scene.samples
        ]
        choice = choose_victim(found, state.missing, scene.seconds - self._since)
        victim = choice.victim
        path = next((at for at, row in pods.items() if victim and row.uid == victim.uid), "")
        if (choice.verdict, path) != self._logged:
            self._logged = (choice.verdict, path)
            mode = self._policy.mode if victim is None else victim.mode
            self.decisions.append(
                ReplayDecision(
                    wall=scene.wall,
                    seconds=scene.seconds,
                    cause="shortage",
                    path=path,
                    pod="" if victim is None else victim.key,
                    container="",
                    mode=mode,
                    answer="none" if victim is None else "end",
                    value=0 if victim is None else victim.freed,
                    because=choice.because,
                    numbers=state.because,
                )
            )
        if victim is None or choice.verdict != "end":
            return
        kill = ReplayKill(
            scene.wall, scene.seconds, "shortage", path, victim.key, "", choice.because
        )
        self._kills.add(kill, scene.samples[path], victim.freed)
        # what an eviction frees shows in new samples only
        self._since = None


def _candidate(
    scene: Scene,
    path: str,
    effective: dict[str, EffectiveMemory],
    policy: ReplayPolicy,
    kills: Kills,
    in_vain: bool,
) -> Candidate:
    """A pod by its sample; files that survive it are not recorded and count as freed."""
    row, sample = scene.rows[path], scene.samples[path]
    charged, freed = charged_and_freed(sample, 0, in_vain=in_vain)
    qos = row.row.qos
    return Candidate(
        uid=row.uid,
        key=row.pod,
        qos=qos if qos in ("Guaranteed", "Burstable") else "BestEffort",  # type: ignore[arg-type]
        request=row.row.memory_request or 0,
        charged=charged,
        freed=freed,
        protected=effective[path].protected if path in effective else 0,
        priority=row.priority,
        critical=row.critical,
        ending=kills.is_dead(path),
        # what it frees is counted as available
        ending_seconds=ENDING_SECONDS,
        mode=scene.mode(path, policy.mode),
    )
