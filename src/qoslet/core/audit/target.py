"""Which findings are about a target: a pod, a container, a cgroup, or a path below the mount."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from qoslet.core.audit.finding import MEANINGS, AuditReport, Finding
from qoslet.core.cgroup.mount_path import cgroup_of
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.explain.selector import select
from qoslet.core.resources.cgroup_tree import Plan


def only(report: AuditReport, plan: Plan, target: str, namespace: str | None) -> AuditReport:
    """The report with the findings about a target. A path that is not planned counts where
    something was found there. Raises BadInput for an unknown target."""
    if target.startswith("/"):
        path, file = cgroup_of(target, plan.node.hierarchy)
        path = path.rstrip("/") or "/"
        found = [one for one in report.findings if _is_in(one, path, file)]
        if not found and path != "/":
            known = (cgroup.path for cgroup in plan.cgroups)
            if not any(is_at_or_below(one, path) for one in known if one is not None):
                select(plan, path, namespace)
        return replace(report, findings=tuple(found))
    names = {cgroup.name for cgroup in select(plan, target, namespace)}
    paths = {cgroup.path for cgroup in plan.cgroups if cgroup.name in names and cgroup.path}
    findings = tuple(
        one
        for one in report.findings
        if one.name in names or any(is_at_or_below(one.path, path) for path in paths)
    )
    return replace(report, findings=findings)


def narrowed(
    report: AuditReport, plan: Plan, wanted: Sequence[str], namespace: str | None
) -> AuditReport:
    """The report with the findings that ``wanted`` names: verdicts, and targets as of ``only``. With
    both, a finding must have one of the verdicts and be about one of the targets. ``pod/NAME`` names
    a pod that is called like a verdict. Raises BadInput for an unknown target."""
    verdicts = {one for one in wanted if one in MEANINGS}
    targets = [one for one in wanted if one not in verdicts]
    kept = [one for one in report.findings if not verdicts or one.verdict in verdicts]
    if targets:
        parts = [only(report, plan, one, namespace).findings for one in targets]
        about = {id(one) for part in parts for one in part}
        kept = [one for one in kept if id(one) in about]
    return replace(report, findings=tuple(kept))


def _is_in(finding: Finding, path: str, file: str) -> bool:
    if file and finding.file != file:
        return False
    return is_at_or_below(finding.path, path) or is_at_or_below(finding.name, path)
