"""What ``top`` saw as a document: ``kind: Top`` of ``qoslet/v1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qoslet.render.documents import API_VERSION, Document
from qoslet.render.documents.plan import node_block
from qoslet.render.documents.timestamps import moment as timestamp

if TYPE_CHECKING:
    from qoslet.core.resources.cgroup_tree import Plan
    from qoslet.core.status.node_top import TopRow


def top_document(plan: Plan, rows: Sequence[TopRow], seconds: float) -> Document:
    """All rows; ``seconds`` is the time between the two looks that rates are from."""
    return _document(node_block(plan), rows, seconds)


def recorded_document(
    node: Mapping[str, Any], rows: Sequence[TopRow], seconds: float, wall: float
) -> Document:
    """All rows of a moment of a recording; ``node`` is the block about it that was recorded, and
    ``wall`` the moment in seconds since 1970."""
    return {**_document(dict(node), rows, seconds), "recordedAt": timestamp(wall)}


def _document(node: Document, rows: Sequence[TopRow], seconds: float) -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": "Top",
        "node": node,
        "seconds": round(seconds, 3),
        "cgroups": [row_block(row) for row in rows],
    }


def row_block(row: TopRow) -> Document:
    """One cgroup."""
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
