"""Pods come, go, grow, stall and are resized while the agent is killed and begun again: a walk at random on a
small model of the kernel's memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pytest
from msgspec.structs import replace

from qoslet.core.api.memory_annotations import MemoryPolicy
from qoslet.core.memory.sample import Pressure
from tests.agent.fixtures import pod_of, resources, spec_of
from tests.agent.memory.test_throttle_guard import MIB, TOTAL
from tests.agent.memory.test_throttle_guard_killed import Fused, Killed

STEP: Final = 0.25
FREE_AT_FIRST: Final = TOTAL / MIB - 300
STUCK_SECONDS: Final = 8.0
"""For which nobody may stand still at a memory.high below the limit, other steps and kills included."""
PAGES: Final = 256
"""Of a MiB."""

_COUNTERS: Final = ("high", "waited", "user", "pgscan", "pgsteal")

Kind = Literal["quiet", "reader", "grows", "pins"]
KINDS: Final[tuple[Kind, ...]] = ("quiet", "reader", "grows", "grows", "pins")


@dataclass
class Load:
    """What a container does, in MiB: its memory goes to ``want`` by ``rate`` a second, it reads ``reading`` a
    second of files, and up to ``pins`` of page cache cannot be taken back."""

    kind: Kind
    limit: int
    request: int
    want: float
    rate: float = 50.0
    reading: float = 0.0
    pins: float = 0.0
    anon: float = 5.0
    cache: float = 2.0
    pinned: float = 0.0
    stands: float = 0.0
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTERS, 0))
    life: tuple[str, int] = ("", 0)

    @property
    def innocent(self) -> bool:
        """Whether it fits below its memory.high for ever."""
        return self.kind in ("quiet", "reader")

    @property
    def planned(self) -> int:
        """Its memory.high in bytes."""
        between = int((self.request + 0.9 * (self.limit - self.request)) * MIB)
        return between // 4096 * 4096

    def begins(self, life: tuple[str, int]) -> None:
        """Another process, in a cgroup as new."""
        self.life, self.anon, self.cache, self.pinned, self.stands = life, 5.0, 2.0, 0.0, 0.0
        self.counters = dict.fromkeys(_COUNTERS, 0)

    def lives(self, high: float, limit: float) -> None:
        """What happens in a step; the kernel reclaims page cache at both values, throttles at the first and
        kills at the second."""
        grows = min(self.rate * STEP, max(0.0, self.want - self.anon))
        pins = min(50 * STEP, max(0.0, self.pins - self.pinned))
        reads, end = self.reading * STEP, min(high, limit)
        asked, self.stands = grows + pins + reads, self.stands + STEP
        over = self.anon + self.cache + asked - end
        if not asked or over <= 0:
            self._takes(grows, pins, reads, end)
            return
        taken = min(over, self.cache - self.pinned + reads)
        self.cache -= min(taken, self.cache - self.pinned)
        self.counters["pgsteal"] += int(taken * PAGES)
        self.counters["pgscan"] += int(taken * PAGES) + (0 if over > taken else 100)
        self.counters["high"] += 100
        if over <= taken + 0.001:
            self.counters["waited"] += int(STEP * 1e5)
            self._takes(grows, pins, reads, end)
        elif end == limit:
            self.begins(self.life)
        else:
            self.counters["waited"] += int(STEP * 1e6)
            self.counters["pgscan"] += 4000
            room = max(0.1 * STEP, end - self.anon - self.cache)
            grows = min(grows, room)
            pins = min(pins, room - grows)
            self.anon, self.cache, self.pinned = (
                self.anon + grows,
                self.cache + pins,
                self.pinned + pins,
            )

    def _takes(self, grows: float, pins: float, reads: float, end: float) -> None:
        self.stands = 0.0
        self.counters["user"] += int(0.3 * STEP * 1e6) if grows + pins + reads else 0
        self.anon, self.pinned = self.anon + grows, self.pinned + pins
        self.cache = max(self.pinned, min(self.cache + reads + pins, end - self.anon))


class Walk(Fused):
    """A node of 2 GiB that has memory to give all the time."""

    def __init__(self, seed: int, *, psi: bool) -> None:
        self.chance, self.psi = random.Random(seed), psi
        self.loads: dict[str, Load] = {}
        self.gone: set[str] = set()
        self.slow: dict[str, float] = {}
        self.faults: list[str] = []
        super().__init__()

    def adds(self) -> None:
        """A pod that nobody had before."""
        name, chance = f"p{len(self.loads)}", self.chance
        kind, request = chance.choice(KINDS), chance.choice((16, 32, 48))
        limit = request * chance.choice((2, 4))
        share = {"quiet": (0.1, 0.9), "reader": (0.3, 0.4), "grows": (0.5, 1.3), "pins": (0.3, 0.6)}
        want = chance.uniform(*share[kind]) * (request if kind in ("quiet", "reader") else limit)
        load = Load(kind, limit, request, want, rate=chance.uniform(5, 200))
        load.reading = chance.uniform(50, 400) if kind == "reader" else 0.0
        load.pins = chance.uniform(0.3, 0.6) * limit if kind == "pins" else 0.0
        self.loads[name] = load
        self.writes(name)

    def writes(self, name: str) -> None:
        """The manifest of a pod as it is to be now."""
        load = self.loads[name]
        asked = resources(f"memory={load.request}Mi", f"memory={load.limit}Mi")
        pod = replace(pod_of(name, asked), memory=MemoryPolicy())
        self.source.put(pod, spec_of(pod))

    def happens(self) -> None:
        """One thing, to anybody."""
        chance, alive = self.chance, list(self.source.pods)
        what, name = chance.random(), chance.choice(alive) if alive else ""
        if not alive or (what < 0.35 and len(alive) < 6):
            self.adds()
        elif what < 0.45:
            self.gone.add(name)
            self.source.drop(name)
        elif what < 0.55:
            self.begin()
        elif what < 0.7:
            self.fuse.left = chance.randrange(6)
        elif what < 0.8:
            self.keeper.slow.add(name)
            self.slow[name] = self.clock.now + chance.choice((1, 4, 12))
        elif not self.loads[name].innocent:
            load = self.loads[name]
            load.limit += chance.choice((-16, 16, 48))
            load.limit = min(max(load.limit, load.request + 16), 240)
            load.want = chance.uniform(0.2, 1.2) * load.limit
            load.anon = min(load.anon, load.want)
            self.writes(name)

    def steps(self, seconds: float) -> None:
        """Time passes."""
        for _ in range(round(seconds / STEP)):
            self.clock.now += STEP
            for name in [one for one, end in self.slow.items() if end <= self.clock.now]:
                del self.slow[name]
                self.keeper.slow.discard(name)
            running = sorted(self.keeper.running)
            for name in running:
                self._step(name)
            used = sum(self._held(name) for name in running)
            had = int((FREE_AT_FIRST - used) * MIB)
            self.memory.machine = replace(self.memory.machine, available=had, free=had)
            self._turns()

    def _held(self, name: str) -> float:
        return self.loads[name].anon + self.loads[name].cache

    def _step(self, name: str) -> None:
        kept, load = self.keeper.kept[name], self.loads[name]
        path = kept.cgroups["app"]
        if path not in self.kernel.groups:
            return
        if load.life != (life := (path, kept.restarts.get("app", 0))):
            load.begins(life)
        high, limit = (_mib(self.value(path, file)) for file in ("memory.high", "memory.max"))
        load.lives(high, limit)
        anon, files, counted = int(load.anon * MIB), int(load.cache * MIB), load.counters
        stat = {"anon": anon, "inactive_anon": anon, "file": files, "inactive_file": files}
        stat |= {key: counted[key] for key in ("pgscan", "pgsteal")}
        waited = Pressure(0.0, counted["waited"], 0.0, counted["waited"]) if self.psi else None
        seen: dict[str, Any] = {"current": anon + files, "stat": stat, "pressure": waited}
        seen |= {"usage_usec": counted["user"], "user_usec": counted["user"]}
        seen["events"] = {"high": counted["high"]}
        self.memory.set(path, **seen, local=seen["events"])
        self.memory.set(path.rpartition("/")[0], **seen)
        if load.stands > STUCK_SECONDS:
            self.faults.append(f"{name} ({load.kind}) stands at {self._held(name):.0f} of {high}")
            load.stands = 0.0

    def _turns(self) -> None:
        before = len(self.keeper.calls)
        try:
            self.turn()
        except Killed:
            self.fuse.left = None
            self.begin()
        for what, name, *_ in self.keeper.calls[before:]:
            if what in ("restart", "stop") and name not in self.gone:
                self.faults.append(f"{what} of {name} ({self.loads[str(name)].kind})")

    def settles(self) -> None:
        """Everybody shrinks, and time passes until each value is the planned one again."""
        self.fuse.left = None
        for load in self.loads.values():
            load.want = load.anon = min(load.anon, load.request / 2)
            load.reading = load.pins = load.pinned = load.cache = 0.0
        self.steps(30)
        for _ in range(70):
            self.clock.now += 9.75
            self.steps(STEP)
        for name in self.source.pods:
            path, planned = self.keeper.kept[name].cgroups["app"], str(self.loads[name].planned)
            if (high := self.high(path)) != planned:
                self.faults.append(f"memory.high of {name} is {high}, planned {planned}")


def _mib(value: str) -> float:
    return float("inf") if value == "max" else int(value) / MIB


@pytest.mark.parametrize(("seed", "psi"), [(1, True), (2, False)])
def test_nobody_hangs_nobody_is_ended_and_each_value_comes_back(seed: int, psi: bool) -> None:
    walk = Walk(seed, psi=psi)
    for _ in range(40):
        walk.happens()
        walk.steps(walk.chance.choice((0.5, 1, 2, 5)))
    walk.settles()
    assert not walk.faults
