"""Faults of a kernel and other hands on the tree, met by the whole wheel: the others go on, it is
said, and the turns after it converge."""

from __future__ import annotations

import errno
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.agent.config import Config
from qoslet.agent.cycle import Desired, Wheel, Work
from qoslet.core.drift import compare
from qoslet.core.node import Hierarchy
from qoslet.core.observed import Observed
from qoslet.core.plan import plan
from qoslet.core.pod import Container, Pod, Resources
from qoslet.core.quantity import parse
from qoslet.core.steps import ordered
from qoslet.core.tree import Plan
from qoslet.sim.kernel import Fault, SimKernel
from tests.agent.test_cycle import Clock, Pods
from tests.core.rules_given import node_of

HIERARCHIES: tuple[Hierarchy, ...] = get_args(Hierarchy)
ROOT = "/q"
ERRORS = (errno.EBUSY, errno.EINVAL, errno.ENOENT, errno.ENODEV, errno.EPERM, errno.ENOSPC)


def work(wanted: Plan, observed: Observed) -> Work:
    differences = compare(wanted, observed)
    return Work(len(differences), ordered(differences, observed))


def desired(hierarchy: Hierarchy) -> Desired:
    """Two pods on a node whose tree is below ``/q``."""
    asked = {"cpu": parse("500m"), "memory": parse("64Mi")}
    pods = [
        Pod("d", name, name, "t.yaml", (Container("app", "regular", "spec.containers[0]", row),))
        for name, row in {"a": Resources(asked, asked), "b": Resources(asked)}.items()
    ]
    node = node_of(
        36,
        capacity={"cpu": "2", "memory": "8Gi"},
        host={"hierarchy": hierarchy},
        cgroup_root=ROOT,
        runtime="process",
    )
    return Desired(plan(pods, node), tuple(pods), dict.fromkeys(("a", "b"), 5.0))


class Bench:
    """A wheel on a simulated kernel; time passes as told."""

    def __init__(self, hierarchy: Hierarchy, *faults: Fault) -> None:
        self.wanted = desired(hierarchy)
        self.clock = Clock()
        self.kernel = SimKernel(hierarchy, faults=faults)
        self.pods = Pods()
        self.wheel = Wheel(Config(root=ROOT), self.kernel, self.kernel, self.pods, self.clock, work)
        self.said: list[str] = []

    def turn(self) -> bool:
        """One turn, long enough after the last one; whether all was true."""
        self.clock.now += 120
        snapshot = self.wheel.turn(self.wanted)
        self.said += [*snapshot.errors, *snapshot.notes]
        return snapshot.true

    def concerned(self, path: str, refused: str) -> bool:
        """Whether a failure at ``refused`` may hold ``path`` up: below it, or in the same pod."""
        uid = next((one for one in ("a", "b") if f"/pod{one}" in refused), None)
        return path == refused or below(path, refused) or f"/pod{uid}" in path

    def settle(self, turns: int = 4) -> None:
        assert any(self.turn() for _ in range(turns)), self.said
        assert compare(self.wanted.plan, self.kernel.observe(ROOT)) == []
        assert len(self.pods.running) == 2


def steps_of(hierarchy: Hierarchy) -> int:
    bench = Bench(hierarchy)
    return len(work(bench.wanted.plan, bench.kernel.observe(ROOT)).steps)


def below(path: str, above: str) -> bool:
    return path.startswith(f"{above}/")


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_each_step_may_fail_once(hierarchy: Hierarchy) -> None:
    number = steps_of(hierarchy)
    assert number > 20
    for index in range(number):
        bench = Bench(hierarchy, Fault(index, ERRORS[index % len(ERRORS)]))
        bench.settle()
        assert len(bench.said) == 1, "said once"


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_each_step_may_fail_always_and_the_rest_is_done(hierarchy: Hierarchy) -> None:
    refusals = 0
    for index in range(steps_of(hierarchy)):
        bench = Bench(hierarchy, Fault(index, errno.EPERM, "always"))
        refused = work(bench.wanted.plan, bench.kernel.observe(ROOT)).steps[index]
        refusals += any([not bench.turn() for _ in range(4)][1:])
        assert all(refused.path in line for line in bench.said), bench.said
        off = compare(bench.wanted.plan, bench.kernel.observe(ROOT))
        if not off:
            assert refused.value == bench.kernel.read(refused.path, refused.file), "as it began"
            continue
        assert all(bench.concerned(row.path, refused.path) for row in off), (refused, off)
        stopped = [pod for pod in ("a", "b") if any(f"/pod{pod}" in row.path for row in off)]
        assert {one.pod_uid for one in bench.pods.running.values()} == {"a", "b"} - set(stopped)
    assert refusals > 10


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_the_process_may_end_between_any_two_steps(hierarchy: Hierarchy) -> None:
    whole = Bench(hierarchy)
    steps = work(whole.wanted.plan, whole.kernel.observe(ROOT)).steps
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
            case "remove" if not list(kernel.children(path)):
                kernel.rmdir(path)
            case "anew" if not list(kernel.children(path)):
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
        bench.turn()
    rest = compare(bench.wanted.plan, kernel.observe(ROOT))
    assert all(row.verdict == "surplus" for row in rest), "only what others are in stays"
    for pid in strangers:
        kernel.end(pid, 0)
    bench.settle()


def test_a_process_in_an_inner_v2_group_is_said_until_it_goes() -> None:
    bench = Bench("v2")
    bench.kernel.mkdir(ROOT)
    pid = bench.kernel.spawn(ROOT)
    assert not bench.turn()
    assert bench.pods.running == {}
    assert any(ROOT in line for line in bench.said)
    bench.kernel.end(pid, 0)
    bench.settle()
