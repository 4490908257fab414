"""Steps on a kernel made of values: whatever prefix was done, the next pass completes it."""

from __future__ import annotations

import errno
from math import inf
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.pod import Container, Pod, Resources
from qoslet.core.node.node import Hierarchy
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import parse as quantity
from qoslet.core.reconcile.drift import Difference, compare
from qoslet.core.reconcile.step_order import magnitude, ordered
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.sim.kernel import Fault, SimKernel
from tests.core.reconcile.trees import ROOT, MiB, bandwidth_chains, plan_of, released, trees
from tests.core.vectors.fixtures import node_of

HIERARCHIES: tuple[Hierarchy, ...] = get_args(Hierarchy)
FOREIGN = "/other"


def kernel_of(hierarchy: Hierarchy) -> SimKernel:
    """A kernel on which somebody else has a group."""
    kernel = SimKernel(hierarchy)
    kernel.perform([Step("create", FOREIGN), Step("set", FOREIGN, "pids.max", "11")])
    return kernel


def next_steps(wanted: Plan, kernel: SimKernel) -> list[Step]:
    observed = kernel.observe(ROOT)
    return ordered(compare(wanted, observed), observed)


def perform(kernel: SimKernel, steps: list[Step]) -> None:
    """Every step works, or the test names the one that did not."""
    wrong = [outcome for outcome in kernel.perform(steps) if outcome.error is not None]
    assert not wrong, (wrong, steps)


def converge(wanted: Plan, kernel: SimKernel) -> None:
    """One pass is enough: nothing differs, and a second one has nothing to do."""
    perform(kernel, next_steps(wanted, kernel))
    assert compare(wanted, kernel.observe(ROOT)) == []
    assert next_steps(wanted, kernel) == []


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@settings(max_examples=150)
@given(data=st.data())
def test_after_any_prefix_the_next_pass_completes_the_change(hierarchy, data):
    before, after = data.draw(trees(hierarchy), "old"), data.draw(trees(hierarchy), "new")
    old = plan_of(hierarchy, before)
    new = plan_of(hierarchy, released(hierarchy, before, after))
    kernel = kernel_of(hierarchy)
    converge(old, kernel)
    steps = next_steps(new, kernel)
    assert all(step.path == ROOT or step.path.startswith(f"{ROOT}/") for step in steps)
    foreign = kernel.observe(FOREIGN)
    for length in range(len(steps) + 1):
        stopped = kernel.copy()
        perform(stopped, steps[:length])
        converge(new, stopped)
        assert stopped.observe(FOREIGN) == foreign


@settings(max_examples=300)
@given(old=bandwidth_chains(), new=bandwidth_chains())
def test_quotas_and_periods_move_at_every_level_after_any_prefix(old, new):
    kernel = SimKernel("v1")
    converge(plan_of("v1", old), kernel)
    steps = next_steps(plan_of("v1", new), kernel)
    for length in range(len(steps) + 1):
        stopped = kernel.copy()
        perform(stopped, steps[:length])
        converge(plan_of("v1", new), stopped)


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@settings(max_examples=100)
@given(data=st.data())
def test_whatever_others_did_the_next_pass_ends_it(hierarchy, data):
    """Groups removed, values changed, a group made: by other hands, between two passes."""
    wanted = plan_of(hierarchy, data.draw(trees(hierarchy), "plan"))
    kernel = kernel_of(hierarchy)
    converge(wanted, kernel)
    for path in sorted(kernel.observe(ROOT).cgroups, reverse=True):
        match data.draw(st.sampled_from(("nothing", "remove", "lose", "set", "make")), path):
            case "remove" if not list(kernel.children(path)):
                kernel.rmdir(path)
            case "lose" if hierarchy == "v1" and not list(kernel.children(path)):
                kernel.rmdir(path, data.draw(st.sampled_from(kernel.controllers)))
            case "set":
                kernel.write(path, "pids.max", "3")
            case "make":
                kernel.mkdir(f"{path}/by-others")
    converge(wanted, kernel)


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@settings(max_examples=100)
@given(data=st.data())
def test_a_refusal_on_the_way_is_made_good_by_the_next_pass(hierarchy, data):
    wanted = plan_of(hierarchy, data.draw(trees(hierarchy), "plan"))
    index = data.draw(st.integers(0, 20), "index")
    kernel = SimKernel(hierarchy, faults=(Fault(index, errno.EBUSY),))
    outcomes = kernel.perform(next_steps(wanted, kernel))
    failed = [outcome.errno_name for outcome in outcomes if outcome.error is not None]
    assert failed == (["EBUSY"] if len(outcomes) > index else [])
    if failed:
        converge(wanted, kernel)


