"""A stall at memory.high on a simulated node: what is done, what is held, and when it is over."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from qoslet import schema
from qoslet.agent.config import Config
from qoslet.agent.ports import MemoryParts
from qoslet.agent.reconciler import Reconciler
from qoslet.core.api.memory_annotations import MemoryPolicy
from qoslet.core.pressure.throttle_guard import Mode
from qoslet.render.documents.pods import pods_document
from qoslet.render.metrics import exposition
from qoslet.render.terminal import Terminal
from qoslet.render.text.pods import table
from qoslet.sim.memory import SimMemory
from tests.agent.fixtures import ROOT, Bench, pod_of, resources, spec_of

MIB = 1 << 20
TOTAL = 2048 * MIB
HIGH = 243 * MIB + 204 * 1024
"""memory.high of a request of 128Mi and a limit of 256Mi, in whole pages."""


class Cold:
    """Reclaim that is only written down; ``wrong`` is what goes wrong, ``busy`` that another one
    goes on."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.wrong = ""
        self.busy = False

    def begin(self, path: str, amount: int) -> str:
        self.asked.append((path, amount))
        return self.wrong


class Throttled(Bench):
    """A node of 2 GiB of which ``available`` MiB can be had. Groups hold what they are told;
    those in ``pushing`` meet their memory.high all the time."""

    def __init__(self, mode: Mode = "act") -> None:
        self.available = 1500
        self.pushing: set[str] = set()
        self.met = 0
        self.cold = Cold()
        config = Config(root=ROOT, interval_seconds=None, guard=mode)
        super().__init__("v2", config=config, gates={"MemoryQoS": True})

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
            memory=MemoryParts(self.memory, self.memory, self.memory, reclaim=self.cold),
        )

    def pod(
        self, name: str, limit: str = "memory=256Mi", restart: Any = "Always", **own: Any
    ) -> str:
        """A pod with a container; the path of the container's group."""
        asked = resources("memory=128Mi", limit)
        pod = replace(pod_of(name, asked), memory=MemoryPolicy(**own))
        self.source.put(pod, spec_of(pod, restart=restart))
        self.turn()
        return next(path for path in self.groups(name) if path.endswith("/app"))

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
        "guard: d/hog/app: stalled at memory.high: removed memory.high: up to memory.max 256.0 MiB, "
        "1397.6 MiB free (250.0 MiB of memory.high 243.2 MiB used, "
        "250.0 MiB unreclaimable (0.0 MiB reclaimable), +0.0 MiB/s, "
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
        == "guard: d/hog/app: restored the planned memory.high: usage below memory.high for 30 s"
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
    assert "stalled at memory.high: would remove memory.high: up to memory.max 256.0 MiB" in said
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
    assert "reclaiming memory: 5.0 MiB of it are reclaimable" in first
    assert bench.cold.asked == [(path, 5 * MIB)]
    assert "removed memory.high" in second


def test_page_cache_that_is_reclaimed_is_left_alone() -> None:
    bench = Throttled()
    path = bench.pod("reader")
    bench.holds(path, 10, cache=233)
    bench.pushing.add(path)
    assert bench.time(60) == []
    assert bench.high(path) == str(HIGH)


def test_without_a_limit_it_is_raised_step_by_step_as_far_as_the_node_allows() -> None:
    bench = Throttled()
    path = bench.pod("hog", limit="", high=200 * MIB)
    bench.available = 230
    bench.stalls(path, 205)
    (said,) = bench.time(3)
    assert "raised memory.high: to 255.0 MiB, 127.6 MiB free" in said
    assert bench.high(path) == str(255 * MIB)
    bench.stalls(path, 258)
    bench.available = 175
    (said,) = bench.time(3)
    assert "raised memory.high: to 321.0 MiB, 72.6 MiB free" in said
    bench.stalls(path, 325)
    bench.available = 110
    (said,) = bench.time(1.5)
    assert "killed the container: no memory to grant, 7.6 MiB free" in said
    assert bench.keeper.calls[-1] == ("restart", "hog", "app")
    row = bench.rows["hog"]
    assert row.reason == "MemoryStall"
    assert "container app stalled at memory.high: no memory to grant" in row.message


