"""A stall at memory.high on a simulated node: what is done, what is held, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.reconciler import Reconciler
from qoslet.core.api.memory_annotations import MemoryPolicy
from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.guard_mode import Mode
from qoslet.sim.memory import SimMemory
from tests.agent.fixtures import ROOT, Bench, pod_of, resources, spec_of

MIB = 1 << 20
TOTAL = 2048 * MIB
HIGH = 243 * MIB + 204 * 1024
"""memory.high of a request of 128Mi and a limit of 256Mi, in whole pages."""


class Cold:
    """Reclaim that is only written down; ``wrong`` is what goes wrong, ``busy`` that another one
    goes on; ``refuses``: the kernel frees nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.wrong = ""
        self.busy = False
        self.refuses = False

    def begin(self, path: str, amount: int) -> str:
        self.asked.append((path, amount))
        return self.wrong

    def refused(self, path: str) -> bool:
        return self.refuses and path in [asked for asked, _ in self.asked]

    def forget(self, path: str) -> None:
        self.asked = [one for one in self.asked if one[0] != path]


class Read(SimMemory):
    """Keeps which groups the agent reads."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.looked: list[str] = []
        self.telling = False

    def sample(self, path: str) -> MemorySample | None:
        if not self.telling:
            self.looked.append(path)
        return super().sample(path)

    def woken(self) -> frozenset[str]:
        self.telling = True
        try:
            return super().woken()
        finally:
            self.telling = False


class Throttled(Bench):
    """A node of 2 GiB of which ``available`` MiB can be had. Groups hold what they are told;
    those in ``pushing`` meet their memory.high all the time."""

    reads = Read
    memory: Read

    def __init__(self, mode: Mode = "act", *, reclaim: bool = True, **kubelet: Any) -> None:
        self.available = 1500
        self.pushing: set[str] = set()
        self.met = 0
        self.stolen: dict[str, int] = {}
        self.scanned: dict[str, int] = {}
        self.cold = Cold()
        self.asks = reclaim
        self.hurries: list[bool] = []
        config = Config(root=ROOT, interval_seconds=None, guard=mode)
        super().__init__("v2", config=config, gates={"MemoryQoS": True}, **kubelet)

    def begin(self) -> None:
        if not hasattr(self, "reconciler"):
            self.memory = self.reads(self.kernel, self.clock.monotonic, TOTAL)
            self.memory.machine = replace(self.memory.machine, scanned=0, stolen=0)
        self.reconciler = Reconciler(
            self.config,
            self.driver,
            self.kernel,
            self.keeper,
            self.disk,
            self.clock,
            self.kernel,
            memory=MemoryParts(
                self.memory,
                self.memory,
                self.memory,
                reclaim=self.cold if self.asks else None,
                hurry=self.hurries.append,
            ),
        )

    def pod(
        self, name: str, limit: str = "memory=256Mi", restart: Any = "Always", **own: Any
    ) -> str:
        """A pod with a container; the path of the container's group."""
        asked = resources("memory=128Mi", limit)
        pod = replace(pod_of(name, asked), memory=MemoryPolicy(**own))
        self.source.put(pod, spec_of(pod, restart=restart))
        self.turn()
        return str(self.keeper.kept[name].cgroups["app"])

    def holds(self, path: str, amount: float, cache: float = 0.0, **more: Any) -> None:
        """What a group holds from now on, in MiB."""
        held, files = int(amount * MIB), int(cache * MIB)
        stat = {"anon": held, "inactive_anon": held, "file": files, "inactive_file": files}
        self.memory.set(path, current=held + files, stat=stat, usage_usec=0, **more)

    def time(self, seconds: float, step: float = 0.25) -> list[str]:
        """Let time pass; what the guard said meanwhile."""
        before = len(self.said)
        for _ in range(round(seconds / step)):
            self.clock.now += step
            self.met += 100
            for path in self.pushing:
                self.memory.set(path, local={"high": self.met}, events={"high": self.met})
            for name, rates in (("pgsteal", self.stolen), ("pgscan", self.scanned)):
                for path, pages in rates.items():
                    sample = self.memory.sample(path)
                    assert sample is not None
                    count = sample.stat.get(name, 0) + int(pages * step)
                    self.memory.set(path, stat={**sample.stat, name: count})
            had = self.available * MIB
            self.memory.machine = replace(self.memory.machine, available=had, free=had)
            self.turn()
        return [line for line in self.said[before:] if line.startswith("guard: ")]

    def stalls(self, path: str, amount: float = 250.0) -> None:
        """A group that holds more than its memory.high, nothing of which can be taken back."""
        self.holds(path, amount)
        self.pushing.add(path)

    def high(self, path: str) -> str:
        return self.value(path, "memory.high")


