"""The groups above the pods: --qos-reserved, reserved groups of others, refusals of the kernel."""

from __future__ import annotations

import errno

import pytest

from qoslet.core.quantity import parse
from qoslet.core.reconcile.steps import Step
from qoslet.sim.kernel import Fault
from tests.agent.fixtures import ROOT, Bench

MIB = 1 << 20
BEST = f"{ROOT}/kubepods/besteffort"
BURST = f"{ROOT}/kubepods/burstable"
LIMIT = "memory.limit_in_bytes"


def reserving() -> Bench:
    return Bench(qos_reserved=100, gates={"QOSReserved": True})


def limit(bench: Bench, path: str) -> int:
    return int(bench.value(path, LIMIT)) // MIB


def test_limits_of_the_lower_tiers_stand_before_the_pod_starts() -> None:
    bench = reserving()
    bench.turn()
    assert (limit(bench, BURST), limit(bench, BEST)) == (8192, 8192)
    bench.driver.steps.clear()
    bench.put("g", "cpu=1 memory=1Gi", "cpu=1 memory=1Gi")
    bench.put("b", "memory=512Mi")
    bench.turn(1.0)
    kinds = [(step.kind, step.path) for step in bench.driver.steps]
    made = kinds.index(("create", f"{ROOT}/kubepods/podg"))
    assert kinds.index(("set", BURST)) < made > kinds.index(("set", BEST))
    assert (limit(bench, BURST), limit(bench, BEST)) == (7168, 6656)


def test_a_tier_above_its_limit_is_followed_down_and_no_pod_waits_for_it() -> None:
    bench = reserving()
    bench.put("x", "", "")
    bench.turn()
    hog = bench.kernel.processes[bench.keeper.kept["x"].pids["app"] or 0]
    hog.memory = 3 * 1024 * MIB
    bench.put("g", "cpu=1 memory=6Gi", "cpu=1 memory=6Gi")
    turn = bench.turn(1.0)
    assert "g" in bench.keeper.running
    assert turn.errors == ()
    assert 3 * 1024 < limit(bench, BEST) < 3200, "near the usage"
    assert f"{BEST}/{LIMIT}: cannot lower to {2048 * MIB} yet" in turn.waiting[0]
    hog.memory = 2500 * MIB
    assert bench.turn(1.1).errors == ()
    assert 2500 < limit(bench, BEST) < 2600
    hog.memory = 100 * MIB
    for _ in range(5):
        last = bench.turn(2.0)
    assert limit(bench, BEST) == 2048
    assert last.waiting == ()


def test_more_reserved_than_there_is_is_no_error_loop() -> None:
    bench = reserving()
    for name in "abc":
        bench.put(name, "cpu=1 memory=4Gi", "cpu=1 memory=4Gi")
    said = [len(bench.turn(1.0).errors) for _ in range(60)]
    assert bench.keeper.running == {"a", "b", "c"}
    assert sum(said) <= 16, "two files, each tried seven times or so"


def test_a_tier_that_cannot_be_made_holds_up_only_pods_of_its_own() -> None:
    bench = Bench()
    bench.kernel._faults = {}
    bench.turn()
    bench.kernel.rmdir(BURST)
    bench.put("a", "cpu=1")
    bench.put("b", "", "")
    bench.kernel._faults = {bench.kernel._performed: Fault(0, errno.ENOSPC)}
    bench.turn(1.0)
    assert bench.keeper.running == {"b"}
    assert bench.rows["a"].reason == "FailedToCreatePodContainer"
    waits = bench.turn(0.2).summary
    assert waits == "2 pods, 1 of 1 containers running; 1 step to be retried"
    looks = bench.turn(0.2, whole=True)
    assert (looks.failed, looks.errors) == (0, ()), "nothing is tried in what is not there"
    bench.turn(1.1)
    bench.turn(1.1)
    assert bench.keeper.running == {"a", "b"}


def test_a_reserved_group_of_others_gets_what_is_planned_and_nothing_else() -> None:
    bench = Bench(
        enforce_node_allocatable=("pods", "system-reserved"),
        system_reserved={"cpu": parse("500m"), "memory": parse("256Mi")},
        system_reserved_cgroup="/sys",
    )
    turn = bench.turn()
    assert turn.errors == ("/sys is reserved and does not exist",)
    assert "/sys" not in bench.kernel.groups
    bench.kernel.perform([Step("create", "/sys"), Step("set", "/sys", "pids.max", "77")])
    bench.turn(11.0)
    assert bench.value("/sys", LIMIT) == str(256 * MIB)
    assert bench.value("/sys", "cpu.shares") == "512"
    assert bench.value("/sys", "pids.max") == "77"
    before = len(bench.driver.steps)
    assert not bench.turn(11.0).differences
    assert len(bench.driver.steps) == before


@pytest.mark.parametrize("tree", ["memory", "cpu", "cpuacct", "cpuset", "pids", "hugetlb"])
def test_a_reserved_cgroup_needs_the_hierarchies_of_its_values_only(tree: str) -> None:
    bench = Bench(
        enforce_node_allocatable=("pods", "system-reserved"),
        system_reserved_cgroup="/sys",
        system_reserved={"cpu": parse("500m"), "memory": parse("1Gi")},
    )
    bench.kernel.mkdir("/sys")
    bench.kernel.rmdir("/sys", tree)
    turn = bench.turn()
    if tree in ("memory", "cpu"):
        assert turn.errors == (f"/sys is reserved and does not exist in the hierarchy of {tree}",)
        assert "the tree is as planned" not in turn.summary
    else:
        assert turn.errors == ()
    for _ in range(3):
        turn = bench.turn(60.0, whole=True)
    assert bool(turn.errors) == (tree in ("memory", "cpu"))
    assert turn.failed == 0
    other = "cpu.shares" if tree != "cpu" else LIMIT
    assert bench.value("/sys", other) == ("512" if other == "cpu.shares" else str(1024 * MIB))


def test_a_pod_that_comes_has_only_the_cgroups_read_that_change() -> None:
    bench = Bench()
    bench.turn()
    bench.put("a", "cpu=1")
    bench.turn(0.5)
    read: list[str] = []
    observe = bench.kernel.read_cgroup

    class Watched:
        """The kernel, with what is read written down."""

        def __getattr__(self, name: str) -> object:
            return getattr(bench.kernel, name)

        def read_cgroup(self, path: str) -> object:
            read.append(path)
            return observe(path)

    bench.reconciler.context.executor.observer = Watched()  # type: ignore[assignment]
    bench.put("b", "cpu=1")
    bench.turn(0.5)
    assert bench.keeper.running == {"a", "b"}
    assert [path for path in read if "/pod" not in path] == [BURST], "cpu.shares of one changes"


def test_a_qos_cgroup_that_another_process_removed_is_there_before_the_next_pod() -> None:
    bench = Bench()
    bench.turn()
    bench.kernel.rmdir(BURST)
    bench.put("b", "", "")
    bench.turn(0.5)
    assert BURST in bench.kernel.groups, "planned as before, and gone"
    bench.put("a", "cpu=1")
    bench.turn(0.5)
    assert bench.keeper.running == {"a", "b"}
