"""The dashboard and the alerts: whole, true to the metrics, and taken by Prometheus' own checker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from qoslet.core.status.fields import BY_NAME, FIELDS
from qoslet.core.status.monitoring import ALERTS, PANELS, metric_name, promql
from qoslet.render.documents.monitoring import dashboard, metrics, rules
from tests.cli.fixtures import run

NAMES = {metric_name(field.name): field for field in FIELDS if field.metric is not None}
EXPRESSIONS = [
    *(query.expression for panel in PANELS for query in panel.queries),
    *(alert.expression for alert in ALERTS),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_for_what_is_exported(expression: str) -> None:
    made = promql(expression)
    names = re.findall(r"qoslet_\w+", made)
    assert names
    for name in names:
        metric = NAMES[name].metric
        assert metric is not None
        assert (f"rate({name}" in made or f"increase({name}" in made) is metric.counter
        for selector in re.findall(rf"{name}\{{([^}}]*)\}}", made):
            asked = re.findall(r"(\w+)=", selector)
            assert set(asked) <= set(metric.labels)
    assert made.count("{") == made.count("}")
    assert "{{" not in made


@pytest.mark.parametrize("text", [*(one.about for one in ALERTS), *(one.summary for one in ALERTS)])
def test_labels_in_words_are_labels_of_the_alert(text: str) -> None:
    (alert,) = [one for one in ALERTS if text in (one.about, one.summary)]
    metrics = [BY_NAME[name].metric for name in re.findall(r"(?<!\{)\{(\w+)\}", alert.expression)]
    known = {label for metric in metrics if metric is not None for label in metric.labels}
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= {*known, "instance"}


def test_every_panel_has_its_place_and_asks_for_the_chosen_instances() -> None:
    document = dashboard()
    panels = document["panels"]
    assert isinstance(panels, list)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len(PANELS)
    for panel in panels:
        for target in panel["targets"]:
            asked = len(re.findall(r"qoslet_\w+", target["expr"]))
            assert target["expr"].count('instance=~"$instance"') == asked
    json.dumps(document)


def test_rules_are_taken_by_promtool(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(run("metrics", "-o", "rules").stdout)
    (group,) = yaml.safe_load(path.read_text())["groups"]
    assert [one["alert"] for one in group["rules"]] == [one.name for one in ALERTS]
    assert rules()["groups"] == [group]
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_the_table_names_every_metric() -> None:
    assert {name for name, _, _ in metrics()} == NAMES.keys()
    done = run("metrics")
    assert all(name in done.stdout for name in NAMES)
