"""What an in-place resize that is on its way leaves in files."""

from __future__ import annotations

import pytest

from qoslet.core.audit.finding import AuditReport, Finding, Verdict
from qoslet.core.audit.resizing import without_resizes
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.fleet.test_change import pod_of
from tests.core.plan.test_live_plan import CAPACITY
from tests.core.vectors.fixtures import node_of, resources

FILE = "cpu.shares"


def planned(cpu: str) -> Plan:
    node = node_of("1.36", capacity=CAPACITY, host={"hierarchy": "v1"})
    return plan([pod_of("web", resources({"requests": {"cpu": cpu}}))], node)


def finding(plan: Plan, found: str | None, file: str | None = FILE) -> Finding:
    (group,) = [cgroup for cgroup in plan.cgroups if cgroup.level == "pod"]
    return Finding(
        verdict="drift", name=group.name, path=group.name, message="off", file=file, found=found
    )


@pytest.mark.parametrize(
    ("allocated", "found", "verdict"),
    [
        ("1", "1024", "pending"),
        ("1", "512", "drift"),
        ("1", None, "drift"),
        ("2", "2048", "drift"),
        ("2", "1024", "drift"),
    ],
)
def test_a_value_as_allocated_is_on_its_way_where_another_is_asked_for(
    allocated: str, found: str | None, verdict: Verdict
) -> None:
    asked = planned("2")
    row = finding(asked, found)
    report = without_resizes(AuditReport(1, 1, (row,), ()), asked, planned(allocated))
    (left,) = report.findings
    assert left.verdict == verdict
    assert (left == row) == (verdict == "drift")
