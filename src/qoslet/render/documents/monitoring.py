"""A Grafana dashboard and Prometheus rules, from the table of panels and alerts."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.status.fields import FIELDS
from qoslet.core.status.monitoring import ALERTS, PANELS, Alert, Panel, metric_name, promql
from qoslet.render.documents.plan import Document

_WIDTH, _HEIGHT = 12, 8
_UNITS = {"cores": "short"}


def dashboard() -> Document:
    """The dashboard, to be imported or provisioned; it asks for a data source and for instances."""
    source: Document = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "uid": "qoslet",
        "title": "qoslet",
        "description": "Pods, their CPU and memory, and the guard of nodes that qoslet runs.",
        "tags": ["qoslet", "cgroups"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                {
                    "name": "instance",
                    "type": "query",
                    "datasource": source,
                    "query": f"label_values({metric_name('cycle')}, instance)",
                    "includeAll": True,
                    "multi": True,
                    "refresh": 2,
                },
            ]
        },
        "panels": [_panel(at, panel, source) for at, panel in enumerate(PANELS)],
    }


def _panel(at: int, panel: Panel, source: Document) -> Document:
    return {
        "id": at + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": {
            "x": (at % 2) * _WIDTH,
            "y": at // 2 * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {
            "defaults": {"unit": _UNITS.get(panel.unit, panel.unit), "min": 0},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "expr": _of_instance(promql(query.expression)),
                "legendFormat": query.legend,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _of_instance(expression: str) -> str:
    """The expression for the instances that are chosen."""
    names = {metric_name(field.name) for field in FIELDS if field.metric is not None}
    chosen = 'instance=~"$instance"'
    for name in sorted(names, key=len, reverse=True):
        expression = expression.replace(f"{name}{{", f"{name}\0{{{chosen}, ")
        expression = _bare(expression, name, f"{name}\0{{{chosen}}}")
    return expression.replace("\0", "")


def _bare(expression: str, name: str, full: str) -> str:
    """A name without a selector becomes ``full``."""
    found = expression.split(name)
    made = found[0]
    for piece in found[1:]:
        ends = piece[:1] not in ("\0", "_", "{") and not piece[:1].isalnum()
        made += (full if ends else name) + piece
    return made


def rules() -> Document:
    """The alerts as a file of Prometheus rules."""
    return {"groups": [{"name": "qoslet", "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> Document:
    return {
        "alert": alert.name,
        "expr": promql(alert.expression),
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.about},
    }


def metrics() -> Iterator[tuple[str, str, str]]:
    """Name, labels and help of every metric."""
    for field in FIELDS:
        if field.metric is not None:
            yield metric_name(field.name), ", ".join(field.metric.labels), field.metric.help
