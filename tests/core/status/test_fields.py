"""The table of shown fields: one row each, true to the published schema and to the metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qoslet import schema
from qoslet.core.status.fields import BY_NAME, FIELDS, Field, heading, title
from qoslet.render.metrics import SAMPLES


def test_names_and_metrics_stand_once() -> None:
    assert len(BY_NAME) == len(FIELDS)
    metrics = [field.metric.name for field in FIELDS if field.metric is not None]
    assert len(set(metrics)) == len(metrics) == 25
    assert SAMPLES.keys() == {field.name for field in FIELDS if field.metric is not None}


def resolved(node: Any, whole: dict[str, Any]) -> Any:
    """A part of a schema without references and without the choice of null."""
    while True:
        if "$ref" in node:
            node = whole["$defs"][node["$ref"].rpartition("/")[2]]
        elif "anyOf" in node:
            node = next(one for one in node["anyOf"] if one.get("type") != "null")
        else:
            return node


@pytest.mark.parametrize("field", [one for one in FIELDS if one.json], ids=lambda one: one.name)
def test_every_path_is_in_the_schema(field: Field) -> None:
    whole = json.loads(schema.text("podstates"))
    node: Any = resolved(whole, whole)
    for part in field.json.split("."):
        if part == "*":
            node = node["additionalProperties"]
            continue
        name = part.removesuffix("[]")
        assert name in node["properties"], (field.json, part)
        node = resolved(node["properties"][name], whole)
        if part.endswith("[]"):
            node = resolved(node["items"], whole)
    assert field.key == field.json.rpartition(".")[2]


def test_a_unit_is_the_last_word_of_a_metric_and_a_key() -> None:
    for field in FIELDS:
        if field.metric is not None and field.unit:
            assert field.metric.name.endswith(f"_{field.unit}"), field
        if field.unit == "bytes" and field.json:
            assert field.key.endswith("Bytes") or field.key == "room"


def test_headings_are_titles_in_capitals() -> None:
    assert (heading("pod_qos"), title("oom_kills")) == ("QOS", "OOM kills")
