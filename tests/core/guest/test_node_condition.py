"""What the condition of a node says, and the patches that write it."""

from __future__ import annotations

import json

from qoslet.core.audit.finding import Finding, Verdict
from qoslet.core.guest.node_condition import condition_body, condition_of, removal_body
from qoslet.core.problem import Severity


def finding(verdict: Verdict, severity: Severity, path: str, file: str | None) -> Finding:
    return Finding(
        verdict=verdict, severity=severity, name=path, path=path, file=file, message="differs"
    )


def said(*findings: Finding, is_complete: bool = True, fault: str = "") -> tuple[str, str, str]:
    found = condition_of(findings, is_complete=is_complete, fault=fault)
    return found.status, found.reason, found.message


def test_findings_count_from_a_warning_on() -> None:
    good = ("False", "CgroupsAsPlanned", "all values that qoslet compares are as planned")
    assert said() == good
    assert said(finding("rounding", "info", "/a", "cpu.weight")) == good
    rows = [finding("drift", "warning", f"/p{number}", "cpu.weight") for number in range(4)]
    assert said(*rows, finding("missing", "error", "/gone", None)) == (
        "True",
        "CgroupsDiffer",
        "4 drift, 1 missing: /p0/cpu.weight, /p1/cpu.weight, /p2/cpu.weight and 2 more",
    )


def test_what_is_not_known_is_unknown() -> None:
    assert said(is_complete=False)[:2] == ("Unknown", "PodsUnknown")
    assert said(fault="nothing could be read") == (
        "Unknown",
        "AuditFailed",
        "nothing could be read",
    )


def test_patches_name_no_condition_but_their_own() -> None:
    condition = condition_of((), is_complete=True, fault="")
    [row] = json.loads(condition_body(condition, 1.7e9, is_transition=True))["status"]["conditions"]
    at = "2023-11-14T22:13:20Z"
    assert (row["type"], row["lastHeartbeatTime"], row["lastTransitionTime"]) == (
        "CgroupsDiffer",
        at,
        at,
    )
    [row] = json.loads(condition_body(condition, 1.7e9, is_transition=False))["status"][
        "conditions"
    ]
    assert "lastTransitionTime" not in row
    assert json.loads(removal_body()) == {
        "status": {"conditions": [{"$patch": "delete", "type": "CgroupsDiffer"}]}
    }
