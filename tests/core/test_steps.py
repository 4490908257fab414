"""Steps on a kernel made of values: whatever prefix was done, the next pass completes it."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.drift import compare
from qoslet.core.node import Hierarchy
from qoslet.core.steps import Step, ordered
from qoslet.core.tree import Plan
from qoslet.sim.kernel import SimKernel
from tests.core.trees import ROOT, plan_of, released, trees

HIERARCHIES: tuple[Hierarchy, ...] = get_args(Hierarchy)
FOREIGN = "/other"


def kernel_of(hierarchy: Hierarchy) -> SimKernel:
    """A kernel on which somebody else has a group."""
    kernel = SimKernel(hierarchy)
    kernel.perform([Step("create", FOREIGN), Step("set", FOREIGN, "pids.max", "11")])
    return kernel


def next_steps(plan: Plan, kernel: SimKernel) -> list[Step]:
    observed = kernel.observe(ROOT)
    return ordered(compare(plan, observed), observed)


def perform(kernel: SimKernel, steps: list[Step]) -> None:
    """Every step works, or the test names the one that did not."""
    wrong = [outcome for outcome in kernel.perform(steps) if outcome.error is not None]
    assert not wrong, (wrong, steps)


def converge(plan: Plan, kernel: SimKernel) -> None:
    """One pass is enough: nothing differs, and a second one has nothing to do."""
    perform(kernel, next_steps(plan, kernel))
    assert compare(plan, kernel.observe(ROOT)) == []
    assert next_steps(plan, kernel) == []


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
