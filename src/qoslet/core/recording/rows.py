"""The planned cgroups of a node as a recording holds them."""

from __future__ import annotations

from qoslet.core.recording.moment import RecordedRow
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.status.node_top import planned_rows


def recorded_rows(plan: Plan) -> tuple[RecordedRow, ...]:
    """The cgroups of a plan in its order, without sandboxes."""
    cgroups = [cgroup for cgroup in plan.cgroups if cgroup.level != "sandbox"]
    rows = zip(planned_rows(plan), cgroups, strict=True)
    return tuple(_recorded(RecordedRow(row), cgroup) for row, cgroup in rows)


def _recorded(bare: RecordedRow, cgroup: Cgroup) -> RecordedRow:
    pod, container = cgroup.pod, cgroup.container
    because = {setting.file: f"{setting.because} [{setting.rule}]" for setting in cgroup.settings}
    if pod is None:
        return RecordedRow(bare.row, because=because)
    return RecordedRow(
        bare.row,
        uid=pod.uid,
        pod=pod.key,
        container=container.name if container is not None else "",
        guard=pod.memory.guard or "",
        priority=pod.priority or 0,
        critical=pod.critical,
        because=because,
    )
