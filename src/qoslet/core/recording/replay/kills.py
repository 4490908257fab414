"""What became of the containers that a policy would have killed."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.memory.sample import MemorySample
from qoslet.core.recording.replay.result import Outcome, ReplayKill
from qoslet.core.recording.replay.scene import Scene


class _Followed(Struct):
    """A kill whose outcome is open, and the sample that it was decided by."""

    number: int
    sample: MemorySample
    freed: int


class Kills:
    """The kills so far. A cgroup that was killed is not decided about again while the recording
    still has it."""

    def __init__(self) -> None:
        self.rows: list[ReplayKill] = []
        self._open: dict[str, _Followed] = {}
        self._dead: dict[str, _Followed] = {}

    def add(self, kill: ReplayKill, sample: MemorySample, freed: int = 0) -> None:
        """Note a kill that would free so many bytes."""
        self.rows.append(kill)
        followed = _Followed(len(self.rows) - 1, sample, freed)
        self._open[kill.path] = self._dead[kill.path] = followed

    def is_dead(self, path: str) -> bool:
        """Whether the policy has killed this very cgroup, or the pod that it is in."""
        return any(is_at_or_below(path, dead) for dead in self._dead)

    def freed(self) -> int:
        """Bytes that killed pods would have freed and that the recording still counts."""
        return sum(one.freed for one in self._dead.values())

    def follow(self, scene: Scene) -> None:
        """Look what happened to the killed cgroups."""
        for path, followed in list(self._dead.items()):
            now = scene.samples.get(path)
            if now is None or now.identity != followed.sample.identity:
                self.settle(path, "gone", scene.seconds)
                del self._dead[path]
            elif _oom_kills(now) > _oom_kills(followed.sample):
                self.settle(path, "gone", scene.seconds)
            elif now.high != followed.sample.high:
                self.settle(path, "unknown", scene.seconds)

    def open_of(self, cause: str) -> list[str]:
        """The cgroups whose outcome is open, killed for this cause."""
        return [p for p, one in self._open.items() if self.rows[one.number].cause == cause]

    def settle(self, path: str, outcome: Outcome, seconds: float) -> None:
        """Note an outcome, the first one only."""
        followed = self._open.pop(path, None)
        if followed is not None:
            kill = self.rows[followed.number]
            after = round(seconds - kill.seconds, 3)
            self.rows[followed.number] = replace(kill, outcome=outcome, after=after)


def _oom_kills(sample: MemorySample) -> int:
    return sample.events.get("oom_kill", 0) or sample.local.get("oom_kill", 0)
