"""Values that are not as planned, but as another plan has them that may be the node's: of a resize on its way,
of a release that its kubelet may be, or of the agent beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from qoslet.core.audit.finding import AuditReport, Finding, pending, unlike
from qoslet.core.cgroup.interface_files import released
from qoslet.core.resources.cgroup_tree import Plan


def without_resizes(report: AuditReport, plan: Plan, allocated: Plan) -> AuditReport:
    """The report; values that are as allocated, where the spec asks for others, are pending."""
    told = "as allocated, a resize of the pod is on its way"

    def on_its_way(one: Finding) -> Finding:
        return pending(one, f"{unlike(one.file, one.found, one.expected)}: {told}")

    return _changed(report, plan, allocated, on_its_way)


def with_allocated(
    report: AuditReport, plan: Plan, allocated: Plan, seen: AuditReport
) -> AuditReport:
    """The report; what is stale by the audit of what is ``allocated``, ``seen``, is that in pods whose resize is on
    its way: they keep what an earlier configuration made of that."""
    pods = {one.pod.uid: one.pod for one in allocated.pods}
    resized = {
        one.name
        for one in plan.cgroups
        if one.pod is not None and pods.get(one.pod.uid, one.pod) != one.pod
    }
    stale = {(one.path, one.file): one for one in seen.findings if one.verdict == "stale"}
    findings = (
        stale.get((one.path, one.file), one) if one.counts and one.name in resized else one
        for one in report.findings
    )
    return replace(report, findings=tuple(findings))


def without_releases(report: AuditReport, plan: Plan, others: Mapping[str, Plan]) -> AuditReport:
    """The report; values that are as one of the ``others`` has them are notes: the kubelet of the node did not
    tell its release, and may be of the one that they are named after."""
    for release, other in others.items():
        report = _changed(report, plan, other, partial(_as_of_release, release))
    return report


def without_kept(report: AuditReport, kept: Mapping[tuple[str, str], str]) -> AuditReport:
    """The report; values that qoslet's agent keeps beside the kubelet, by path and file, are notes."""
    findings = (
        _as_kept(one) if one.counts and _is_kept(one, kept) else one for one in report.findings
    )
    return replace(report, findings=tuple(findings))


def _is_kept(one: Finding, kept: Mapping[tuple[str, str], str]) -> bool:
    return one.found is not None and kept.get((one.path, one.file or "")) == one.found


def _as_kept(one: Finding) -> Finding:
    """A finding whose value an agent keeps."""
    message = (
        f"{unlike(one.file, one.found, one.planned)}: qoslet's agent keeps it so by its policy"
    )
    hint = "qoslet agent --status lists what it keeps, and gives back when it ends"
    return replace(one, severity="info", message=message, hint=hint, fix=None, writer="qoslet")


def _as_of_release(release: str, one: Finding) -> Finding:
    """A finding whose value is as a release has it."""
    plain = unlike(one.file, one.found, one.planned)
    message = (
        f"{plain}: as {release} has it; the release of the kubelet, which decides, is not known"
    )
    hint = "give --kubernetes with its release"
    told = replace(one, severity="info", message=message, hint=hint, fix=None)
    # it is explained: no earlier configuration is to be looked for
    return replace(told, is_earlier=False, doubt=None)


def _changed(
    report: AuditReport, plan: Plan, other: Plan, made: Callable[[Finding], Finding]
) -> AuditReport:
    """The report; findings that count, of values that are as the ``other`` plan has them, are what is ``made`` of
    them."""
    asked, actual = _values(plan), _values(other)
    findings = []
    for one in report.findings:
        key = one.name, one.file or ""
        fresh = released(key[1], plan.node.hierarchy)
        there = actual.get(key, fresh)
        is_other = one.counts and one.found is not None and there != asked.get(key, fresh)
        findings.append(made(one) if is_other and one.found == there else one)
    return replace(report, findings=tuple(findings))


def _values(plan: Plan) -> dict[tuple[str, str], str]:
    return {
        (cgroup.name, file): value
        for cgroup in plan.cgroups
        for file, value in cgroup.applied.items()
    }
