"""CPUs of their own in a running wheel: the pool follows, a pod without a place waits for one."""

from __future__ import annotations

import pytest

from qoslet.core.node.node import Hierarchy
from tests.agent.fixtures import Bench, pod_of, resources

OWN = "cpuset.cpus"


def whole(bench: Bench, name: str, cpu: int) -> None:
    both = f"cpu={cpu} memory=64Mi"
    bench.source.put(pod_of(name, resources(both, both)))


def cpus(bench: Bench, name: str) -> str:
    (path,) = [one for one in bench.groups(name) if one.endswith("/app")]
    return bench.value(path, OWN)


@pytest.fixture(params=["v1", "v2"])
def bench(request: pytest.FixtureRequest) -> Bench:
    hierarchy: Hierarchy = request.param
    return Bench(hierarchy, cpu_manager_policy="static", reserved_system_cpus="0")


def test_the_pool_shrinks_and_grows_with_the_pods(bench: Bench) -> None:
    bench.put("shares")
    bench.turn()
    assert cpus(bench, "shares") == "0-3"
    whole(bench, "own", 2)
    bench.turn(1.0)
    assert (cpus(bench, "own"), cpus(bench, "shares")) == ("1-2", "0,3")
    bench.source.drop("own")
    bench.turn(1.0)
    bench.turn(1.0)
    assert cpus(bench, "shares") == "0-3"


def test_a_pod_without_a_place_is_begun_when_another_has_ended(bench: Bench) -> None:
    whole(bench, "first", 3)
    whole(bench, "second", 2)
    bench.turn()
    assert bench.keeper.running == {"first"}
    assert bench.rows["second"].reason == "UnexpectedAdmissionError"
    whole_turn = bench.turn(1.0, whole=True)
    assert (whole_turn.differences, whole_turn.errors) == (0, ())
    assert bench.groups("second") == []
    bench.keeper.slow.add("first")
    bench.source.drop("first")
    bench.turn(1.0)
    assert bench.keeper.running == {"first"}
    bench.keeper.end("first", code=143)
    bench.turn(1.0)
    bench.turn(1.0)
    assert bench.keeper.running == {"second"}
    assert cpus(bench, "second") == "1-2"
    assert bench.rows["second"].reason == ""


def test_nobody_is_moved_by_others(bench: Bench) -> None:
    for name in "abc":
        whole(bench, name, 1)
    bench.turn()
    before = {name: cpus(bench, name) for name in "bc"}
    bench.source.drop("a")
    bench.turn(1.0)
    bench.turn(1.0)
    whole(bench, "d", 1)
    bench.turn(1.0)
    assert {name: cpus(bench, name) for name in "bc"} == before
    assert cpus(bench, "d") == "1"
