"""In-place resize on a kernel made of values: order, guards, states and their reasons."""

from __future__ import annotations

import pytest

from qoslet.core.node.node import Hierarchy
from tests.agent.fixtures import ROOT, Bench

MIB = 1 << 20
POD = f"{ROOT}/kubepods/burstable/poda"
APP = f"{POD}/app"


def resized(bench: Bench, request: str, limit: str = "", **spec: str) -> list[tuple[str, str, str]]:
    """Edit pod ``a`` and turn; what was written in its groups."""
    bench.driver.steps.clear()
    bench.put("a", request, limit, **spec)
    bench.turn(1.0)
    return [
        (step.path.removeprefix(f"{POD}/").removeprefix(ROOT), step.file, step.value)
        for step in bench.driver.steps
        if step.path.startswith(POD)
    ]


def state(bench: Bench) -> tuple[str, str]:
    row = bench.rows["a"]
    return row.resize, row.resize_reason


def test_up_first_memory_before_cpu_then_down_and_nothing_is_restarted() -> None:
    bench = Bench()
    bench.put("a", "cpu=500m memory=64Mi", "cpu=1 memory=128Mi")
    bench.turn()
    pid = bench.keeper.kept["a"].pids["app"]
    wrote = resized(bench, "cpu=1 memory=64Mi", "cpu=2 memory=256Mi")
    pod = "/kubepods/burstable/poda"
    assert wrote == [
        (pod, "memory.limit_in_bytes", str(256 * MIB)),
        ("app", "memory.limit_in_bytes", str(256 * MIB)),
        (pod, "cpu.cfs_quota_us", "200000"),
        (pod, "cpu.shares", "1024"),
        ("app", "cpu.shares", "1024"),
        ("app", "cpu.cfs_quota_us", "200000"),
    ]
    assert state(bench) == ("Done", "")
    wrote = resized(bench, "cpu=250m memory=64Mi", "cpu=1 memory=128Mi")
    assert wrote == [
        ("app", "memory.limit_in_bytes", str(128 * MIB)),
        (pod, "memory.limit_in_bytes", str(128 * MIB)),
        ("app", "cpu.shares", "256"),
        ("app", "cpu.cfs_quota_us", "100000"),
        (pod, "cpu.shares", "256"),
        (pod, "cpu.cfs_quota_us", "100000"),
    ]
    assert bench.value(f"{ROOT}/kubepods/burstable", "cpu.shares") == "256"
    assert bench.keeper.kept["a"].pids["app"] == pid
    assert ("update", "a") in bench.keeper.calls


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_limit_below_the_usage_goes_near_it_and_follows_it_down(hierarchy: Hierarchy) -> None:
    bench = Bench(hierarchy)
    bench.put("a", "memory=64Mi", "memory=256Mi")
    bench.turn()
    file = "memory.limit_in_bytes" if hierarchy == "v1" else "memory.max"
    bench.kernel.processes[bench.keeper.kept["a"].pids["app"] or 0].memory = 200 * MIB
    resized(bench, "memory=64Mi", "memory=128Mi")
    told, why = state(bench)
    assert told == "InProgress"
    assert f"{200 * MIB} bytes are in use" in why
    near = int(bench.value(APP, file))
    assert 200 * MIB < near < 256 * MIB
    bench.kernel.processes[bench.keeper.kept["a"].pids["app"] or 0].memory = 150 * MIB
    bench.turn(2.0)
    assert 150 * MIB < int(bench.value(APP, file)) < near
    bench.kernel.processes[bench.keeper.kept["a"].pids["app"] or 0].memory = MIB
    bench.turn(2.0)
    assert bench.value(APP, file) == str(128 * MIB)
    assert state(bench) == ("Done", "")
    assert bench.keeper.running == {"a"}


def test_what_never_fits_is_infeasible_and_what_does_not_fit_now_is_deferred() -> None:
    bench = Bench()
    bench.put("a", "cpu=1")
    bench.put("b", "cpu=2")
    bench.turn()
    assert resized(bench, "cpu=5") == []
    assert state(bench) == ("Infeasible", "cpu: 5000m requested, the node has 4000m")
    assert resized(bench, "cpu=1 memory=160Gi") == []
    assert state(bench)[1] == "memory: 160Gi requested, the node has 8Gi"
    assert resized(bench, "cpu=3") == []
    told, why = state(bench)
    assert (told, why) == (
        "Deferred",
        "cpu: 3000m requested, other pods request 2000m of 4000m",
    )
    assert bench.value(f"{ROOT}/kubepods/burstable", "cpu.shares") == "3072", "what is allocated"
    bench.source.drop("b")
    bench.turn(1.0)
    bench.turn(1.0)
    assert state(bench) == ("Done", "")
    assert bench.value(POD, "cpu.shares") == "3072"


