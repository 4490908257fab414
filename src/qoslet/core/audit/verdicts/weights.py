"""What mixed conversions of CPU shares to cpu.weight make of the CPU time of siblings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from qoslet.core.audit.context import AuditContext
from qoslet.core.audit.finding import Finding
from qoslet.core.resources.cgroup_tree import Cgroup

WEIGHT = "cpu.weight"


def with_split(
    context: AuditContext, planned: Mapping[str, Cgroup], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """The findings, those about mixed weights with the split of CPU time that results. Where the version
    of the runtime is not known, they are notes."""
    is_known = context.node.profile.runtime.is_versioned
    for one in findings:
        if one.verdict != "weights":
            yield one
        elif is_known or one.container is None:
            yield _split(context, planned, one)
        else:
            message = f"{one.message}; the version of the runtime, which decides, is not known"
            hint = "give --runtime with its version"
            yield replace(one, severity="info", message=message, hint=hint, fix=None)


def _split(context: AuditContext, planned: Mapping[str, Cgroup], finding: Finding) -> Finding:
    parent = finding.path.rpartition("/")[0]
    found, wanted = {}, {}
    for path, cgroup in planned.items():
        if path.rpartition("/")[0] != parent or path not in context.live.cgroups:
            continue
        text = context.live.cgroups[path].values.get(WEIGHT, "")
        plan = cgroup.applied.get(WEIGHT, "")
        if text.isdecimal() and plan.isdecimal():
            found[path], wanted[path] = int(text), int(plan)
    if len(found) < 2 or finding.path not in found:
        return finding
    now = 100 * found[finding.path] / sum(found.values())
    then = 100 * wanted[finding.path] / sum(wanted.values())
    split = f"it gets {now:.0f}% of the CPU time that its {len(found)} siblings contend for, planned {then:.0f}%"
    return replace(
        finding,
        message=f"{finding.message}; {split}",
        hint="one runtime version wrote some containers, another the others: restart the pod",
    )
