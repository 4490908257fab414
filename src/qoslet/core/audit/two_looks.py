"""What two looks at a node found, one shortly after the other, without what is on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from qoslet.core.audit.audit import settled
from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.core.audit.kubelet_work import without_kubelet_work
from qoslet.core.audit.resizing import with_allocated, without_releases, without_resizes
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.problem import GRAVEST_FIRST
from qoslet.core.resources.cgroup_tree import Plan


def judged(
    first: AuditReport,
    second: AuditReport,
    plan: Plan,
    allocated: Callable[[], Plan] | None = None,
    work: Callable[[], KubeletWork] | None = None,
    releases: Callable[[], Mapping[str, Plan]] | None = None,
    look: Callable[[Plan], AuditReport] | None = None,
) -> AuditReport:
    """What stands of two looks, the second with ``plan``; the same report twice is one look.
    ``allocated`` plans with what statuses say is allocated, ``work`` tells what the kubelet is about
    to do, ``releases`` plans with those that the kubelet may be, by their names, ``look`` looks once more with
    another plan: each is asked only while something counts. The findings are in the order of ``_place``.
    Raises what they raise."""
    report = second if first is second else settled(first, second)
    if allocated is not None and _counts(report):
        other = allocated()
        report = without_resizes(report, plan, other)
        if look is not None and _counts(report) and other.pods != plan.pods:
            report = with_allocated(report, plan, other, look(other))
    if releases is not None and _counts(report):
        report = without_releases(report, plan, releases())
    if work is not None and _counts(report):
        known = work()
        if has_ended(first, second):
            known = replace(known, has_changed=True)
        report = without_kubelet_work(report, known)
    return replace(report, findings=tuple(sorted(report.findings, key=_place)))


def _place(one: Finding) -> tuple[int, list[str], str]:
    """Where a finding comes: those that count most first, each cgroup before those below it. A kubelet names its
    pods in another order each time."""
    return GRAVEST_FIRST.index(one.severity), one.path.split("/"), one.file or ""


def has_ended(first: AuditReport, second: AuditReport) -> bool:
    """Whether the cgroup of a pod, of which no plan knows, was removed between the looks."""
    return bool(orphans(first) - orphans(second))


def orphans(report: AuditReport) -> set[str]:
    """The paths of pods' cgroups that no pod accounts for."""
    return {one.path for one in report.findings if one.verdict == "orphan"}


def _counts(report: AuditReport) -> bool:
    return any(one.counts for one in report.findings)
