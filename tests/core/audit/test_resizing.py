"""What an in-place resize that is on its way leaves in files, and a kubelet of another release."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.api.pod import Resources
from qoslet.core.audit.finding import AuditReport, Finding, Verdict
from qoslet.core.audit.kubelet_work import without_kubelet_work
from qoslet.core.audit.resizing import (
    with_allocated,
    without_kept,
    without_releases,
    without_resizes,
)
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import parse
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.audit.trees import look, plan_of, tree_of, written
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


def test_a_resize_on_its_way_is_told_without_what_an_earlier_one_may_have_left() -> None:
    asked = planned("2")
    row = replace(finding(asked, "1024"), message="cpu.shares is 1024: left by an in-place resize")
    for expected, told in (("2048", "planned 2048"), (None, "not planned")):
        report = AuditReport(1, 1, (replace(row, expected=expected),), ())
        (left,) = without_resizes(report, asked, planned("1")).findings
        way = "as allocated, a resize of the pod is on its way"
        assert left.message == f"cpu.shares is 1024, {told}: {way}"


@pytest.mark.parametrize(
    ("found", "value", "severity"),
    [("512", "512", "info"), ("512", "1024", "warning"), (None, "512", "warning")],
)
def test_what_an_agent_keeps_beside_the_kubelet_is_a_note(
    found: str | None, value: str, severity: str
) -> None:
    # of an agent in mode protect with the variant qoslet beside a kubelet 1.36.2: drift, set by nobody
    row = finding(planned("2"), found)
    (left,) = without_kept(AuditReport(1, 1, (row,), ()), {(row.path, FILE): value}).findings
    assert left.severity == severity
    assert (left == row) == (severity == "warning")
    kept = f"{FILE} is {found}, not planned: qoslet's agent keeps it so by its policy"
    assert left.message == (kept if severity == "info" else row.message)


def test_a_kubelet_that_did_not_tell_its_release_may_be_an_older_one(tmp_path: Path) -> None:
    # a kubelet 1.36.2 on a busy node, whose /metrics took more than 10 s: its /configz has the factor
    assumed, older = (
        plan_of(str(tmp_path), "v2", "systemd", one, memory_throttling_factor="0.9")
        for one in ("1.37", "1.36")
    )
    live = tree_of(older)
    report = look(assumed, live)
    assert {(one.file, one.severity) for one in report.findings} == {("memory.high", "warning")}
    left = without_releases(report, assumed, {"1.36": older}).findings
    assert {(one.verdict, one.severity, one.fix) for one in left} == {("drift", "info", None)}
    assert "as 1.36 has it" in left[0].message
    assert "--kubernetes" in left[0].hint
    # a kubelet 1.30.14 with Memory QoS: memory.min was as 1.30 has it, "left by TieredReservation" too
    rows = tuple(
        replace(one, message=f"{one.message}: left by a factor", is_earlier=True)
        for one in report.findings
    )
    earlier = without_releases(replace(report, findings=rows), assumed, {"1.36": older})
    assert without_kubelet_work(earlier, KubeletWork(older=frozenset())).findings == left
    path = left[0].path
    report = look(assumed, written(live, path, "memory.high", "4096000"))
    left = without_releases(report, assumed, {"1.36": older}).findings
    assert [one.path for one in left if one.counts] == [path]


def test_a_pod_keeps_what_it_was_allocated_before_its_kubelet_changed(tmp_path: Path) -> None:
    # a kubelet 1.36.2 that was started again with cpuCFSQuota off, beside a resize that is deferred
    before = plan_of(str(tmp_path), "v2", "cgroupfs")
    after = plan_of(str(tmp_path), "v2", "cgroupfs", cpu_cfs_quota="false")
    live = tree_of(before)
    first = after.pods[0].pod
    amounts = {**first.containers[0].resources.limits, "cpu": parse("1900m")}
    more = replace(first.containers[0], resources=Resources(amounts, amounts))
    resized = replace(first, containers=(more, *first.containers[1:]))
    asked = plan([resized, *(one.pod for one in after.pods[1:])], after.node)
    report = look(asked, live)
    assert {one.name for one in report.findings if one.verdict == "drift" and one.file == "cpu.max"}
    left = with_allocated(report, asked, after, look(after, live)).findings
    assert {one.verdict for one in left if one.file == "cpu.max"} == {"stale"}
    others = [one for one in report.findings if one.pod != (first.namespace, first.name)]
    assert [one for one in left if one.pod != (first.namespace, first.name)] == others
