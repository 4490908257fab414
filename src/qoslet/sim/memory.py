"""Memory of simulated cgroups: samples and kills, which a test may set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from qoslet.agent.ports import Observer
from qoslet.core.memory.events import OomKill
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.memory.stat_parser import limit_v1, number


class SimKept:
    """Matches ``agent.memory_ports.CounterFile``: the content of the file."""

    def __init__(self) -> None:
        self.text: bytes | None = None

    def load(self) -> bytes | None:
        """What was saved last."""
        return self.text

    def save(self, text: bytes) -> None:
        """Keep it."""
        self.text = text


class SimMemory:
    """Matches ``agent.memory_ports.MemoryReader``, ``MemoryWatch`` and ``OomLog``.

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
        self.surviving = 0
        self.log: list[OomKill] = []
        self.fired: set[str] = set()
        self.kept = SimKept()

    def set(self, path: str, **fields: Any) -> None:
        """Values of a group's samples from now on, by ``MemorySample``'s names; counters of
        ``events`` and ``local`` are added to the simulated ones."""
        self._more.setdefault(path, {}).update(fields)

    def sample(self, path: str) -> MemorySample | None:
        """One group."""
        cgroup = self._seen.read_cgroup(path)
        if cgroup is None or cgroup.memory is None:
            return None
        v1 = "memory.limit_in_bytes" in cgroup.values
        overrides = dict(self._more.get(path, {}))
        events = _plus(
            {} if v1 else {"oom_kill": cgroup.oom_kills or 0}, overrides.pop("events", {})
        )
        local = _plus({"oom_kill": self._own_kills(path, v1)}, overrides.pop("local", {}))
        values = cgroup.values
        made = MemorySample(
            path=path,
            at=self._clock(),
            identity=cgroup.identity,
            current=cgroup.memory,
            high=number(values.get("memory.high")),
            max=limit_v1(values.get("memory.max", values.get("memory.limit_in_bytes"))),
            low=number(values.get("memory.low")),
            min=number(values.get("memory.min")),
            peak=cgroup.memory_peak,
            stat={"anon": cgroup.memory, "file": 0},
            events=events,
            local=local,
            usage_usec=cgroup.usage_usec,
            populated=self._populated(path),
        )
        return replace(made, **overrides)

    def _populated(self, path: str) -> bool:
        """Whether any process is in a group or below it."""
        below = self._seen.observe(path, values=False).cgroups.values()
        return any(cgroup.pids for cgroup in below)

    def _own_kills(self, path: str, v1: bool) -> int:
        """Kills in the group itself."""
        cgroups = self._seen.observe(path, values=False).cgroups
        below = [cgroup for at, cgroup in cgroups.items() if at.rpartition("/")[0] == path]
        counted = cgroups[path].oom_kills or 0
        if v1 and not self._summed:
            return counted
        return counted - sum(cgroup.oom_kills or 0 for cgroup in below)

    def node(self) -> NodeMemory:
        """The machine as it was set."""
        return replace(self.machine, at=self._clock())

    def surviving_tmpfs(self) -> int:
        """Bytes as they were set."""
        return self.surviving

    def follow(self, paths: Iterable[str]) -> None:
        """These groups, too."""
        self._followed |= set(paths)

    def drop(self, paths: Iterable[str]) -> None:
        """These no longer."""
        self._followed -= set(paths)

    def woken(self) -> frozenset[str]:
        """Cgroups whose counters changed since the last call, and those that ``fired``."""
        fired, self.fired = self.fired, set()
        for path in self._followed:
            sample = self.sample(path)
            counters: tuple[Mapping[str, int], ...]
            counters = ({}, {}) if sample is None else (sample.events, sample.local)
            if counters != self._told.get(
                path, tuple(dict.fromkeys(known, 0) for known in counters)
            ):
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
