"""What nodes share of their plans is what each of them would plan alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.api.pod import Pod
from qoslet.core.fleet.cluster import Cluster
from qoslet.core.fleet.nodes import NodeFactory
from qoslet.core.fleet.outcome import NodePlanner
from qoslet.core.fleet.plan import FleetPlanner
from qoslet.core.fleet.read import BatchReader
from qoslet.core.fleet.second_side import SecondSide, unchanged
from qoslet.core.fleet.shape_change import ShapeStore
from qoslet.core.fleet.shapes import Shapes
from qoslet.core.fleet.splitter import Batch, ItemSplitter
from qoslet.core.fleet.templates import TemplateStore, node_key
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.resources.pod_template import TemplateCache
from tests.cli.fleet.clusters import cluster, text_of
from tests.core.fleet.test_change import second
from tests.core.fleet.test_outcome import POD_LISTS, grouped, placed
from tests.core.plan.test_live_plan import nodes
from tests.core.vectors.fixtures import quantities


@st.composite
def machines(draw: st.DrawFn, node: Node) -> Node:
    """The node on another machine, with other reservations."""
    swap: Any = draw(st.sampled_from(["", "NoSwap", "LimitedSwap"]))
    kubelet = replace(
        node.kubelet,
        swap_behavior=swap,
        kube_reserved=quantities({"memory": draw(st.sampled_from(["0", "1Gi"]))}),
        max_pods=draw(st.sampled_from([5, 110])),
    )
    capacity = {
        "cpu": draw(st.sampled_from(["4", "8"])),
        "memory": draw(st.sampled_from(["2Gi", "8Gi", "8388604Ki"])),
    }
    amounts = {**node.capacity, **quantities(capacity)}
    return replace(node, name=None, capacity=amounts, kubelet=kubelet, swap=1 << 30)


@settings(max_examples=200, deadline=None)
@given(nodes(), st.data(), POD_LISTS)
def test_a_shared_template_is_what_the_node_alone_plans(
    node: Node, data: st.DataObject, found: list[Pod]
) -> None:
    shapes, store = Shapes(), TemplateStore()
    shapes.add_all(placed(found))
    for one in data.draw(st.lists(machines(node), min_size=2, max_size=3)):
        planner = NodePlanner(one, shapes.pods, store)
        alone = TemplateCache(planner.planner.policy)
        for number, shape in enumerate(shapes.pods):
            assert planner.template(number) == alone.of(shape)


@settings(max_examples=150, deadline=None)
@given(nodes(), nodes(), st.data(), POD_LISTS)
def test_shapes_that_were_compared_compare_the_same_on_other_nodes(
    node: Node, other: Node, data: st.DataObject, found: list[Pod]
) -> None:
    found = placed([pod for pod in found if pod.os == "linux"])
    shapes, store, known = Shapes(), TemplateStore(), ShapeStore()
    shapes.add_all(found)
    for _ in range(2):
        before, after = data.draw(machines(node)), data.draw(machines(other))
        sides = [NodePlanner(one, shapes.pods, store) for one in (before, after)]
        apart = [NodePlanner(one, shapes.pods) for one in (before, after)]
        shared, alone = SecondSide(sides[0], sides[1], known), SecondSide(apart[0], apart[1])
        if shared.is_exact:
            return
        assert second(shared, sides, shapes, found) == second(alone, apart, shapes, found)


@settings(max_examples=100, deadline=None)
@given(nodes(), POD_LISTS)
def test_a_standing_beside_itself_is_one_beside_its_equal(node: Node, found: list[Pod]) -> None:
    shapes = Shapes()
    shapes.add_all(placed(found))
    planner = NodePlanner(node, shapes.pods)
    side = SecondSide(planner, planner)
    if side.is_exact:
        return
    groups = grouped(planner, shapes, found)
    _, change = second(side, [planner, planner], shapes, found)
    assert unchanged(planner, planner.plan("n", groups, ()), groups) == change


@given(nodes(), nodes())
@settings(max_examples=50, deadline=None)
def test_nodes_have_one_key_if_they_are_equal_but_for_their_names(node: Node, other: Node) -> None:
    assert node_key(node) == node_key(replace(node, name="other", origins={}, assumed=()))
    assert (node_key(node) == node_key(other)) == (
        replace(node, name="") == replace(other, name="")
    )


def planned(pods: int, *sides: Flags, memories: int = 1) -> tuple[FleetPlanner, Cluster]:
    """A planner that planned 12 nodes of 3 releases with so many pods, and its cluster."""
    items = cluster(12, pods, 3)
    for at, item in enumerate(items[:12]):
        item["status"]["capacity"]["memory"] = f"{32 * 1024 + at % memories}Mi"
    found, splitter, reader = Cluster(), ItemSplitter("f"), BatchReader()
    for batch in (*splitter.feed(text_of(items).encode()), *splitter.finish()):
        assert isinstance(batch, Batch)
        found.add(reader.read(batch))
    planner = FleetPlanner(found, [NodeFactory(one) for one in sides])
    assert len(list(planner.results(found.nodes))) == 12
    return planner, found


OLD, NEW = Flags(kubernetes="1.36"), Flags(kubernetes="1.37")


def test_each_shape_is_planned_once_a_side_whatever_the_number_of_pods_and_nodes() -> None:
    one, found = planned(60, OLD)
    shapes = len(found.shapes.pods)
    assert one.templates.planned == shapes == 4
    for pods in (60, 240):
        both, _ = planned(pods, OLD, NEW)
        assert (both.templates.planned, both.compared) == (2 * shapes, shapes)


def test_a_side_that_differs_in_nothing_plans_nothing() -> None:
    both, found = planned(60, OLD, OLD)
    assert (both.templates.planned, both.compared) == (len(found.shapes.pods), 0)


def test_the_memory_of_machines_does_not_multiply_templates() -> None:
    one, found = planned(60, OLD, Flags(kubernetes="1.36", hierarchy="v1"), memories=4)
    assert one.templates.planned == 2 * len(found.shapes.pods)


def test_releases_are_planned_once_each_though_both_sides_have_them() -> None:
    one, found = planned(60, Flags())
    both, _ = planned(60, Flags(), Flags(hierarchy="v1"))
    most = 3 * len(found.shapes.pods)
    assert one.templates.planned <= most
    assert both.templates.planned - one.templates.planned <= most