def test_a_change_that_is_always_refused_stays_refused_and_nothing_else():
    wanted = plan_of("v2", {ROOT: {"cpu.weight": "7", "pids.max": "9"}})
    kernel = SimKernel("v2", faults=(Fault(1, errno.EPERM, "always"),))
    for _ in range(3):
        outcomes = kernel.perform(next_steps(wanted, kernel))
        assert outcomes[-1].errno_name == "EPERM"
        refused = outcomes[-1].step
    rest = [step for step in next_steps(wanted, kernel) if step != refused]
    perform(kernel, rest)
    assert [d.file for d in compare(wanted, kernel.observe(ROOT))] == [refused.file]


def quotas_of(text: str) -> dict[str, str]:
    return {"cpu.cfs_quota_us": text, "cpu.cfs_period_us": "100000"}


def test_a_parent_waits_with_a_share_below_that_of_a_surplus_group_in_use():
    pod, left, kept = f"{ROOT}/poda", f"{ROOT}/poda/c1", f"{ROOT}/poda/c2"
    old = plan_of(
        "v1", {ROOT: {}, pod: quotas_of("90000"), left: quotas_of("80000"), kept: quotas_of("5000")}
    )
    new = plan_of("v1", {ROOT: {}, pod: quotas_of("10000"), kept: quotas_of("9000")})
    kernel = SimKernel("v1")
    converge(old, kernel)
    pid = kernel.spawn(left)
    perform(kernel, next_steps(new, kernel))
    assert next_steps(new, kernel) == []
    assert kernel.read(kept, "cpu.cfs_quota_us") == "9000"
    assert kernel.read(pod, "cpu.cfs_quota_us") == "90000"
    kernel.end(pid, 0)
    converge(new, kernel)


def test_a_surplus_group_with_processes_anywhere_below_stays():
    kernel = SimKernel("v2")
    perform(kernel, [Step("create", f"{ROOT}/a/b/c"), Step("create", f"{ROOT}/a/d")])
    kernel.spawn(f"{ROOT}/a/b/c")
    wanted = plan_of("v2", {ROOT: {}})
    assert [step.path for step in next_steps(wanted, kernel)] == [f"{ROOT}/a/d"]


def test_an_idle_group_gets_its_weight_once_it_is_idle_no_more():
    kernel = SimKernel("v2")
    perform(kernel, [Step("create", ROOT), Step("set", ROOT, "cpu.idle", "1")])
    observed = kernel.observe(ROOT)
    rows = [
        Difference(ROOT, "differs", "cpu.weight", "35", "0"),
        Difference(ROOT, "differs", "cpu.idle", "0", "1"),
    ]
    steps = ordered(rows, observed)
    perform(kernel, steps)
    assert [step.file for step in steps] == ["cpu.idle", "cpu.weight"]


@pytest.mark.parametrize(
    ("file", "text", "allows"),
    [
        ("cpu.max", "max 100000", inf),
        ("cpu.max", "50000 100000", 0.5),
        ("cpu.max", "50000", 0.5),
        ("memory.max", "max", inf),
        ("memory.limit_in_bytes", "-1", inf),
        ("pids.max", None, inf),
        ("pids.max", "7", 7.0),
    ],
)
def test_how_much_a_value_allows(file, text, allows):
    assert magnitude(file, text) == allows


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step("create", "/q/a"), "create /q/a"),
        (Step("remove", "/q/a"), "remove /q/a"),
        (Step("set", "/q/a", "pids.max", "7"), "set /q/a/pids.max = 7"),
        (Step("attach", "/q/a", pid=12), "move process 12 into /q/a"),
    ],
)
def test_a_step_says_what_it_is(step, text):
    assert step.describe() == text


@pytest.mark.parametrize("minor", [6, 22, 27, 30, 36, 37])
@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_a_planned_node_is_made_kept_and_emptied_without_a_refusal(hierarchy, minor):
    host = {"hierarchy": hierarchy, "hugepage_sizes": (2 * MiB, 1024 * MiB)}
    capacity = {"cpu": "2", "memory": "8Gi"}
    node = node_of(minor, capacity=capacity, host=host, cgroup_root=ROOT, runtime="process")
    asked = {"cpu": quantity("500m"), "memory": quantity("64Mi")}
    pods = [
        Pod("d", name, name, "t.yaml", (Container("app", "regular", "spec.containers[0]", row),))
        for name, row in {
            "sure": Resources(asked, asked),
            "part": Resources(asked),
            "none": Resources(),
        }.items()
    ]
    kernel = kernel_of(hierarchy)
    converge(plan(pods, node), kernel)
    assert kernel.observe(f"{ROOT}/kubepods/podsure/app").cgroups
    converge(plan(pods[:1], node), kernel)
    converge(plan([], node), kernel)
    assert not [path for path in kernel.observe(ROOT).cgroups if "/pod" in path]
