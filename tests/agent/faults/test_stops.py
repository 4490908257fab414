"""A runtime refuses to end a pod: it is asked again until what was decided is done, or wanted no more."""

from __future__ import annotations

import pytest

from tests.agent.fixtures import Bench, Manifests, node, pod_of, spec_of


def running() -> Bench:
    """An agent with one pod, whose end its runtime refuses."""
    bench = Bench()
    bench.put("a")
    bench.turn()
    assert bench.keeper.running == {"a"}
    bench.keeper.deaf.add("a")
    return bench


def starts(bench: Bench) -> int:
    return bench.keeper.calls.count(("start", "a"))


def stops(bench: Bench) -> int:
    return sum(call[:2] == ("stop", "a") for call in bench.keeper.calls)


def rest(bench: Bench, turns: int = 12) -> None:
    for _ in range(turns):
        bench.turn(60.0)


def test_changed_containers_begin_anew_once_the_runtime_hears() -> None:
    bench = running()
    bench.put("a", command="other")
    rest(bench, 3)
    assert (starts(bench), bench.keeper.running) == (1, {"a"})
    assert stops(bench) > 1
    bench.keeper.deaf.clear()
    rest(bench)
    assert starts(bench) == 2
    assert bench.keeper.kept["a"].spec.launches[0].argv == ("other",)
    asked = stops(bench)
    rest(bench)
    assert stops(bench) == asked


def test_a_pod_that_ends_before_the_runtime_hears_is_restarted() -> None:
    bench = running()
    bench.put("a", command="other")
    rest(bench, 3)
    bench.keeper.end("a")
    rest(bench)
    assert starts(bench) == 2
    assert bench.keeper.kept["a"].spec.launches[0].argv == ("other",)


def test_what_is_wanted_again_before_it_was_stopped_runs_on() -> None:
    bench = running()
    bench.put("a", command="other")
    rest(bench, 3)
    bench.put("a")
    bench.keeper.deaf.clear()
    asked = stops(bench)
    rest(bench)
    assert (starts(bench), stops(bench)) == (1, asked)


def test_a_pod_that_was_lost_meanwhile_is_begun_once() -> None:
    bench = running()
    bench.put("a", command="other")
    rest(bench, 3)
    bench.keeper.deaf.clear()
    bench.keeper.end("a")
    del bench.keeper.kept["a"]
    asked = stops(bench)
    rest(bench)
    assert (starts(bench), stops(bench)) == (2, asked)


def moved(restart: str) -> Bench:
    """The next agent plans the pod elsewhere."""
    bench = Bench(cgroups_per_qos=False, enforce_node_allocatable=())
    bench.put("a", restart=restart)
    bench.turn()
    bench.keeper.deaf.add("a")
    bench.source = Manifests(node("v1"))
    bench.put("a", restart=restart)
    bench.begin()
    rest(bench, 3)
    assert bench.keeper.running == {"a"}
    return bench


def test_a_pod_that_was_lost_before_it_was_stopped_starts_where_it_belongs_now() -> None:
    bench = running()
    before = bench.reconciler.context.workers["a"].top_cgroups
    bench.put("a", "", command="other")
    rest(bench, 3)
    for pid in bench.keeper.kept.pop("a").pids.values():
        assert pid is not None
        bench.kernel.end(pid, 0)
    rest(bench)
    worker = bench.reconciler.context.workers["a"]
    assert worker.qos == "BestEffort"
    assert worker.top_cgroups != before
    assert bench.keeper.kept["a"].cgroups == worker.container_cgroups
    assert not any(path in bench.kernel.groups for path in before)


def test_an_edit_does_not_leave_a_pod_outside_its_group() -> None:
    bench = moved("Always")
    bench.put("a", "cpu=600m memory=64Mi", restart="Always")
    bench.keeper.deaf.clear()
    rest(bench)
    assert starts(bench) == 2
    assert "/poda/" in bench.keeper.kept["a"].cgroups["app"]


def test_a_pod_that_may_not_begin_anew_ends_once_the_runtime_hears() -> None:
    bench = moved("Never")
    bench.keeper.deaf.clear()
    rest(bench)
    assert bench.keeper.running == set()
    assert starts(bench) == 1
    assert bench.rows["a"].phase == "Failed"


@pytest.mark.parametrize("asked", [False, True])
def test_more_containers_are_begun_by_the_next_agent_though_they_never_restart(asked: bool) -> None:
    """They have not run yet: they are not outside their cgroup."""
    more = pod_of("a", None, "app", "more")
    bench = Bench()
    bench.put("a", restart="Never")
    bench.turn()
    bench.keeper.slow.add("a")
    if asked:
        bench.source.put(more, spec_of(more, restart="Never"))
        bench.turn(0.1)
        assert stops(bench) == 1
    bench.source = Manifests(node("v1"))
    bench.source.put(more, spec_of(more, restart="Never"))
    bench.begin()
    bench.turn(0.1)
    bench.keeper.slow.clear()
    bench.keeper.end("a")
    rest(bench, 4)
    assert starts(bench) == 2
    assert set(bench.keeper.kept["a"].cgroups) == {"app", "more"}


def test_other_containers_of_a_pod_that_is_ended_for_good_are_begun() -> None:
    bench = moved("Never")
    bench.keeper.deaf.clear()
    bench.keeper.slow.add("a")
    bench.turn(60.0)
    bench.put("a", restart="Never", command="other")
    bench.turn(0.1)
    bench.keeper.slow.clear()
    bench.keeper.end("a")
    rest(bench, 4)
    assert starts(bench) == 2
    assert bench.keeper.kept["a"].spec.launches[0].argv == ("other",)