def test_a_resize_that_is_taken_back_leaves_no_trace() -> None:
    bench = Bench()
    bench.put("a", "cpu=1")
    bench.turn()
    resized(bench, "cpu=5")
    assert resized(bench, "cpu=1") == []
    assert state(bench) == ("", "")


def test_the_class_of_a_pod_stays() -> None:
    bench = Bench()
    bench.put("a", "cpu=500m memory=64Mi")
    bench.turn()
    assert resized(bench, "cpu=500m memory=64Mi", "cpu=500m memory=64Mi") == []
    told, why = state(bench)
    assert (told, why) == ("Infeasible", "the QoS class would change from Burstable to Guaranteed")
    assert bench.keeper.running == {"a"}


def test_a_write_that_goes_on_in_the_kernel_is_in_progress() -> None:
    bench = Bench()
    bench.put("a", "memory=64Mi", "memory=256Mi")
    bench.turn()
    bench.driver.slow.add("memory.limit_in_bytes")
    resized(bench, "memory=64Mi", "memory=128Mi")
    told, why = state(bench)
    assert told == "InProgress"
    assert "write in progress" in why
    bench.driver.slow.clear()
    bench.driver.late.clear()
    bench.turn(2.0)
    assert state(bench) == ("Done", "")


def test_a_resize_meets_a_fault_and_goes_on() -> None:
    import errno

    from qoslet.sim.kernel import Fault

    bench = Bench()
    bench.put("a", "cpu=1")
    bench.turn()
    bench.kernel._faults = {bench.kernel._performed + 1: Fault(0, errno.EIO)}
    resized(bench, "cpu=2")
    row = bench.rows["a"]
    assert (row.resize, row.reason) == ("InProgress", "FailedToWriteGroup")
    bench.turn(2.0)
    row = bench.rows["a"]
    assert (row.resize, row.reason) == ("Done", "")


@pytest.mark.parametrize("adopted", [False, True])
def test_it_waits_while_a_runtime_makes_a_container_with_the_values_before(adopted: bool) -> None:
    """runc: cpu.cfs_quota_us of a container above the pod's new one is EINVAL, and the start failed."""
    bench = Bench()
    bench.put("a", "cpu=500m", "cpu=1")
    bench.keeper.starting.add("a")
    bench.turn()
    if adopted:
        bench.put("a", "cpu=250m", "cpu=500m")
        bench.begin()
        bench.source.again(bench.source.live.node)
    assert resized(bench, "cpu=250m", "cpu=500m") == []
    assert state(bench) == ("Proposed", "")
    bench.keeper.starting.clear()
    bench.turn(0.2)
    assert state(bench) == ("Done", "")
    assert bench.value(POD, "cpu.cfs_quota_us") == bench.value(APP, "cpu.cfs_quota_us") == "50000"


def test_an_edit_while_no_agent_ran_is_a_resize_too() -> None:
    bench = Bench()
    bench.put("a", "cpu=1")
    bench.put("b", "cpu=2")
    bench.put("c", "cpu=500m", "cpu=1")
    bench.turn()
    bench.put("a", "cpu=3")
    bench.put("b", "cpu=2", "cpu=2 memory=1Gi")
    bench.put("c", "cpu=250m", "cpu=1")
    bench.begin()
    bench.source.again(bench.source.live.node)
    bench.turn(1.0)
    rows = bench.rows
    assert {uid: row.resize for uid, row in rows.items()} == {
        "a": "Deferred",
        "b": "Done",
        "c": "Done",
    }
    assert bench.value(POD, "cpu.shares") == "1024", "what is allocated"
    assert bench.value(f"{ROOT}/kubepods/burstable/podc", "cpu.shares") == "256"
    assert [call for call in bench.keeper.calls if call[0] in ("stop", "start")] == [
        ("start", "a"),
        ("start", "b"),
        ("start", "c"),
    ]
    bench.source.drop("b")
    bench.turn(1.0)
    bench.turn(1.0)
    assert bench.rows["a"].resize == "Done"
    assert bench.value(POD, "cpu.shares") == "3072"
