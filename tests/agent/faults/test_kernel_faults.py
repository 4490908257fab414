"""Faults of a kernel and other hands on the tree, met by the whole wheel: the others go on, it is
said, and the turns after it converge."""

from __future__ import annotations

import errno
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.steps import Step
from qoslet.sim.kernel import Fault
from tests.agent.fixtures import ROOT
from tests.agent.fixtures import Bench as Whole

HIERARCHIES: tuple[Hierarchy, ...] = get_args(Hierarchy)
ERRORS = (errno.EBUSY, errno.EINVAL, errno.ENOENT, errno.ENODEV, errno.EPERM, errno.ENOSPC)


class Bench(Whole):
    """Two pods, one of them Guaranteed."""

    def __init__(self, hierarchy: Hierarchy, *faults: Fault) -> None:
        super().__init__(hierarchy, *faults)
        self.put("a", "cpu=500m memory=64Mi", "cpu=500m memory=64Mi")
        self.put("b", "cpu=500m memory=64Mi")

    def quiet(self) -> bool:
        """One turn, long enough after the last one; whether all was true."""
        turn = self.turn(120.0, whole=True)
        return not turn.differences and not turn.failed

    def rest(self) -> list[str]:
        """What is off."""
        plan = self.source.live.plan()
        return [row.path for row in compare(plan, self.kernel.observe(ROOT))]

    def concerned(self, path: str, refused: str) -> bool:
        """Whether a failure at ``refused`` may hold ``path`` up: below it, or in the same pod."""
        uid = next((one for one in ("a", "b") if f"/pod{one}" in refused), None)
        return path == refused or below(path, refused) or f"/pod{uid}" in path

    def settle(self, turns: int = 4) -> None:
        assert any(self.quiet() for _ in range(turns)), self.said
        left = [path for path in self.rest() if not is_in_a_pod(path)]
        assert left == []
        assert self.keeper.running == {"a", "b"}


def steps_of(hierarchy: Hierarchy) -> list[Step]:
    bench = Bench(hierarchy)
    bench.turn()
    return bench.driver.steps


def is_in_a_pod(path: str) -> bool:
    """Whether a group is somebody's inside a pod's: it goes with the pod."""
    return path.endswith("/theirs") and "/pod" in path


def below(path: str, above: str) -> bool:
    return path.startswith(f"{above}/")


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_each_step_may_fail_once(hierarchy: Hierarchy) -> None:
    number = len(steps_of(hierarchy))
    assert number > 20
    for index in range(number):
        bench = Bench(hierarchy, Fault(index, ERRORS[index % len(ERRORS)]))
        bench.settle()
        assert len(bench.said) == 1, "said once"


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_each_step_may_fail_always_and_the_rest_is_done(hierarchy: Hierarchy) -> None:
    refusals = 0
    for index, refused in enumerate(steps_of(hierarchy)):
        bench = Bench(hierarchy, Fault(index, errno.EPERM, "always"))
        refusals += any([not bench.quiet() for _ in range(4)][1:])
        assert all(refused.path in line for line in bench.said), bench.said
        off = bench.rest()
        if not off:
            assert refused.value == bench.kernel.read(refused.path, refused.file), "as it began"
            continue
        assert all(bench.concerned(path, refused.path) for path in off), (refused, off)
        stopped = {pod for pod in ("a", "b") if any(f"/pod{pod}" in path for path in off)}
        assert bench.keeper.running == {"a", "b"} - stopped
    assert refusals > 10


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_the_process_may_end_between_any_two_steps(hierarchy: Hierarchy) -> None:
    steps = steps_of(hierarchy)
    for length in range(len(steps) + 1):
        bench = Bench(hierarchy)
        assert all(one.error is None for one in bench.kernel.perform(steps[:length]))
        bench.settle()
        assert bench.said == []


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@settings(max_examples=60)
@given(data=st.data())
def test_others_may_remove_and_fill_groups_at_any_moment(hierarchy: Hierarchy, data) -> None:
    bench = Bench(hierarchy)
    bench.settle()
    kernel = bench.kernel
    strangers = []
    for path in sorted(kernel.observe(ROOT).cgroups, key=lambda path: -path.count("/")):
        match data.draw(st.sampled_from(("nothing", "remove", "anew", "fill", "off")), path):
            case "remove" if not list(kernel.children(path)) and not kernel.members(path):
                kernel.rmdir(path)
            case "anew" if not list(kernel.children(path)) and not kernel.members(path):
                kernel.rmdir(path)
                kernel.mkdir(path)
            case "fill":
                kernel.mkdir(f"{path}/theirs")
                if hierarchy == "v1":
                    for file in ("cpuset.cpus", "cpuset.mems"):
                        kernel.write(f"{path}/theirs", file, kernel.read(path, file))
                strangers.append(kernel.spawn(f"{path}/theirs"))
            case "off" if hierarchy == "v2" and not any(
                kernel.groups[child].enabled for child in kernel.children(path)
            ):
                kernel.write(path, "cgroup.subtree_control", "-memory -pids")
    for _ in range(3):
        bench.quiet()
    assert all(path.endswith("/theirs") for path in bench.rest()), "only what others are in stays"
    for pid in strangers:
        if kernel.processes[pid].exit_code is None:
            kernel.end(pid, 0)
    bench.settle()


def test_a_process_in_an_inner_v2_group_is_said_until_it_goes() -> None:
    bench = Bench("v2")
    bench.kernel.mkdir(ROOT)
    pid = bench.kernel.spawn(ROOT)
    assert not bench.quiet()
    assert bench.keeper.running == set()
    assert any(ROOT in line for line in bench.said)
    bench.kernel.end(pid, 0)
    bench.settle()
