"""Which findings are about a target: a pod, a container, a cgroup, or a path below the mount."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.finding import AuditReport, Finding
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


def _is_in(finding: Finding, path: str, file: str) -> bool:
    if file and finding.file != file:
        return False
    return is_at_or_below(finding.path, path) or is_at_or_below(finding.name, path)
