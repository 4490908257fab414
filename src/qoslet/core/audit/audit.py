"""The audit itself: what is to be read, and what was read against the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import AuditReport, Finding, Unread, pending
from qoslet.core.audit.inner_cgroups import INNER, with_inner, without_inner_files
from qoslet.core.audit.live import SUBTREE, LiveTree, ReadRequest, Units
from qoslet.core.audit.repair import UNKNOWN_SYSTEMD, Repair
from qoslet.core.audit.verdicts.alike import alike_files
from qoslet.core.audit.verdicts.controllers import controller_findings
from qoslet.core.audit.verdicts.groups import (
    MatchedGroups,
    driver_findings,
    match,
    missing_finding,
    other_driver,
    partly_missing,
    surplus_findings,
)
from qoslet.core.audit.verdicts.left_behind import may_be_left
from qoslet.core.audit.verdicts.paused import hang_files, paused_findings
from qoslet.core.audit.verdicts.processes import oom_finding, process_findings
from qoslet.core.audit.verdicts.protection import ineffective
from qoslet.core.audit.verdicts.sandboxed import sandboxed_pods, without_sandboxed
from qoslet.core.audit.verdicts.values import Values
from qoslet.core.audit.verdicts.weights import with_split
from qoslet.core.cgroup.interface_files import PROTECTION, controller, property_of
from qoslet.core.cgroup.names import is_at_or_below, parents, strayed
from qoslet.core.node.node import Hierarchy
from qoslet.core.problem import plural
from qoslet.core.reconcile.file_writers import Level
from qoslet.core.resources.cgroup_tree import Cgroup, Plan


def read_request(plan: Plan, more: Mapping[str, tuple[str, ...]] | None = None) -> ReadRequest:
    """What has to be read for the audit of a plan, with ``more`` files by the name of their
    cgroup."""
    more = more or {}
    context = _context(plan, LiveTree({}), {}, {})
    files: dict[str, tuple[str, ...]] = {}
    oom: list[str] = []
    above: set[str] = set()
    hierarchy = plan.node.hierarchy
    for cgroup in plan.cgroups:
        if cgroup.path is None:
            continue
        names = tuple([setting.file for setting in cgroup.settings])
        names += more.get(cgroup.name, ())
        files[cgroup.path] = _files_read(names, context.level(cgroup), hierarchy)
        if cgroup.oom_score_adj is not None:
            oom.append(cgroup.path)
        if cgroup.level == "container" and cgroup.unit is not None:
            inner = f"{cgroup.path}/{INNER}"
            files[inner] = files[cgroup.path]
            oom.append(inner)
            if context.strays:
                files.update(dict.fromkeys(strayed(cgroup.path, hierarchy), ()))
        above.update((*parents(cgroup.path), "/"))
    outside = above - files.keys() if hierarchy == "v2" else set()
    for path in outside:
        files[path] = (SUBTREE, *PROTECTION)
    root = context.root_path
    whole = plan.node.kubelet.cgroups_per_qos
    walk = (root, other_driver(context)[1]) if whole else ()
    alone = tuple(path for path in files if not any(is_at_or_below(path, one) for one in walk))
    return ReadRequest(walk, alone, files, _sandbox_files(plan), frozenset(oom))


@lru_cache(maxsize=256)
def _files_read(names: tuple[str, ...], level: Level, hierarchy: Hierarchy) -> tuple[str, ...]:
    """The files of a cgroup of which ``names`` are planned or asked for."""
    names += (*may_be_left(level, hierarchy), *alike_files(level))
    if level != "container" and hierarchy == "v2":
        names += (SUBTREE,)
    return tuple(dict.fromkeys((*names, *hang_files(hierarchy))))


def _sandbox_files(plan: Plan) -> tuple[str, ...]:
    """The files of cgroups that the plan does not name: they may be sandboxes."""
    left = (*may_be_left("sandbox", plan.node.hierarchy), *alike_files("sandbox"))
    for cgroup in plan.cgroups:
        if cgroup.level == "sandbox":
            names = (*(one.file for one in cgroup.settings), *left)
            return tuple(dict.fromkeys((*names, *hang_files(plan.node.hierarchy))))
    return ()


def unit_names(plan: Plan, live: LiveTree) -> tuple[list[str], list[str]]:
    """The units whose properties an audit compares, and the names of the properties."""
    if plan.node.driver != "systemd":
        return [], []
    matched = match(_context(plan, live, {}, {}))
    units = [
        cgroup.unit
        for path, cgroup in matched.planned.items()
        if cgroup.unit is not None and path in live.cgroups
    ]
    node = plan.node
    files = {file for cgroup in matched.planned.values() for file in _files(plan, cgroup)}
    names = {property_of(file, node.hierarchy, node.host.systemd) for file in files}
    return units, sorted(name for name in names if name is not None)


def _files(plan: Plan, cgroup: Cgroup) -> Iterator[str]:
    yield from (setting.file for setting in cgroup.settings)
    yield from may_be_left("kubepods", plan.node.hierarchy)


def audit(
    plan: Plan,
    live: LiveTree,
    units: Mapping[str, Units],
    mounts: Mapping[str, str],
) -> AuditReport:
    """Compare a plan with what was read. ``mounts``: v1 controller to mount point, or ``unified`` to
    that of v2."""
    live = without_inner_files(live)
    context = _context(plan, live, units, mounts)
    sandboxed = sandboxed_pods(context)
    matched = without_sandboxed(match(context), sandboxed)
    matched = replace(matched, planned=with_inner(matched.planned, live))
    values = Values(context, matched.planned)
    findings = list(driver_findings(context))
    lacking: dict[str, frozenset[str]] = {}
    for finding, names in controller_findings(context, matched.planned):
        findings.append(finding)
        lacking[finding.path] = names
    if context.root_path in live.cgroups or not findings or findings[0].verdict != "driver":
        findings += _absent(context, sandboxed)
    for path, cgroup in matched.planned.items():
        found = live.cgroups.get(path)
        if found is None:
            continue
        partly = partly_missing(context, cgroup, found)
        if partly is not None:
            findings.append(partly)
        for one in values.compare(cgroup, found):
            gone = one.file is not None and one.found is None
            if gone and _lacks(path, controller(one.file or ""), found.missing, lacking):
                continue
            findings.append(one)
        findings += process_findings(context, cgroup, found)
        findings += paused_findings(context, cgroup, found)
        oom = oom_finding(context, cgroup, found)
        values.compared += found.oom_score_adj is not None and cgroup.oom_score_adj is not None
        if oom is not None:
            findings.append(oom)
    findings += surplus_findings(context, matched)
    findings += ineffective(context, matched.planned, {(one.path, one.file) for one in findings})
    ordered = tuple(with_split(context, matched.planned, findings))
    return AuditReport(
        values.compared, len(live.cgroups), ordered, _unread(live), _notes(matched, len(sandboxed))
    )


def _lacks(
    path: str, name: str, missing: Collection[str], lacking: Mapping[str, frozenset[str]]
) -> bool:
    """Whether a file is absent since its controller is, which a finding above says."""
    above = (*parents(path), "/")
    return name in missing or any(name in lacking.get(one, ()) for one in above)


def _absent(context: AuditContext, sandboxed: Collection[str]) -> Iterator[Finding]:
    """Planned cgroups that are absent, the topmost of each subtree, but not those of containers in the pods
    of ``sandboxed``."""
    absent: set[str] = set()
    unreadable = {one.path for one in context.live.unread if not one.file}
    for cgroup in context.plan.cgroups:
        path = cgroup.path
        if path is None or path in context.live.cgroups or path in unreadable:
            continue
        if any(is_at_or_below(path, one) for one in absent | unreadable):
            continue
        container = cgroup.container
        if container is not None and not container.runs:
            continue
        if container is not None and cgroup.pod is not None and cgroup.pod.uid in sandboxed:
            continue
        absent.add(path)
        yield missing_finding(context, cgroup, path)


def _unread(live: LiveTree) -> tuple[Unread, ...]:
    rows = list(live.unread)
    for path, group in live.cgroups.items():
        rows += [Unread(path, file, error) for file, error in group.unread.items()]
    return tuple(rows)


def _notes(matched: MatchedGroups, sandboxed: int) -> tuple[str, ...]:
    unknown = "no status has their IDs; use kubectl get pods -o json"
    inside = "the runtime of their RuntimeClass keeps their processes in its sandbox"
    rows = ((len(matched.unknown), unknown), (sandboxed, inside))
    return tuple(
        f"containers of {plural(pods, 'pod')} were not compared: {why}"
        for pods, why in rows
        if pods
    )


def _context(
    plan: Plan, live: LiveTree, units: Mapping[str, Units], mounts: Mapping[str, str]
) -> AuditContext:
    node = plan.node
    systemd = (node.host.systemd or UNKNOWN_SYSTEMD) if node.driver == "systemd" else None
    return AuditContext(plan, live, units, Repair(node.hierarchy, mounts, systemd))


def settled(first: AuditReport, second: AuditReport) -> AuditReport:
    """What two looks at a node, one shortly after the other, found: what was in both with the same
    value or a process of before stands, what changed meanwhile is pending."""
    before = {one.key: one for one in first.findings}
    findings = []
    for one in second.findings:
        old = before.get(one.key)
        if old is not None and (old.found == one.found or _is_of_same_process(old, one)):
            findings.append(one)
            continue
        was = "not there" if old is None else old.found
        message = f"{one.message} (it changed while the node was read: it was {was})"
        if old is None:
            message = f"{one.message} (it appeared while the node was read)"
        findings.append(pending(one, message))
    return replace(second, findings=tuple(findings))


def _is_of_same_process(old: Finding, one: Finding) -> bool:
    """Whether a process of an older finding is still there: others come and go, as its children do."""
    if one.file is not None or old.file is not None:
        return False
    return not set((old.found or "").split()).isdisjoint((one.found or "").split())