def test_a_pod_that_is_never_restarted_ends() -> None:
    bench = Throttled()
    path = bench.pod("job", limit="", high=200 * MIB, restart="Never")
    bench.available = 100
    bench.stalls(path, 205)
    (said,) = bench.time(2)
    assert "killed the container" in said
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


def hogs(bench: Throttled, count: int, **more: Any) -> list[str]:
    """Pods that stall at 100 MiB, with a limit of 1200 MiB."""
    more = {"limit": "memory=1200Mi", "high": 100 * MIB, **more}
    found = [bench.pod(f"hog{one}", **more) for one in range(count)]
    for path in found:
        bench.stalls(path, 102)
    return found


def test_what_one_was_given_another_is_not_given_too() -> None:
    bench = Throttled()
    paths = hogs(bench, 4)
    said = [line.partition(" (")[0] for line in bench.time(2)]
    raised = "stalled at memory.high: raised memory.high: to 127.0 MiB"
    lifted = "stalled at memory.high: removed memory.high: up to memory.max 1200.0 MiB"
    others = "granted to others and not used yet"
    assert said == [
        f"guard: d/hog0/app: {lifted}, 1397.6 MiB free",
        f"guard: d/hog1/app: {raised}, 299.6 MiB free, without 1098.0 MiB {others}",
        f"guard: d/hog2/app: {raised}, 274.6 MiB free, without 1123.0 MiB {others}",
        f"guard: d/hog3/app: {raised}, 249.6 MiB free, without 1148.0 MiB {others}",
    ]
    assert [bench.high(path) for path in paths] == ["max", *[str(127 * MIB)] * 3]


def test_what_one_uses_is_no_longer_counted_as_given() -> None:
    bench = Throttled()
    first, second = hogs(bench, 2)
    bench.pushing.discard(second)
    bench.holds(second, 50)
    bench.time(3)
    bench.holds(first, 602)
    bench.available = 1000
    bench.stalls(second, 102)
    (said,) = [line for line in bench.time(2) if "hog1" in line]
    assert "299.6 MiB free, without 598.0 MiB granted to others" in said
    # page cache is as available to the node as before
    bench.holds(first, 102, cache=500)
    bench.available = 1500
    bench.stalls(second, 130)
    (said,) = [line for line in bench.time(1.5) if "hog1" in line]
    assert "299.6 MiB free, without 1098.0 MiB granted to others" in said


def test_what_is_not_used_is_taken_back_before_anybody_is_ended() -> None:
    bench = Throttled()
    first, second = hogs(bench, 2)
    bench.available = 1210
    bench.pushing.discard(second)
    bench.holds(second, 50)
    bench.time(3)
    assert bench.high(first) == "max"
    bench.pushing.clear()
    bench.stalls(second, 102)
    lowered, raised = bench.time(2)
    assert lowered == (
        "guard: d/hog0/app: lowered memory.high: to 118.0 MiB, "
        "d/hog1/app needs the memory that it does not use"
    )
    assert "d/hog1/app: stalled at memory.high: raised memory.high: to 127.0 MiB" in raised
    assert "1091.6 MiB free, without 16.0 MiB granted to others" in raised
    assert bench.high(first) == str(118 * MIB)
    held = bench.reconciler.snapshot().memory_view.guard.held
    assert [(row.path, row.value) for row in held] == [(first, 118 * MIB), (second, 127 * MIB)]
    bench.pushing.clear()
    bench.holds(first, 60)
    assert any("hog0/app: restored the planned memory.high" in line for line in bench.time(40))


def test_nobody_is_lowered_for_one_that_cannot_be_helped() -> None:
    bench = Throttled()
    (first,) = hogs(bench, 1, limit="memory=120Mi")
    bench.time(3)
    second = bench.pod("other", limit="", high=100 * MIB)
    bench.available = 112
    bench.pushing.clear()
    bench.stalls(second, 102)
    (said,) = bench.time(2)
    assert "killed the container: no memory to grant, 0.0 MiB free" in said
    assert bench.high(first) == "max"


