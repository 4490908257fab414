"""A node of a fleet says what its plan says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.pod import Pod
from qoslet.core.fleet.outcome import NodeOutcome, NodePlan, NodePlanner, ShapeGroup, amounts
from qoslet.core.fleet.shapes import Shapes
from qoslet.core.node.node import Node, allocatable, enforced
from qoslet.core.plan.plan import plan
from tests.core.plan.test_live_plan import nodes, pods

POD_LISTS = st.lists(pods(), max_size=6, unique_by=(lambda pod: pod.uid, lambda pod: pod.key))


def placed(found: list[Pod]) -> list[Pod]:
    """The pods as documents of one file name them."""
    from msgspec.structs import replace

    return [replace(pod, where=f"pods.json: Pod {pod.key}") for pod in found]


def grouped(planner: NodePlanner, shapes: Shapes, found: list[Pod]) -> list[ShapeGroup]:
    """The pods by shape; one by one where they depend on each other."""
    groups: dict[int, ShapeGroup] = {}
    for number, member in shapes.add_all(found):
        key = len(groups) if planner.is_exact else number
        if key in groups:
            groups[key].count += 1
        else:
            groups[key] = ShapeGroup(number, 1, member)
    return list(groups.values())


def standing(node: Node, found: list[Pod]) -> NodePlan:
    shapes = Shapes()
    shapes.add_all(found)
    planner = NodePlanner(node, shapes.pods)
    return planner.plan(node.name or "", grouped(planner, shapes, found), ())


@settings(max_examples=150, deadline=None)
@given(nodes(), POD_LISTS)
def test_it_says_what_the_plan_says(node: Node, found: list[Pod]) -> None:
    found = placed(found)
    outcome: NodeOutcome = standing(node, found).outcome
    made = plan(found, node)
    assert outcome.pods == len(made.pods)
    assert sorted(map(repr, outcome.problems)) == sorted(map(repr, made.problems))
    assert outcome.allocatable == amounts(allocatable(node))
    assert outcome.enforced == amounts(enforced(node))
    above = {one.name: one.settings for one in made.cgroups if one.pod is None}
    assert {one.name: one.settings for one in standing(node, found).upper} == above
