"""In-place resizes on their way: the file has what is allocated, the plan what is asked for."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.audit import pending
from qoslet.core.audit.finding import AuditReport
from qoslet.core.resources.cgroup_tree import Plan


def without_resizes(report: AuditReport, plan: Plan, allocated: Plan) -> AuditReport:
    """The report; values that are as allocated, where the spec asks for others, are pending."""
    asked, actual = _values(plan), _values(allocated)
    findings = []
    for one in report.findings:
        key = one.name, one.file or ""
        there = actual.get(key)
        if one.found is not None and there != asked.get(key) and one.found == there:
            message = f"{one.message}: as allocated, a resize of the pod is on its way"
            findings.append(pending(one, message))
        else:
            findings.append(one)
    return replace(report, findings=tuple(findings))


def _values(plan: Plan) -> dict[tuple[str, str], str]:
    return {
        (cgroup.name, setting.file): setting.applied
        for cgroup in plan.cgroups
        for setting in cgroup.settings
    }
