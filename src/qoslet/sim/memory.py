"""Memory of simulated groups: what a kernel would tell of it, as values that a test may set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from qoslet.agent.ports import Observer
from qoslet.core.memory.events import OomKill
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.memory.stat_parser import limit_v1, number


class SimKept:
    """Matches ``agent.ports.CounterFile``: what would be in a file."""

    def __init__(self) -> None:
        self.text: bytes | None = None

    def load(self) -> bytes | None:
        """What was saved last."""
        return self.text

    def save(self, text: bytes) -> None:
        """Keep it."""
        self.text = text


class SimMemory:
    """Matches ``agent.ports.MemoryReader``, ``MemoryWatch`` and ``KillLog``.

    Usage, limits and kills are those of the simulated kernel; ``set`` gives a group what it does
    not simulate. ``total`` is bytes; ``summed``: on v1, too, ``seen`` counts kills of a group with
    those below it.
    """

    how: tuple[str, ...] = ("simulated",)
    readable = True
    complete = True

    def __init__(
        self, seen: Observer, clock: Callable[[], float], total: int, *, summed: bool = False
    ) -> None:
        self._seen = seen
        self._summed = summed
        self._clock = clock
        self._more: dict[str, dict[str, Any]] = {}
        self._told: dict[str, tuple[Mapping[str, int], ...]] = {}
        self._followed: set[str] = set()
        self.machine = NodeMemory(0.0, total, total, total)
        self.log: list[OomKill] = []
        self.fired: set[str] = set()
        self.kept = SimKept()

    def set(self, path: str, **fields: Any) -> None:
        """Values of a group's samples from now on, by ``MemorySample``'s names; counters of
        ``events`` and ``local`` are added to the simulated ones."""
        self._more.setdefault(path, {}).update(fields)

    def sample(self, path: str) -> MemorySample | None:
        """One group."""
        seen = self._seen.read_cgroup(path)
        if seen is None or seen.memory is None:
            return None
        v1 = "memory.limit_in_bytes" in seen.values
        more = dict(self._more.get(path, {}))
        events = _plus({} if v1 else {"oom_kill": seen.oom_kills or 0}, more.pop("events", {}))
        local = _plus({"oom_kill": self._own_kills(path, v1)}, more.pop("local", {}))
        values = seen.values
        made = MemorySample(
            path=path,
            at=self._clock(),
            identity=seen.identity,
            current=seen.memory,
            high=number(values.get("memory.high")),
            max=limit_v1(values.get("memory.max", values.get("memory.limit_in_bytes"))),
            low=number(values.get("memory.low")),
            min=number(values.get("memory.min")),
            peak=seen.memory_peak,
            stat={"anon": seen.memory, "file": 0},
            events=events,
            local=local,
            usage_usec=seen.usage_usec,
            populated=self._populated(path),
        )
        return replace(made, **more)

    def _populated(self, path: str) -> bool:
        """Whether any process is in a group or below it."""
        below = self._seen.observe(path, values=False).cgroups.values()
        return any(one.pids for one in below)

    def _own_kills(self, path: str, v1: bool) -> int:
        """Kills in the group itself."""
        groups = self._seen.observe(path, values=False).cgroups
        below = [one for at, one in groups.items() if at.rpartition("/")[0] == path]
        counted = groups[path].oom_kills or 0
        if v1 and not self._summed:
            return counted
        return counted - sum(one.oom_kills or 0 for one in below)

    def node(self) -> NodeMemory:
        """The machine as it was set."""
        return replace(self.machine, at=self._clock())

    def follow(self, paths: Iterable[str]) -> None:
        """These groups, too."""
        self._followed |= set(paths)

    def drop(self, paths: Iterable[str]) -> None:
        """These no longer."""
        self._followed -= set(paths)

    def woken(self) -> frozenset[str]:
        """Groups whose counters differ from those told last, and what ``fired``."""
        fired, self.fired = self.fired, set()
        for path in self._followed:
            sample = self.sample(path)
            counters: tuple[Mapping[str, int], ...]
            counters = ({}, {}) if sample is None else (sample.events, sample.local)
            if counters != self._told.get(path, tuple(dict.fromkeys(one, 0) for one in counters)):
                fired.add(path)
            self._told[path] = counters
        return frozenset(fired)

    def descriptors(self) -> Sequence[int]:
        """None: time alone moves it."""
        return ()

    def kills(self) -> Sequence[OomKill]:
        """What was put into ``log`` since asked last."""
        found, self.log = self.log, []
        return found


def _plus(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Counters added by name."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
