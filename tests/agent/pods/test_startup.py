"""Starts of many pods at once: one sync starts as many as it has time for."""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.agent.pods.startup import FIRST_PODS, START_SECONDS
from qoslet.core.workload.process_spec import PodSpec
from tests.agent.fixtures import Bench, Keeper


class Slow(Keeper):
    """A runtime that needs ``seconds`` for each start."""

    def __init__(self, bench: Bench, seconds: float) -> None:
        super().__init__(bench.kernel)
        self._clock, self._seconds = bench.clock, seconds

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        self._clock.now += self._seconds
        super().start(spec, cgroups)


def bench_of(seconds: float, pods: int) -> Bench:
    """That many pods, each of which takes so long to start."""
    bench = Bench()
    bench.turn()
    bench.keeper = Slow(bench, seconds)
    bench.begin()
    for number in range(pods):
        bench.put(f"p{number:02}")
    return bench


def test_one_sync_starts_pods_for_half_a_second_and_the_next_goes_on() -> None:
    bench = bench_of(0.1, 30)
    bench.turn()
    assert FIRST_PODS < len(bench.keeper.running) <= START_SECONDS / 0.1
    syncs, before = 1, bench.clock.now
    while len(bench.keeper.running) < 30:
        due = bench.reconciler.next_at()
        assert due is not None
        assert due <= bench.clock.now, "the next sync is due at once"
        bench.turn()
        assert bench.clock.now - before <= START_SECONDS + 0.1
        syncs, before = syncs + 1, bench.clock.now
    assert syncs == 6
    started = [str(call[1]) for call in bench.keeper.calls if call[0] == "start"]
    assert started == sorted(started), "in the order in which they came, each once"
    assert not bench.turn().pods_synced


def test_what_is_quick_starts_in_one_sync() -> None:
    bench = bench_of(0.001, 110)
    bench.turn()
    assert len(bench.keeper.running) == 110


def test_the_first_pods_start_however_long_it_takes() -> None:
    bench = bench_of(0.3, 8)
    bench.turn()
    assert len(bench.keeper.running) == FIRST_PODS
    bench.turn()
    assert len(bench.keeper.running) == 8
