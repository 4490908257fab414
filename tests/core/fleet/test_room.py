"""The room of a node of a fleet and of its plan: what the scheduler counts with."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.fleet.test_change import pod_of
from tests.core.fleet.test_outcome import placed, standing
from tests.core.vectors.fixtures import node_of, quantities, resources


def room_rows(found: Plan) -> list[str]:
    return [row.message for row in found.problems if "is allocatable" in row.message]


def test_room_is_what_the_node_reports_where_its_configuration_is_not_known() -> None:
    """The scheduler counts with status.allocatable, of which capacity says nothing."""
    size = resources({"requests": {"cpu": "3950m", "memory": "64Mi"}})
    found = placed([pod_of("web", size)])
    whole = node_of("1.36", capacity={"cpu": "4", "memory": "8Gi"})
    reported = replace(whole, status_allocatable=quantities({"cpu": "3920m", "memory": "8Gi"}))
    for node, rows in (
        (whole, 0),
        (reported, 1),
        (replace(reported, kubelet_given=True), 0),
        (replace(reported, origins={"kubeReserved": "--kube-reserved"}), 0),
    ):
        said = room_rows(plan(found, node))
        assert len(said) == rows
        assert all("request 3950m cpu, 3920m is allocatable" in row for row in said)
        outcome = standing(node, found).outcome
        assert (outcome.requested["cpu"] > outcome.schedulable["cpu"]) is bool(rows)
        assert outcome.state == ("warning" if rows else "ok")
