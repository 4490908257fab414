"""A Grafana dashboard and Prometheus rules, from the table of panels and alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from qoslet.core.guest.monitoring import GUEST_ALERTS, GUEST_METRICS, GUEST_PANELS
from qoslet.core.status.fields import FIELDS, OF_AGENT, Metric
from qoslet.core.status.monitoring import ALERTS, PANELS, Alert, Panel, promql, series_name
from qoslet.render.documents import Document

_WIDTH, _HEIGHT = 12, 8
_UNITS = {"cores": "short"}


class Monitoring(Struct, frozen=True):
    """What one kind of agent exports, and what to watch of it. ``metrics`` are by the names that
    expressions have for them; ``sign_of_life`` is one that every agent has."""

    name: str
    about: str
    metrics: Mapping[str, Metric]
    panels: Sequence[Panel]
    alerts: Sequence[Alert]
    sign_of_life: str

    def series(self, name: str) -> str:
        """The series of a metric. Raises KeyError."""
        return series_name(self.metrics[name])


OF_PODS = Monitoring(
    "qoslet",
    "Pods, their CPU and memory, and the guard of nodes that qoslet runs.",
    {**{field.name: field.metric for field in FIELDS if field.metric is not None}, **OF_AGENT},
    PANELS,
    ALERTS,
    "cycle",
)
BESIDE_KUBELETS = Monitoring(
    "qoslet-agent",
    "Findings, held values and the guard of agents beside kubelets.",
    GUEST_METRICS,
    GUEST_PANELS,
    GUEST_ALERTS,
    "syncs",
)


def dashboard(of: Monitoring = OF_PODS) -> Document:
    """The dashboard, to be imported or provisioned; it asks for a data source and for instances."""
    source: Document = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "uid": of.name,
        "title": of.name,
        "description": of.about,
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
                    "query": f"label_values({of.series(of.sign_of_life)}, instance)",
                    "includeAll": True,
                    "multi": True,
                    "refresh": 2,
                },
            ]
        },
        "panels": [_panel(of, at, panel, source) for at, panel in enumerate(of.panels)],
    }


def _panel(of: Monitoring, at: int, panel: Panel, source: Document) -> Document:
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
                "expr": _of_instance(of, promql(query.expression, of.series)),
                "legendFormat": query.legend,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _of_instance(of: Monitoring, expression: str) -> str:
    """The expression for the instances that are chosen."""
    names = {of.series(name) for name in of.metrics}
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


def rules(of: Monitoring = OF_PODS) -> Document:
    """The alerts as a file of Prometheus rules."""
    return {"groups": [{"name": of.name, "rules": [_rule(of, alert) for alert in of.alerts]}]}


def _rule(of: Monitoring, alert: Alert) -> Document:
    return {
        "alert": alert.name,
        "expr": promql(alert.expression, of.series),
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.about},
    }


def metrics(of: Monitoring = OF_PODS) -> Iterator[tuple[str, str, str]]:
    """Name, labels and help of every metric."""
    for metric in of.metrics.values():
        yield series_name(metric), ", ".join(metric.labels), metric.help
