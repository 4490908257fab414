"""What the guard gives to several stalled containers."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from qoslet import schema
from qoslet.core.memory.sample import Pressure
from qoslet.render.documents.agent.pods import pods_document
from qoslet.render.metrics import exposition
from qoslet.render.terminal import Terminal
from qoslet.render.text.pods import table
from tests.agent.fixtures import ROOT
from tests.agent.memory.test_throttle_guard import HIGH, MIB, Throttled


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
    raised = "app: stalled at memory.high: to 127.0 MiB"
    lifted = "app: stalled at memory.high: up to memory.max 1200.0 MiB"
    others = "granted to others and not used yet"
    assert said == [
        f"guard: removed memory.high of d/hog0/{lifted}, 1397.6 MiB free",
        f"guard: raised memory.high of d/hog1/{raised}, 299.6 MiB free, without 1098.0 MiB {others}",
        f"guard: raised memory.high of d/hog2/{raised}, 274.6 MiB free, without 1123.0 MiB {others}",
        f"guard: raised memory.high of d/hog3/{raised}, 249.6 MiB free, without 1148.0 MiB {others}",
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
        "guard: lowered memory.high of d/hog0/app: to 118.0 MiB, "
        "d/hog1/app needs the memory that it does not use"
    )
    assert "raised memory.high of d/hog1/app: stalled at memory.high: to 127.0 MiB" in raised
    assert "1091.6 MiB free, without 16.0 MiB granted to others" in raised
    assert bench.high(first) == str(118 * MIB)
    held = bench.reconciler.snapshot().memory_view.guard.held
    assert [(row.path, row.value) for row in held] == [(first, 118 * MIB), (second, 127 * MIB)]
    bench.pushing.clear()
    bench.holds(first, 60)
    assert any("restored the planned memory.high of d/hog0/app" in line for line in bench.time(40))


def test_nobody_is_lowered_for_one_that_cannot_be_helped() -> None:
    bench = Throttled()
    (first,) = hogs(bench, 1, limit="memory=120Mi")
    bench.time(3)
    second = bench.pod("other", limit="", high=100 * MIB)
    bench.available = 112
    bench.pushing.clear()
    bench.stalls(second, 102)
    (said,) = bench.time(4)
    assert "killed container d/other/app: stalled at memory.high: no memory to grant" in said
    assert bench.high(first) == "max"


def test_one_is_ended_at_a_time() -> None:
    bench = Throttled()
    first, second = hogs(bench, 2)
    bench.available = 105
    one, two = bench.time(5)
    assert "killed container d/hog0/app: stalled at memory.high: " in one
    assert "no action for d/hog1/app: stalled at memory.high: no memory to grant" in two
    assert "; d/hog0/app was killed; waiting for its memory to be freed" in two
    assert bench.keeper.calls[-1] == ("restart", "hog0", "app")
    bench.pushing.discard(first)
    bench.holds(first, 1)
    bench.available = 205
    (said,) = bench.time(1)
    assert "raised memory.high of d/hog1/app: stalled at memory.high" in said
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
    assert "stalled at memory.high: to 255.0 MiB, 1397.6 MiB free" in said
    assert bench.high(path) == str(255 * MIB)


def test_page_cache_of_a_tier_is_there_to_be_given() -> None:
    bench = Throttled()
    path = bench.pod("hog", limit="", high=200 * MIB)
    bench.stalls(path, 205)
    tier = path.split("/pod")[0]
    files = {"anon": 300 * MIB, "inactive_file": 640 * MIB}
    bench.memory.set(tier, current=1000 * MIB, max=1000 * MIB, stat=files)
    (said,) = bench.time(2)
    assert "stalled at memory.high: to 255.0 MiB, 640.0 MiB free" in said


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
    assert "stalled at memory.high: 5.0 MiB of it are reclaimable" in said
    assert bench.cold.asked == [(path, 5 * MIB)]


def test_a_reclaim_that_does_not_end_keeps_nobody_waiting() -> None:
    bench = Throttled()
    path = bench.pod("hog")
    bench.holds(path, 240, cache=5)
    bench.pushing.add(path)
    bench.cold.busy = True
    (said,) = bench.time(2)
    assert "stalled at memory.high: up to memory.max 256.0 MiB, 1397.6" in said
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


@pytest.mark.parametrize(("called", "ends"), [(0, True), (8 * MIB, False), (None, False)])
def test_who_only_reads_its_text_is_ended_and_who_reads_files_is_not(
    called: int | None, ends: bool
) -> None:
    """As on Linux 7.2, where a fault reads up to 2 MiB."""
    bench = Throttled()
    path = bench.pod("hog")
    bench.stalls(path)
    bench.available = 100
    said: list[str] = []
    for turn in range(80):
        stat = {"anon": 250 * MIB, "inactive_anon": 250 * MIB, "inactive_file": MIB}
        stat |= {"pgscan": 4000 * turn, "pgsteal": 1100 * turn, "pgmajfault": 3 * turn}
        stat["workingset_refault_file"] = 440 * turn
        times = {"usage_usec": 90_000 * turn, "user_usec": 2000 * turn}
        read = None if called is None else called * turn // 4
        bench.memory.set(path, current=251 * MIB, stat=stat, called=read, **times)
        said += bench.time(0.25)
    assert any("killed container" in line for line in said) == ends, said


@pytest.mark.parametrize(("pages", "ends"), [(0, True), (25, False)])
def test_who_swaps_slowly_is_not_ended(pages: int, ends: bool) -> None:
    """On Linux 7.2 with a zram and a busy CPU: 40 to 400 pages a second for minutes."""
    bench = Throttled()
    bench.memory.machine = replace(bench.memory.machine, swap_free=400 * MIB)
    path = bench.pod("hog")
    bench.stalls(path, 248)
    bench.available = 100
    said: list[str] = []
    for turn in range(100):
        stat = {"anon": 248 * MIB, "inactive_anon": 248 * MIB, "pgscan": 30 * turn}
        names = ("pgsteal", "pswpin", "pswpout", "workingset_refault_anon")
        stat |= dict.fromkeys(names, pages * turn)
        wait = Pressure(90.0, 240_000 * turn, 0.0, 0)
        swap = {"swap": 60 * MIB, "swap_max": 100 * MIB}
        bench.memory.set(path, current=HIGH + 4096, stat=stat, pressure=wait, **swap)
        said += bench.time(0.25)
    assert any("killed container" in line for line in said) == ends, said
    assert any("its swap moves" in line for line in said) != ends, said