def test_one_is_ended_at_a_time() -> None:
    bench = Throttled()
    first, second = hogs(bench, 2)
    bench.available = 105
    one, two = bench.time(3)
    assert "d/hog0/app: stalled at memory.high: killed the container" in one
    assert "d/hog1/app: stalled at memory.high: no action: no memory to grant" in two
    assert "; d/hog0/app was killed; waiting for its memory to be freed" in two
    assert bench.keeper.calls[-1] == ("restart", "hog0", "app")
    bench.pushing.discard(first)
    bench.holds(first, 1)
    bench.available = 205
    (said,) = bench.time(1)
    assert "d/hog1/app: stalled at memory.high: raised memory.high" in said
    assert bench.high(second) == str(127 * MIB)


def test_who_is_not_helped_by_another_one_s_end_is_ended_too() -> None:
    bench = Throttled()
    paths = hogs(bench, 3)
    bench.available = 105
    bench.time(20)
    ended = [call[1] for call in bench.keeper.calls if call[0] == "restart"]
    assert ended[:3] == ["hog0", "hog1", "hog2"], "who has been stalled for longest comes first"
    assert [bench.high(path) for path in paths] == [str(100 * MIB)] * 3


def test_a_limit_that_the_node_cannot_afford_is_gone_for_step_by_step() -> None:
    bench = Throttled()
    path = bench.pod("hog", limit="memory=64Gi", high=200 * MIB)
    bench.stalls(path, 205)
    (said,) = bench.time(2)
    assert "raised memory.high: to 255.0 MiB, 1397.6 MiB free" in said
    assert bench.high(path) == str(255 * MIB)


def test_page_cache_of_a_tier_is_there_to_be_given() -> None:
    bench = Throttled()
    path = bench.pod("hog", limit="", high=200 * MIB)
    bench.stalls(path, 205)
    tier = path.split("/pod")[0]
    files = {"anon": 300 * MIB, "inactive_file": 640 * MIB}
    bench.memory.set(tier, current=1000 * MIB, max=1000 * MIB, stat=files)
    (said,) = bench.time(2)
    assert "raised memory.high: to 255.0 MiB, 640.0 MiB free" in said


def test_who_waits_for_another_one_s_reclaim_is_reclaimed_after_it() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.holds(path, 240, cache=5)
    bench.pushing.add(path)
    bench.cold.busy = True
    assert bench.time(1.25) == []
    assert bench.cold.asked == []
    bench.cold.busy = False
    (said,) = bench.time(0.5)
    assert "reclaiming memory: 5.0 MiB of it are reclaimable" in said
    assert bench.cold.asked == [(path, 5 * MIB)]


def test_a_reclaim_that_does_not_end_keeps_nobody_waiting() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.holds(path, 240, cache=5)
    bench.pushing.add(path)
    bench.cold.busy = True
    (said,) = bench.time(2)
    assert "removed memory.high: up to memory.max 256.0 MiB, 1397.6" in said
    assert "free; reclaim skipped: another cgroup is being reclaimed (245.0 MiB of" in said
    assert bench.cold.asked == []
    assert bench.reconciler.snapshot().memory_view.guard.counts == {"act/limit": 1}


def test_what_is_held_is_shown() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.stalls(path)
    bench.time(3)
    snapshot = bench.reconciler.snapshot()
    row = next(row for row in snapshot.groups if row.path == path)
    assert (row.planned["memory.high"], row.found["memory.high"]) == ("max", "max")
    document: Any = pods_document(snapshot, ROOT, "cgroupfs")
    jsonschema.validate(document, json.loads(schema.text("podstates")))
    guard = document["memory"]["guard"]
    assert [row["answer"] for row in guard["decisions"]] == ["limit"]
    assert [(row["plannedHighBytes"], row["highBytes"]) for row in guard["held"]] == [(HIGH, None)]
    lines = table(document["items"], 0.0, Terminal(80), False, False, document["memory"])
    assert any(
        "app: memory.high max instead of 243Mi, by the guard: up to memory.max 256.0 MiB" in line
        for line in lines
    ), lines
    text = exposition(snapshot).decode()
    assert 'qoslet_guard_decisions_total{answer="limit",mode="act"} 1.0' in text
    assert "qoslet_guard_held 1.0" in text
