"""A pod that takes long to end: what holds it back is lifted, again and again, and said."""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.agent.pods.teardown import stop
from qoslet.sim.kernel import SimKernel
from tests.agent.fixtures import Bench


class Lifting(SimKernel):
    """Another process holds each pod back."""

    def __init__(self, kernel: SimKernel) -> None:
        self.__dict__ = kernel.__dict__
        self.lifted: list[str] = []
        self.overdue: list[bool] = []

    def lift(self, path: str, *, overdue: bool) -> Sequence[str]:
        self.lifted.append(path)
        self.overdue.append(overdue)
        return (f"{path}: thawed it",)


def bench_of(*pods: str) -> tuple[Bench, Lifting]:
    bench = Bench()
    killer = bench.reconciler.context.killer = Lifting(bench.kernel)
    for name in pods:
        bench.put(name)
    bench.turn()
    assert bench.keeper.running == {*pods}
    return bench, killer


def test_a_pod_that_ends_soon_is_not_looked_at() -> None:
    bench, killer = bench_of("a")
    bench.source.drop("a")
    for _ in range(5):
        bench.turn(0.5)
    assert bench.keeper.running == set()
    assert killer.lifted == []


def test_what_holds_back_a_pod_is_lifted_until_it_ends() -> None:
    bench, killer = bench_of("a", "b")
    bench.keeper.stuck.add("a")
    (top,) = bench.reconciler.context.workers["a"].top_cgroups
    bench.source.drop("a")
    bench.turn()
    assert killer.lifted == []
    due = bench.reconciler.next_at()
    assert due is not None
    assert due - bench.clock.now <= 1.0
    bench.turn(1.0)
    assert killer.lifted == [top]
    bench.turn(0.5)
    assert killer.lifted == [top]
    bench.turn(0.5)
    assert killer.lifted == [top, top], "what stays frozen is seen soon"
    bench.turn(1.0)
    assert killer.lifted == [top, top], "and then more rarely"
    for _ in range(4):
        bench.turn(10.0)
    assert killer.lifted == 6 * [top]
    grace = bench.reconciler.context.workers["a"].grace_seconds
    assert (grace, killer.overdue) == (5.0, [False, False, *4 * [True]])
    assert f"{top}: thawed it" in bench.said
    bench.keeper.end("a")
    bench.turn(10.0)
    bench.turn(10.0)
    assert "a" not in bench.rows
    assert bench.keeper.running == {"b"}


def test_a_pod_that_was_killed_is_overdue_soon() -> None:
    bench, killer = bench_of("a")
    bench.keeper.stuck.add("a")
    context = bench.reconciler.context
    stop(context, context.workers["a"], 0.0)
    for _ in range(2):
        bench.turn(0.5)
    bench.turn(1.0)
    assert killer.overdue == [True]


def test_what_of_a_pod_has_not_ended_is_shown() -> None:
    bench, killer = bench_of("a", "b")
    bench.keeper.stuck.add("a")
    context = bench.reconciler.context
    (top,) = context.workers["a"].top_cgroups
    stop(context, context.workers["a"], 0.0)
    bench.turn(0.5)
    before = bench.rows["a"].message
    bench.turn(1.0)
    (process,) = killer.members(top, below=True)
    left = f"{top}: process {process.pid} has not ended"
    assert (before, bench.rows["a"].message) == ("", left)
    context.workers["a"].set_reason("ManifestRemoved", "gone", 1.0)
    bench.turn(10.0)
    assert bench.rows["a"].message == f"gone; {left}"
    for one in list(killer.members(top, below=True)):
        killer.end(one.pid, 137)
    bench.turn(10.0)
    assert bench.rows["a"].message.endswith("its runtime does not say that it ended")
    assert bench.rows["b"].message == ""


def test_the_next_look_postpones_no_retry() -> None:
    bench, _ = bench_of("a")
    context = bench.reconciler.context
    context.wake_in("a", 0.2)
    context.wake_in("a", 10.0)
    assert context.next_timer() == context.now + 0.2
