"""What ``top`` saw as a document: ``kind: Top`` of ``qoslet/v1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.render.documents.plan import API_VERSION, Document, node_block

if TYPE_CHECKING:
    from qoslet.core.resources.cgroup_tree import Plan
    from qoslet.core.status.node_top import TopRow


def top_document(plan: Plan, rows: Sequence[TopRow], seconds: float) -> Document:
    """All rows; ``seconds`` is the time between the two looks that rates are from."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Top",
        "node": node_block(plan),
        "seconds": round(seconds, 3),
        "cgroups": [_row(row) for row in rows],
    }


def _row(row: TopRow) -> Document:
    return {
        "name": row.name,
        "path": row.path or None,
        "level": row.level,
        "title": row.title,
        "parent": row.parent or None,
        "qosClass": row.qos or None,
        "exists": row.exists,
        "cpuCores": row.cpu,
        "cpuRequestCores": row.cpu_request,
        "cpuLimitCores": row.cpu_limit,
        "throttledSeconds": row.throttled,
        "memoryBytes": row.memory,
        "memoryRequestBytes": row.memory_request,
        "memoryHighBytes": row.memory_high,
        "memoryLimitBytes": row.memory_limit,
        "memoryProtectedBytes": row.memory_protected,
        "memoryPressurePercent": row.pressure,
        "cpuPressurePercent": row.cpu_pressure,
        "oomKills": row.oom_kills,
        "memoryEvents": dict(row.events),
    }
