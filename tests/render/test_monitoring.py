"""The dashboard and the alerts: whole, true to the metrics, and taken by Prometheus' own checker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from qoslet.core.status.fields import FIELDS
from qoslet.core.status.monitoring import Alert, metric_name, promql, series_name
from qoslet.render.documents.monitoring import (
    BESIDE_KUBELETS,
    OF_PODS,
    Monitoring,
    dashboard,
    metrics,
    rules,
)
from tests.cli.fixtures import run
from tests.frozen import contract

NAMES = {metric_name(field.name): field for field in FIELDS if field.metric is not None}
KINDS = (OF_PODS, BESIDE_KUBELETS)
EXPRESSIONS = [
    (of, expression)
    for of in KINDS
    for expression in (
        *(query.expression for panel in of.panels for query in panel.queries),
        *(alert.expression for alert in of.alerts),
    )
]


@pytest.mark.parametrize(("of", "expression"), EXPRESSIONS)
def test_an_expression_asks_for_what_is_exported(of: Monitoring, expression: str) -> None:
    made = promql(expression, of.series)
    exported = {series_name(metric): metric for metric in of.metrics.values()}
    names = re.findall(r"qoslet_\w+", made)
    assert names
    for name in names:
        metric = exported[name]
        assert (f"rate({name}" in made or f"increase({name}" in made) is metric.counter
        for selector in re.findall(rf"{name}\{{([^}}]*)\}}", made):
            asked = re.findall(r"(\w+)=", selector)
            assert set(asked) <= set(metric.labels)
    assert made.count("{") == made.count("}")
    assert "{{" not in made


@pytest.mark.parametrize(("of", "alert"), [(of, one) for of in KINDS for one in of.alerts])
def test_labels_in_words_are_labels_of_the_alert(of: Monitoring, alert: Alert) -> None:
    metrics = [of.metrics[name] for name in re.findall(r"(?<!\{)\{(\w+)\}", alert.expression)]
    known = {label for metric in metrics for label in metric.labels}
    for text in (alert.about, alert.summary):
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= {*known, "instance"}


@pytest.mark.parametrize("of", KINDS)
def test_every_panel_has_its_place_and_asks_for_the_chosen_instances(of: Monitoring) -> None:
    document = dashboard(of)
    panels = document["panels"]
    assert isinstance(panels, list)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len(of.panels)
    for panel in panels:
        for target in panel["targets"]:
            asked = len(re.findall(r"qoslet_\w+", target["expr"]))
            assert target["expr"].count('instance=~"$instance"') == asked
    json.dumps(document)


@pytest.mark.parametrize(("of", "options"), [(OF_PODS, ()), (BESIDE_KUBELETS, ("--agent",))])
def test_rules_are_taken_by_promtool(
    tmp_path: Path, of: Monitoring, options: tuple[str, ...]
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(run("metrics", *options, "-o", "rules").stdout)
    (group,) = yaml.safe_load(path.read_text())["groups"]
    assert [one["alert"] for one in group["rules"]] == [one.name for one in of.alerts]
    assert rules(of)["groups"] == [group]
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(of.alerts)} rules found" in done.stdout


def test_the_table_names_every_metric() -> None:
    exported = set(contract.metrics())
    assert {name for name, _, _ in metrics()} == exported
    done = run("metrics")
    assert exported >= NAMES.keys()
    assert all(name in done.stdout for name in exported)