def test_a_stalled_container_is_handed_to_the_limit_within_three_seconds() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.time(2)
    assert bench.high(path) == str(HIGH)
    bench.stalls(path)
    (said,) = bench.time(3)
    assert bench.high(path) == "max"
    assert said.startswith(
        "guard: removed memory.high of d/hog/app: stalled at memory.high: up to memory.max 256.0 MiB, "
        "1397.6 MiB free (250.0 MiB of memory.high 243.2 MiB used, "
        "250.0 MiB unreclaimable (0.0 MiB reclaimable), nothing freed for "
    ), said
    assert bench.cold.asked == []


def test_what_is_held_is_no_difference_and_comes_back_once_it_fits() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.stalls(path)
    bench.time(3)
    for _ in range(3):
        assert not bench.turn(10, whole=True).differences
    assert bench.high(path) == "max"
    bench.pushing.clear()
    bench.holds(path, 230)
    assert bench.time(60) == [], "it would stall again at once"
    bench.holds(path, 200)
    assert bench.time(25) == []
    (said,) = bench.time(15)
    assert (
        said
        == "guard: restored the planned memory.high of d/hog/app: usage below memory.high for 30 s"
    )
    assert bench.high(path) == str(HIGH)
    bench.stalls(path)
    bench.time(3)
    bench.pushing.clear()
    bench.holds(path, 200)
    assert bench.time(50) == [], "the second time it stays twice as long"
    assert len(bench.time(20)) == 1


def test_observed_it_is_said_once_and_nothing_is_done() -> None:
    bench = Throttled("observe")
    path = bench.pod("hog")
    bench.stalls(path)
    (said,) = bench.time(30)
    assert "would remove memory.high of d/hog/app: stalled at memory.high: up to memory.max" in said
    assert bench.high(path) == str(HIGH)
    assert len(bench.time(60)) == 1, "and again after a minute"


@pytest.mark.parametrize(("node", "own", "acts"), [("act", "off", False), ("off", "act", True)])
def test_a_pod_may_say_it_itself(node: Mode, own: Mode, acts: bool) -> None:
    bench = Throttled(node)
    path = bench.pod("hog", guard=own)
    bench.stalls(path)
    assert len(bench.time(10)) == int(acts)
    assert (bench.high(path) == "max") is acts


def test_what_is_cold_is_reclaimed_first() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.holds(path, 240, cache=5)
    bench.pushing.add(path)
    first, second = bench.time(5)
    assert "reclaiming memory of d/hog/app: stalled at memory.high: 5.0 MiB of it are" in first
    assert bench.cold.asked == [(path, 5 * MIB)]
    assert "removed memory.high of" in second


def test_page_cache_that_is_reclaimed_is_left_alone() -> None:
    bench = Throttled()
    path = bench.pod("reader")
    bench.holds(path, 10, cache=236)
    bench.pushing.add(path)
    bench.stolen[path] = 1000
    assert bench.time(60) == []
    assert bench.high(path) == str(HIGH)
    assert bench.cold.asked == [], "nobody is in doubt"


