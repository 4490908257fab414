"""What a change means for a node of a fleet is what ``diff`` says of it."""

from __future__ import annotations

from hypothesis import given, settings

from qoslet.core.api.pod import Pod
from qoslet.core.diff.diff import diff
from qoslet.core.fleet.change import ChangePlanner
from qoslet.core.fleet.outcome import NodePlanner, ShapeGroup
from qoslet.core.fleet.shapes import Shapes
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from tests.core.fleet.test_outcome import POD_LISTS, grouped, placed
from tests.core.plan.test_live_plan import nodes


@settings(max_examples=150, deadline=None)
@given(nodes(), nodes(), POD_LISTS)
def test_its_summary_is_that_of_the_diff(node: Node, other: Node, found: list[Pod]) -> None:
    # a Windows pod has no cgroup on Linux
    found = placed([pod for pod in found if pod.os == "linux"])
    shapes = Shapes()
    shapes.add_all(found)
    before, after = (NodePlanner(one, shapes.pods) for one in (node, other))
    compared = ChangePlanner(before, after)
    exact = compared.is_exact
    standings = []
    for one in (before, after):
        groups = grouped(before if before.is_exact else after, shapes, found)
        if exact:
            groups = [ShapeGroup(number, 1, first) for number, first in shapes.add_all(found)]
        standings.append(one.plan(one.node.name or "", groups, (), exact))
    change = compared.compare(*standings)
    wanted = diff(plan(found, node), plan(found, other))
    assert (change.worse, change.better, change.changed) == (
        wanted.worse,
        wanted.better,
        len(wanted.changes),
    )
    pods = [one for one in wanted.shares if one.cgroup.level == "pod"]
    assert change.pods_with_less_cpu == sum(one.direction == "worse" for one in pods)
    assert change.pods_with_more_cpu == sum(one.direction == "better" for one in pods)
