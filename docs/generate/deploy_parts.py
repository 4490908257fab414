"""The files of ``deploy/`` that come from the code: alerts and a dashboard for agents beside kubelets."""

from __future__ import annotations

from pathlib import Path

from qoslet.render.documents import Document, encode, encode_yaml
from qoslet.render.documents.monitoring import BESIDE_KUBELETS, dashboard, rules

DEPLOY = Path(__file__).parents[2] / "deploy"
HEAD = "# From the code: make docs writes it.\n"


def prometheus_rule() -> Document:
    """The alerts as an object of the Prometheus operator."""
    labels = {"app.kubernetes.io/name": "qoslet"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "qoslet", "namespace": "qoslet", "labels": labels},
        "spec": rules(BESIDE_KUBELETS),
    }


def files() -> dict[Path, str]:
    """Each file and its text."""
    component, chart = (
        DEPLOY / "kustomize" / "components" / "monitoring",
        DEPLOY / "helm" / "qoslet",
    )
    board = encode(dashboard(BESIDE_KUBELETS)).decode()
    return {
        component / "rules.yaml": HEAD + encode_yaml(prometheus_rule()).decode(),
        component / "qoslet-agent.json": board,
        chart / "files" / "rules.yaml": HEAD + encode_yaml(rules(BESIDE_KUBELETS)).decode(),
        chart / "files" / "qoslet-agent.json": board,
    }
