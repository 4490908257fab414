"""What metrics need of the tree: they show the same from less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.snapshots import pods_meanwhile
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import Observed
from qoslet.core.quantity import parse
from qoslet.core.status.series import MetricsOptions
from qoslet.render.metrics import exposition
from tests.agent.fixtures import ROOT, Bench

EVERYTHING = MetricsOptions(kubelet_names=True)


class Scraped(Bench):
    """An agent with a reader of usage, on a simulated kernel."""

    counters: Mapping[str, int] = {}
    younger = 0
    """Added to inodes: others for cgroups that were recreated."""

    def begin(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.reconciler = Reconciler(
            self.config,
            self.driver,
            self.kernel,
            self.keeper,
            self.disk,
            self.clock,
            self.kernel,
            memory=MemoryParts(self.memory, self.memory, self.memory),
            usage=self.usage,
        )

    def usage(self, paths: Iterable[str]) -> Observed:
        """Of these, without settings and processes."""
        self.asked.append(tuple(paths))
        seen = self.kernel.observe(ROOT)
        found = {
            path: replace(
                one, values={}, pids=(), identity=one.identity + self.younger, **self.counters
            )
            for path, one in seen.cgroups.items()
            if path in self.asked[-1]
        }
        return Observed(seen.at, found)


def scraped(*names: str, **kubelet: Any) -> Scraped:
    bench = Scraped(**kubelet)
    for name in names:
        bench.put(name, "cpu=500m memory=64Mi", "memory=128Mi")
    bench.turn(1.0, whole=True)
    bench.turn(1.0)
    return bench


def test_metrics_show_the_same_without_settings() -> None:
    for hierarchy in ("v1", "v2"):
        bench = scraped("a", "b", hierarchy=hierarchy)
        full = exposition(bench.reconciler.snapshot(), EVERYTHING)
        less = bench.reconciler.metrics_snapshot()
        assert exposition(less, EVERYTHING) == full
        assert full.count(b"qoslet_memory_usage_bytes{") >= 4
        assert len(bench.asked) == 1
        assert not any(row.found for row in less.groups)
        assert {row.path for row in less.groups if row.exists} <= set(bench.asked[0])


def test_cgroups_outside_the_root_are_not_read() -> None:
    reserved = {"cpu": parse("100m"), "memory": parse("64Mi")}
    bench = scraped(
        "a",
        kube_reserved_cgroup="/outside",
        kube_reserved=reserved,
        enforce_node_allocatable=("pods", "kube-reserved"),
    )
    assert any(row.path == "/outside" for row in bench.reconciler.metrics_snapshot().groups)
    assert all(is_at_or_below(path, ROOT) for path in bench.asked[0])


def test_rates_of_others_go_on_from_a_scrape() -> None:
    bench = scraped("a")
    bench.reconciler.metrics_snapshot()
    bench.clock.now += 10.0
    [row] = bench.reconciler.snapshot().pods
    assert row.usage[""].seconds == 10.0


def test_a_recreated_cgroup_has_no_rate_and_begins_anew() -> None:
    bench = scraped("a")
    bench.counters = {"usage_usec": 90_000_000, "throttled_usec": 5_000_000}
    bench.reconciler.metrics_snapshot()
    for counters, age in (({"usage_usec": 1_000}, 0), ({"usage_usec": 2_000}, 1)):
        bench.clock.now += 10.0
        bench.counters, bench.younger = counters, age
        snapshot = bench.reconciler.metrics_snapshot()
        there = [one for one in snapshot.groups if one.exists]
        assert there
        assert {one.cpu for one in there} == {None}
        assert {one.cpu_seconds for one in there} == {counters["usage_usec"] / 1e6}
    bench.clock.now += 10.0
    bench.counters = {"usage_usec": 10_002_000}
    again = [one for one in bench.reconciler.metrics_snapshot().groups if one.exists]
    assert {one.cpu for one in again} == {1.0}


def test_in_the_middle_of_a_sync_the_pods_are_told_without_a_look() -> None:
    """What the sync is about to use must not change under it."""
    bench = scraped("a", "b")
    whole = bench.reconciler.snapshot()
    turn = bench.reconciler.last_result
    assert turn is not None
    looks = len(bench.asked)
    bench.clock.now += 12.5
    told = pods_meanwhile(bench.reconciler.context, turn)
    assert [(row.uid, row.phase, row.status) for row in told.pods] == [
        (row.uid, row.phase, row.status) for row in whole.pods
    ]
    assert [one.pid for row in told.pods for one in row.containers] == [
        one.pid for row in whole.pods for one in row.containers
    ]
    assert told.last_sync_seconds == bench.clock.now - turn.at
    assert (whole.last_sync_seconds, told.groups, len(bench.asked)) == (None, (), looks)
