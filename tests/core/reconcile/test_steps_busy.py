"""Steps where CPU lists move at every level and processes hold memory: nothing is refused."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.sim.kernel import SimKernel
from tests.core.reconcile.trees import FOUR_CPUS, ROOT, plan_of

CPUS: tuple[int, ...] = (0, 1, 2, 3)
TIER, POD, LEAF = f"{ROOT}/tier", f"{ROOT}/tier/poda", f"{ROOT}/tier/poda/c1"
CHAIN = (ROOT, TIER, POD, LEAF)

Lists = tuple[str, ...]


@st.composite
def nested(draw: st.DrawFn) -> Lists:
    """A CPU list for each group of ``CHAIN``, each a part of the one above."""
    found = []
    above = CPUS
    for _ in CHAIN:
        above = tuple(sorted(draw(st.sets(st.sampled_from(above), min_size=1))))
        found.append(",".join(str(cpu) for cpu in above))
    return tuple(found)


def listed(hierarchy: Hierarchy, lists: Lists, planned: frozenset[str]) -> Plan:
    """A plan of the chain in which only ``planned`` groups name their CPUs."""
    return plan_of(
        hierarchy,
        {
            path: {"cpuset.cpus": cpus} if path in planned else {}
            for path, cpus in zip(CHAIN, lists, strict=True)
        },
    )


def next_steps(plan: Plan, kernel: SimKernel) -> list[Step]:
    observed = kernel.observe(ROOT)
    return ordered(compare(plan, observed), observed)


def perform(kernel: SimKernel, steps: list[Step]) -> None:
    wrong = [outcome for outcome in kernel.perform(steps) if outcome.error is not None]
    assert not wrong, (wrong, steps)


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@settings(max_examples=150)
@given(old=nested(), new=nested(), planned=st.sets(st.sampled_from(CHAIN), min_size=1))
def test_lists_move_at_every_level_after_any_prefix(hierarchy, old, new, planned):
    before = listed(hierarchy, old, frozenset(planned))
    after = listed(hierarchy, new, frozenset(planned))
    kernel = SimKernel(hierarchy, facts=FOUR_CPUS)
    perform(kernel, next_steps(before, kernel))
    assert compare(before, kernel.observe(ROOT)) == []
    steps = next_steps(after, kernel)
    assume(steps)
    for length in range(len(steps) + 1):
        stopped = kernel.copy()
        perform(stopped, steps[:length])
        perform(stopped, next_steps(after, stopped))
        assert compare(after, stopped.observe(ROOT)) == []
        assert next_steps(after, stopped) == []


def test_a_parent_grows_before_its_child():
    kernel = SimKernel("v1", facts=FOUR_CPUS)
    perform(kernel, next_steps(listed("v1", ("2,3", "3", "3", "3"), frozenset(CHAIN)), kernel))
    steps = next_steps(listed("v1", ("0,2,3", "0,3", "0,3", "0"), frozenset(CHAIN)), kernel)
    assert [step.path for step in steps[:3]] == [ROOT, TIER, POD]
    perform(kernel, steps)


def test_a_group_without_a_plan_grows_for_the_one_below():
    planned = frozenset({ROOT, LEAF})
    kernel = SimKernel("v1", facts=FOUR_CPUS)
    perform(kernel, next_steps(listed("v1", ("0", "0", "0", "0"), planned), kernel))
    perform(kernel, next_steps(listed("v1", ("0,1", "0", "0", "1"), planned), kernel))
    values = {path: kernel.read(path, "cpuset.cpus") for path in CHAIN}
    assert values == {ROOT: "0-1", TIER: "0-1", POD: "0-1", LEAF: "1"}
