"""What the web page shows as documents: ``kind: NodeView`` and ``kind: PodView`` of ``qoslet/v1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.core.status.page.node_view import RESOURCES
from qoslet.core.status.page.row_history import SERIES
from qoslet.render.documents import API_VERSION, Document
from qoslet.render.documents.audit import audit_document
from qoslet.render.documents.plan import node_block
from qoslet.render.documents.timestamps import moment
from qoslet.render.documents.top import row_block

if TYPE_CHECKING:
    from qoslet.core.audit.finding import AuditReport
    from qoslet.core.status.page.node_view import Freshness, NodeView, PodView
    from qoslet.core.status.page.pod_story import StoryEvent
    from qoslet.core.status.page.row_history import RowHistory


def node_view_document(view: NodeView, fresh: Freshness, report: AuditReport | None) -> Document:
    """The node: its resources, every cgroup as ``Top`` has it, and what the audit found."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeView",
        "node": node_block(view.plan),
        **_look(view, fresh),
        "resources": {
            name: {
                "capacity": view.capacity.get(name),
                "reserved": view.reserved.get(name),
                "allocatable": view.allocatable.get(name),
            }
            for name in RESOURCES
        },
        "pods": [_pod(pod) for pod in view.pods],
        "cgroups": [row_block(row) for row in view.rows],
        "findings": None if report is None else audit_document(view.plan, report)["findings"],
    }


def pod_view_document(
    view: NodeView,
    fresh: Freshness,
    name: str,
    pod: PodView | None,
    history: RowHistory,
    events: Sequence[StoryEvent],
    report: AuditReport | None,
) -> Document:
    """A pod, or where it is gone what happened to it."""
    namespace, _, own = name.partition("/")
    rows = () if pod is None else (pod.row, *pod.containers)
    found = None
    if report is not None:
        every = audit_document(view.plan, report)["findings"]
        assert isinstance(every, list)
        found = [one for one in every if one["pod"] == {"namespace": namespace, "name": own}]
    return {
        "apiVersion": API_VERSION,
        "kind": "PodView",
        "namespace": namespace,
        "name": own,
        **_look(view, fresh),
        "exists": pod is not None,
        "qosClass": None if pod is None else pod.row.qos or None,
        "marks": [] if pod is None else list(pod.marks),
        "cgroups": [row_block(row) for row in rows],
        "events": [_event(one, view.at) for one in events],
        "timelines": [_timelines(row.name, history) for row in rows],
        "findings": found,
    }


def _look(view: NodeView, fresh: Freshness) -> Document:
    return {
        "look": view.look,
        "seconds": round(view.seconds, 3),
        "ageSeconds": round(fresh.age, 3),
        "stale": fresh.stale,
        "trouble": view.trouble or None,
    }


def _pod(pod: PodView) -> Document:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "cgroup": pod.row.name,
        "qosClass": pod.row.qos or None,
        "findings": pod.findings,
        "marks": list(pod.marks),
    }


def _event(event: StoryEvent, now: float) -> Document:
    return {
        "event": event.kind,
        "severity": event.severity,
        "time": moment(event.wall),
        "agoSeconds": round(max(0.0, now - event.until), 3),
        "seconds": round(event.seconds, 3),
        "container": event.container or None,
        "amount": event.amount,
        "limit": event.limit,
        "text": event.text or None,
    }


def _timelines(name: str, history: RowHistory) -> Document:
    lines = {series: history.timeline(name, series) for series in SERIES}
    return {
        "cgroup": name,
        "agoSeconds": [round(-one, 3) for one in lines["cpu"].seconds],
        "cpuCores": list(lines["cpu"].values),
        "throttledPercent": list(lines["throttled"].values),
        "memoryBytes": list(lines["memory"].values),
        "memoryPressurePercent": list(lines["pressure"].values),
        "cpuPressurePercent": list(lines["cpu_pressure"].values),
    }
