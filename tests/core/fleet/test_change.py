"""What a change means for a node of a fleet is what ``diff`` says of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.api.pod import Container, Pod, Resources
from qoslet.core.diff.diff import diff
from qoslet.core.fleet.change import NodeChange
from qoslet.core.fleet.outcome import NodeOutcome, NodePlanner, ShapeGroup
from qoslet.core.fleet.second_side import SecondSide
from qoslet.core.fleet.shapes import Shapes
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from tests.core.fleet.test_outcome import POD_LISTS, grouped, placed
from tests.core.plan.test_live_plan import CAPACITY, nodes
from tests.core.vectors.fixtures import node_of, quantities, resources

SIZES = (10, 250, 1500)
QOS = {"gates": {"MemoryQoS": True}}
WAYS: list[list[tuple[str, dict[str, Any]]]] = [
    [("1.36", {}), ("1.37", {})],
    [("1.36", QOS), ("1.37", {**QOS, "memory_reservation_policy": "TieredReservation"})],
    [("1.37", {"host": {"hierarchy": "v1"}}), ("1.37", {"host": {"hierarchy": "v2"}})],
    [("1.37", {"gates": {"QOSReserved": True}, "qos_reserved": 50}), ("1.37", {"max_pods": 3})],
]


def pod_of(name: str, size: Resources) -> Pod:
    container = Container("app", "regular", "spec.containers[0]", size)
    return Pod("shop", name, f"uid-{name}", f"pods.json: Pod shop/{name}", (container,))


@st.composite
def sides(draw: st.DrawFn) -> list[Node]:
    """Two nodes that often differ little, and whose pods rarely depend on each other."""
    node = draw(nodes())
    other = draw(st.one_of(nodes(), st.just(node)))
    if draw(st.integers(0, 5)):
        node, other = _plain(node), _plain(other)
    if draw(st.booleans()):
        limits = quantities({"cpu": draw(st.sampled_from(["1", "4"])), "memory": "64Gi"})
        other = replace(other, capacity={**other.capacity, **limits})
    return [replace(one, name="n1") for one in (node, other)]


def _plain(node: Node) -> Node:
    kubelet = replace(node.kubelet, cpu_manager_policy="none", cgroups_per_qos=True)
    return replace(node, kubelet=kubelet)


@st.composite
def crowds(draw: st.DrawFn) -> list[Pod]:
    """Pods of which some are alike, and some contradict their status."""
    found = []
    for at, pod in enumerate(draw(POD_LISTS)):
        if draw(st.integers(0, 3)) == 0:
            pod = replace(pod, status_qos=draw(st.sampled_from(["Guaranteed", "BestEffort"])))
        found += [
            replace(pod, name=f"{pod.name}-{again}", uid=f"{pod.uid}-{at}-{again}")
            for again in range(draw(st.integers(1, 3)))
        ]
    return placed(found)


def second(
    side: SecondSide, planners: list[NodePlanner], shapes: Shapes, found: list[Pod]
) -> tuple[NodeOutcome, NodeChange]:
    """What the second side of a node with these pods is."""
    groups = grouped(planners[0], shapes, found)
    if side.is_exact:
        groups = [ShapeGroup(number, 1, first) for number, first in shapes.add_all(found)]
    first = planners[0].plan("n1", groups, (), side.is_exact)
    if side.is_exact:
        return side.whole(first, groups, tuple)
    known = side.of(first, groups, (), tuple)
    renamed = side.of(replace(first, outcome=replace(first.outcome, name="n2")), groups, (), tuple)
    assert renamed == (replace(known[0], name="n2"), known[1])
    return known


@settings(max_examples=300, deadline=None)
@given(sides(), crowds())
def test_its_summary_is_that_of_the_diff(both: list[Node], found: list[Pod]) -> None:
    shapes = Shapes()
    shapes.add_all(found)
    planners = [NodePlanner(one, shapes.pods) for one in both]
    side = SecondSide(planners[0], planners[1])
    _, change = second(side, planners, shapes, found)
    wanted = diff(plan(found, both[0]), plan(found, both[1]))
    assert (change.worse, change.better, change.changed) == (
        wanted.worse,
        wanted.better,
        len(wanted.changes),
    )
    pods = [one for one in wanted.shares if one.cgroup.level == "pod"]
    assert change.pods_with_less_cpu == sum(one.direction == "worse" for one in pods)
    assert change.pods_with_more_cpu == sum(one.direction == "better" for one in pods)
    # those without a share, as on a node with two trees of pods, are in no interval
    assert sum(change.ratios) in (0, sum(pod.os == "linux" for pod in found))


def test_nodes_with_the_same_sums_of_other_pods_change_alike() -> None:
    """One side answers for many nodes, whose totals decide about the cgroups above the pods."""
    sizes = [resources({"requests": {"cpu": f"{size}m", "memory": "64Mi"}}) for size in SIZES]
    found = [pod_of(f"p{number}", sizes[number % len(sizes)]) for number in range(4 * len(sizes))]
    shapes = Shapes()
    shapes.add_all(found)
    for way in WAYS:
        planners = [
            NodePlanner(node_of(release, capacity=CAPACITY, **more), shapes.pods)
            for release, more in way
        ]
        side = SecondSide(planners[0], planners[1])
        for end in range(len(found)):
            some = found[end % 3 : end + 1]
            known = second(side, planners, shapes, some)
            assert known == second(SecondSide(planners[0], planners[1]), planners, shapes, some)
            wanted = diff(*(plan(some, replace(one.node, name="n1")) for one in planners))
            assert known[1].changed == len(wanted.changes)


@settings(max_examples=300, deadline=None)
@given(sides(), crowds())
def test_its_outcome_is_that_of_the_node_alone(both: list[Node], found: list[Pod]) -> None:
    shapes = Shapes()
    shapes.add_all(found)
    planners = [NodePlanner(one, shapes.pods) for one in both]
    side = SecondSide(planners[0], planners[1])
    if side.is_exact:
        return
    outcome, _ = second(side, planners, shapes, found)
    alone = planners[1].plan("n1", grouped(planners[1], shapes, found), ()).outcome
    count = len(alone.problems)
    assert outcome == replace(alone, problems=(), problem_count=count)
    assert list(outcome.requested) == list(alone.requested)


def test_pods_that_come_one_by_one_change_as_many_values() -> None:
    """As those of a bundle do."""
    found = [pod_of(f"p{number}", resources({"requests": {"cpu": "1"}})) for number in range(3)]
    shapes = Shapes()
    members = shapes.add_all(found)
    before, after = (
        NodePlanner(node_of("1.37", host={"hierarchy": one}, capacity=CAPACITY), shapes.pods)
        for one in ("v1", "v2")
    )
    each = [ShapeGroup(number, 1, first) for number, first in members]
    together = grouped(before, shapes, found)
    known = [
        SecondSide(before, after).of(before.plan("n1", some, ()), some, (), tuple)
        for some in (each, together)
    ]
    assert known[0] == known[1]
    assert sum(known[0][1].ratios) == 3
