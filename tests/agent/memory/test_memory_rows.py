"""What rows of memory say at run time: limits that bind, protection in effect, surfaces."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.agent.memory.monitor import VIEW_SECONDS
from qoslet.core.memory.effective_protection import Binding, Overcommit
from tests.agent.fixtures import ROOT
from tests.agent.memory.monitored import MIB, Counted
from tests.agent.memory.monitored import bench as bench


def test_pages_are_counted_by_zone_and_drawn(bench: Counted) -> None:
    app = bench.app("a")
    for used, taken in ((10, 100), (70, 250), (90, 1000)):
        more = {"pgscan": 2 * taken, "pgsteal": taken, "workingset_refault_file": taken // 10}
        bench.memory.set(app, current=used * MIB, high=80 * MIB, stat=more)
        bench.memory.fired.add(app)
        bench.turn(2.0)
    row = bench.row("d/a/app")
    assert {
        zone: (one.scanned, one.taken, one.refaulted) for zone, one in row.reclaimed.items()
    } == {
        "below_request": (200, 100, 10),
        "above_request": (300, 150, 15),
        "above_high": (1500, 750, 75),
    }
    assert {zone: sum(spans) for zone, spans in row.recent.items()} == {
        "below_request": 100,
        "above_request": 150,
        "above_high": 750,
    }


def test_a_breach_of_protection_needs_it_on_every_level(bench: Counted) -> None:
    app = bench.app("a")
    above = [ROOT, *(one.path for one in bench.reconciler.memory.groups.above(app))]
    for low in ({}, {"low": 64 * MIB}):
        for path in above:
            bench.memory.set(path, current=90 * MIB, **low)
        for taken in (0, 10):
            bench.memory.set(
                app, current=32 * MIB, low=64 * MIB, stat={"pgsteal": taken + len(low)}
            )
            bench.memory.fired.add("")
            bench.turn(2.0)
        assert ("below_low" in bench.row("d/a/app").events) is bool(low)
    [line] = [line for line in bench.said if "protection" in line]
    assert line.startswith("d/a/app: reclaimed below its protection (memory.low) ")


def test_the_limit_that_binds_and_what_values_are_worth_at_run_time(bench: Counted) -> None:
    app = bench.app("a")
    pod, tier = app.rpartition("/")[0], app.rpartition("/pod")[0]
    bench.memory.set(app, current=30 * MIB, high=80 * MIB, max=90 * MIB, low=64 * MIB)
    bench.memory.set(pod, current=40 * MIB, max=60 * MIB, low=64 * MIB)
    bench.memory.set(tier, current=50 * MIB, low=16 * MIB)
    row = bench.row("d/a/app")
    assert (row.high, row.max, row.given_low) == (80 * MIB, 90 * MIB, 64 * MIB)
    assert row.binds == Binding(pod, "memory.max", 60 * MIB, 20 * MIB)
    [loss] = row.losses
    kubepods = tier.rpartition("/")[0]
    assert (loss.used, loss.kept) == (30 * MIB, 0)
    assert loss.cut == Overcommit(kubepods, "memory.low", 0, 16 * MIB)
    bench.memory.set(ROOT, current=70 * MIB, max=72 * MIB, low=64 * MIB)
    bench.memory.set(kubepods, current=60 * MIB, low=64 * MIB)
    row = bench.row("d/a/app")
    assert row.binds == Binding(ROOT, "memory.max", 72 * MIB, 2 * MIB)
    [loss] = row.losses
    assert loss.cut == Overcommit(tier, "memory.low", 16 * MIB, 40 * MIB)
    assert 0 < loss.kept == row.low < 30 * MIB
    bench.memory.set(tier, low=64 * MIB)
    row = bench.row("d/a/app")
    assert (row.losses, row.low) == ((), 30 * MIB)


def test_what_a_neighbour_uses_changes_a_share_that_nobody_looked_at(bench: Counted) -> None:
    for name in ("a", "b"):
        app = bench.app(name)
        for path in (app, app.rpartition("/")[0]):
            bench.memory.set(path, current=32 * MIB, low=64 * MIB)
    above = [ROOT, *(one.path for one in bench.reconciler.memory.groups.above(bench.app("a")))]
    for path in above[:-1]:
        bench.memory.set(path, current=64 * MIB, low=64 * MIB)
    bench.memory.machine = replace(bench.memory.machine, stolen=0)
    assert bench.row("d/a/app").low == 32 * MIB
    other = bench.app("b")
    for path in (other, other.rpartition("/")[0]):
        bench.memory.set(path, current=96 * MIB)
        bench.memory.fired.add(path)
    bench.memory.set(bench.app("a"), current=1)
    bench.turn(2.0)
    bench.looked.clear()
    row = bench.row("d/a/app")
    assert set(bench.looked) <= {ROOT}, "the group above that others write"
    assert row.current == 32 * MIB, "nobody looked"
    assert 0 <= 64 * MIB // 3 - row.low < 4096
    [loss] = row.losses
    assert loss.cut is not None
    assert (loss.cut.held, loss.cut.claimed) == (64 * MIB, 96 * MIB)


def test_surfaces_see_new_groups_at_once_and_old_ones_after_a_while(bench: Counted) -> None:
    bench.memory.machine = replace(bench.memory.machine, stolen=0)
    app = bench.app("a")
    bench.row("d/a/app")
    bench.put("c", "memory=64Mi")
    bench.turn(0.1)
    bench.turn(0.1)
    bench.memory.set(app, current=7 * MIB)
    assert bench.row("d/c/app").gone is False
    assert bench.row("d/a/app").current == 0
    bench.clock.now += VIEW_SECONDS
    assert bench.row("d/a/app").current == 7 * MIB


def test_v1_has_its_own_name_for_a_limit() -> None:
    bench = Counted("v1")
    bench.put("a", "memory=64Mi", "memory=96Mi")
    bench.turn()
    bench.turn(1.0)
    app = bench.app("a")
    row = bench.row("d/a/app")
    assert row.binds == Binding(app, "memory.limit_in_bytes", 96 * MIB, 96 * MIB)
    assert bench.row("besteffort").binds == bench.row("kubepods").binds
