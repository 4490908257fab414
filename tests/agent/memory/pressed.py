"""A simulated node of 2 GiB under memory pressure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.reconciler import Reconciler
from qoslet.core.memory.sample import Pressure, SharedSegment
from qoslet.sim.memory import SimMemory
from tests.agent.fixtures import ROOT, Bench, pod_of, resources, spec_of

MIB = 1 << 20
TOTAL = 2048 * MIB
ACT = Config(root=ROOT, interval_seconds=None, guard="act")


class Segments:
    """System V shared memory: whose process asks for it made ``mib`` of it. ``removed``: how often."""

    mib = removed = 0

    def made_by(self, pids: Collection[int]) -> list[SharedSegment]:
        """One of the first."""
        held = [SharedSegment(1, pid, 0, 1, self.mib * MIB, goes=False) for pid in pids]
        return held[:1] if self.mib else []

    def remove(self, segments: Collection[SharedSegment]) -> int:
        """All of it."""
        self.removed += 1
        return sum(one.held for one in segments)


class Pressed(Bench):
    """A node of 2 GiB whose pods hold what they are told; ``stall`` is the share of time for
    which everything waits from then on, ``scans`` pages a second, of which reclaim ``takes`` a
    share. ``free``: MiB, if not all that is ``available`` is."""

    def __init__(self, config: Config = ACT, *, psi: bool = True) -> None:
        self.psi = psi
        self.holds: dict[str, dict[str, int]] = {}
        self.available = 1500
        self.free: int | None = None
        self.stall = 0.0
        self.scans = 0
        self.takes = 0.1
        self._waited = self._scanned = 0.0
        self.segments = Segments()
        super().__init__("v2", config=config)

    def begin(self) -> None:
        self.memory = SimMemory(self.kernel, self.clock.monotonic, TOTAL)
        self.reconciler = Reconciler(
            self.config,
            self.driver,
            self.kernel,
            self.keeper,
            self.disk,
            self.clock,
            self.kernel,
            memory=MemoryParts(self.memory, self.memory, self.memory, segments=self.segments),
        )

    def pod(self, name: str, held: int, request: str = "", limit: str = "", **more: Any) -> None:
        """A pod that holds so many MiB beside ``cache``, of which ``locked`` are locked; ``shmem`` lie in a
        tmpfs and ``kernel`` is kept by the kernel, of which it can reclaim ``slab``. ``lazy`` were given back
        with MADV_FREE."""
        names = ("cache", "locked", "shmem", "kernel", "slab", "lazy")
        stat = {key: more.pop(key, 0) for key in names}
        pod = replace(pod_of(name, resources(request, limit)), **more)
        self.source.put(pod, spec_of(pod))
        self.holds[name] = {"held": held, **stat}

    def time(self, seconds: float, step: float = 0.25) -> list[str]:
        """Let time pass; what was said of memory meanwhile."""
        before = len(self.said)
        for _ in range(round(seconds / step)):
            self.clock.now += step
            self._pass(step)
            self.turn()
        words = ("memory is short", "evicted", "removed", "still exists")
        return [line for line in self.said[before:] if any(word in line for word in words)]

    def _pass(self, seconds: float) -> None:
        """What happens in the kernel."""
        self._waited += self.stall * seconds * 1e6
        self._scanned += self.scans * seconds
        waited = Pressure(self.stall * 100, int(self._waited), self.stall * 100, int(self._waited))
        had = self.available * MIB
        self.memory.machine = replace(
            self.memory.machine,
            available=had,
            free=had if self.free is None else self.free * MIB,
            pressure=waited if self.psi else None,
            scanned=int(self._scanned),
            stolen=int(self._scanned * self.takes),
        )
        if self.stall >= 0.1 and self.psi:
            self.memory.fired.add("")
        for name, parts in self.holds.items():
            for path in self.groups(name):
                self.memory.set(path, **_sample(parts))

    def frees(self, name: str) -> None:
        """The pod's end ends the pressure."""
        self.available += self.holds.pop(name)["held"]
        self.stall, self.scans = 0.0, 0


def _sample(parts: dict[str, int]) -> dict[str, Any]:
    held, cache, shmem = (parts[key] * MIB for key in ("held", "cache", "shmem"))
    stat = {
        "anon": held - shmem - parts.get("kernel", 0) * MIB,
        "file": cache + shmem,
        "shmem": shmem,
        "inactive_file": cache + (parts.get("lazy", 0) - parts.get("locked", 0)) * MIB,
        "unevictable": parts.get("locked", 0) * MIB,
        "slab_reclaimable": parts.get("slab", 0) * MIB,
    }
    return {"current": held + cache, "stat": stat}


def usual(bench: Pressed) -> Pressed:
    """A best-effort hog beside a burstable and a guaranteed pod with page cache."""
    bench.pod("hog", 1300)
    bench.pod("small", 20)
    bench.pod("b", 100, "cpu=100m memory=200Mi", cache=150)
    bench.pod("g", 100, "cpu=100m memory=200Mi", "cpu=100m memory=200Mi", cache=90)
    bench.time(3)
    assert bench.keeper.running == {"hog", "small", "b", "g"}
    return bench


def short(bench: Pressed) -> Pressed:
    """From now on the node is short of memory."""
    bench.available, bench.stall, bench.scans = 60, 0.4, 20_000
    return bench
