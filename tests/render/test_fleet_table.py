"""A fleet as columns for notebooks: what a node does not say is null, not zero."""

from __future__ import annotations

from qoslet.core.fleet.nodes import NodeFactory
from qoslet.core.fleet.plan import FleetPlanner, fleet_of
from qoslet.core.node.flags import Flags
from qoslet.render.documents.fleet.arrow import columns
from tests.cli.fleet.clusters import node
from tests.core.fleet.test_fit import cluster_of


def test_what_a_node_does_not_say_is_null() -> None:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    cluster, _ = cluster_of([node("n", cpu="4")], spec)
    results = FleetPlanner(cluster, [NodeFactory(Flags())], None).results(cluster.nodes)
    found = columns(fleet_of(cluster, results, None))
    assert found["requested_cpu_milli"] == [0]
    assert found["requested_pods"] == found["allocatable_pid"] == [None]
    assert found["capacity_cpu_milli"] == [4000]