@pytest.mark.parametrize("asked", [True, False], ids=["memory.reclaim", "before 5.19"])
def test_page_cache_that_sockets_hold_is_not_believed(asked: bool) -> None:
    bench = Throttled(reclaim=asked)
    bench.cold.refuses = True
    path = bench.pod("server")
    bench.holds(path, 10, cache=236)
    bench.pushing.add(path)
    bench.stolen[path] = 5000
    assert bench.time(10) == []
    bench.stolen[path] = 0
    said = bench.time(3)
    assert bench.high(path) == "max"
    assert bench.cold.asked == [(path, HIGH // 32)] * asked, "once, for a small amount"
    if asked:
        assert "; the kernel was asked to reclaim and could free nothing" in said[0]
    assert (
        "removed memory.high of d/server/app: stalled at memory.high: up to memory.max" in said[-1]
    )
    assert "nothing freed for" in said[-1]
    assert len(said) == 1, "a small question is no decision"


def test_page_cache_that_is_scanned_in_vain_is_not_asked_for() -> None:
    bench = Throttled()
    path = bench.pod("server")
    bench.holds(path, 10, cache=236)
    bench.pushing.add(path)
    bench.stolen[path] = 5000
    assert bench.time(10) == []
    bench.stolen[path], bench.scanned[path] = 0, 600_000
    (said,) = bench.time(1.25)
    assert bench.high(path) == "max"
    assert "removed memory.high of d/server/app: stalled at memory.high: up to memory.max" in said
    assert bench.cold.asked == [], "its answer would take seconds of a CPU"


def test_several_stalls_are_answered_at_once() -> None:
    bench = Throttled()
    bench.cold.refuses = True
    paths = [bench.pod(f"p{number}") for number in range(10)]
    for path in paths:
        bench.holds(path, 200, cache=50)
        bench.pushing.add(path)
    bench.available = 8000
    read = []
    for _ in range(7):
        bench.memory.looked.clear()
        bench.time(0.5, 0.5)
        read.append(len(bench.memory.looked))
    assert [bench.high(path) for path in paths] == ["max"] * 10
    assert max(read) <= 2 * len(bench.reconciler.memory.groups.groups), "each is read once"


def test_it_is_said_since_when_nothing_was_freed() -> None:
    bench = Throttled("observe")
    path = bench.pod("server")
    bench.holds(path, 10, cache=236)
    bench.pushing.add(path)
    bench.stolen[path] = 1000
    bench.time(10)
    guard = bench.reconciler.memory.policies[0]
    (row,) = guard.rows()
    assert (row.what, row.because) == ("reclaiming", "3.9 MiB/s are freed")
    assert row.not_freed is not None
    assert row.not_freed <= 0.5
    bench.stolen[path] = 0
    bench.time(20)
    (row,) = guard.rows()
    assert row.what == "stalled"
    assert row.not_freed == pytest.approx(20, abs=1)


def test_without_a_limit_it_is_raised_step_by_step_as_far_as_the_node_allows() -> None:
    bench = Throttled()
    path = bench.pod("hog", limit="", high=200 * MIB)
    bench.available = 230
    bench.stalls(path, 205)
    (said,) = bench.time(3)
    assert (
        "raised memory.high of d/hog/app: stalled at memory.high: to 255.0 MiB, 127.6 MiB free"
        in said
    )
    assert bench.high(path) == str(255 * MIB)
    bench.stalls(path, 258)
    bench.available = 175
    (said,) = bench.time(3)
    assert (
        "raised memory.high of d/hog/app: stalled at memory.high: to 321.0 MiB, 72.6 MiB free"
        in said
    )
    bench.stalls(path, 325)
    bench.available = 110
    assert bench.time(2) == [], "another pod may be evicted first"
    (said,) = bench.time(1.5)
    assert (
        "killed container d/hog/app: stalled at memory.high: no memory to grant, 7.6 MiB free"
        in said
    )
    assert bench.keeper.calls[-1] == ("restart", "hog", "app")
    row = bench.rows["hog"]
    assert row.reason == "MemoryStall"
    assert "container app stalled at memory.high: no memory to grant" in row.message


@pytest.mark.parametrize("handles_sigterm", [True, False])
def test_a_stalled_container_that_does_not_stop_is_killed(handles_sigterm: bool) -> None:
    """Only the process that stalled, in time: not its neighbour, and not what was started after."""
    bench = Throttled()
    asked = resources("memory=64Mi")
    pod = replace(pod_of("hog", asked, "mesh", "app"), memory=MemoryPolicy(high=200 * MIB))
    bench.source.put(pod, spec_of(pod))
    bench.turn()
    kept = bench.keeper.kept["hog"]
    mesh, stalled = (kept.pids[name] or 0 for name in ("mesh", "app"))
    if not handles_sigterm:
        bench.keeper.slow.add("hog")
    bench.available = 100
    bench.stalls(kept.cgroups["app"], 205)
    for _ in range(40):
        if ("restart", "hog", "app") not in bench.keeper.calls:
            bench.time(0.25)
    bench.pushing.clear()
    bench.available = 1500
    bench.time(1.5)
    assert bench.kernel.lives(stalled) != handles_sigterm
    bench.time(1.5)
    assert not bench.kernel.lives(stalled)
    assert bench.kernel.lives(mesh)
    assert bench.kernel.lives(kept.pids["app"] or 0) == handles_sigterm


def test_a_pod_that_is_never_restarted_ends() -> None:
    bench = Throttled()
    path = bench.pod("job", limit="", high=200 * MIB, restart="Never")
    bench.available = 100
    bench.stalls(path, 205)
    (said,) = bench.time(4)
    assert "killed container d/" in said
    assert [call for call in bench.keeper.calls if call[0] == "stop"] == [("stop", "job", 2.0)]
    bench.pushing.clear()
    bench.time(10)
    row = bench.rows["job"]
    assert (row.phase, row.reason) == ("Failed", "MemoryStall")


def test_a_pod_that_goes_takes_its_hold_with_it() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.stalls(path)
    bench.time(3)
    bench.pushing.clear()
    bench.source.drop("hog")
    bench.time(5)
    assert not bench.reconciler.context.executor.overrides
    path = bench.pod("hog")
    bench.time(1)
    assert bench.high(path) == str(HIGH)


def test_nothing_is_looked_at_while_nobody_is_throttled() -> None:
    bench = Throttled()
    for name in "abc":
        bench.holds(bench.pod(name), 100)
    bench.time(20)
    assert bench.reconciler.memory.policies[0].watching() == frozenset()
    assert bench.reconciler.memory.policies[0].next_at() is None
