"""What lint says of the shapes of public charts, each warning with the reason why it is true.

``tests/data/lint/charts.yaml`` is the list; a change of a rule that adds or takes a warning fails here
until somebody has read it.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml

from qoslet.app.lint import ANY_NODE
from qoslet.core.api.documents import Options
from qoslet.core.lint.lint import LintFinding, lint
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node
from tests.paths import DATA, REPO

Json = dict[str, Any]

_TEXT = (DATA / "lint" / "charts.yaml").read_text(encoding="utf-8")
CHARTS: dict[str, Json] = yaml.safe_load(_TEXT)
_NO_SPEC = ("pod", "warnings")


def document(shape: Json) -> Json:
    """The workload of a shape, with what every container has."""
    kind, _, key = shape["pod"].partition(" ")
    namespace, _, name = key.partition("/")
    spec = {field: value for field, value in shape.items() if field not in _NO_SPEC}
    for field in {"containers", "initContainers"} & spec.keys():
        text = json.dumps([{"image": "example.org/x", **one} for one in spec[field]])
        spec[field] = json.loads(text.replace('"exec": {}', '"exec": {"command": ["check"]}'))
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    meta = {"namespace": namespace, "name": name}
    if kind in ("Job", "CronJob"):
        template["spec"] = {"restartPolicy": "Never", **spec}
        owner: Json = {"template": template}
        if kind == "CronJob":
            owner = {"schedule": "0 0 * * *", "jobTemplate": {"spec": owner}}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": owner}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}
    owner = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": owner}


@cache
def warnings(name: str) -> list[LintFinding]:
    """What lint says of a chart above info, on no node in particular."""
    items = [document(one) for one in CHARTS[name]["pods"]]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    loaded = load_text(text, Options(keep_raw=True), name=name)
    node, _ = load_node([], Flags(), texts=[("any node", ANY_NODE)])
    found = lint(plan(loaded.pods, node), loaded.raw).findings
    return [one for one in found if one.severity != "info"]


def listed(name: str) -> dict[tuple[str, str], str]:
    """The reasons of a chart's warnings by pod, rule and container."""
    return {
        (shape["pod"].partition(" ")[2], about): why
        for shape in CHARTS[name]["pods"]
        for row in shape.get("warnings", ())
        for about, why in row.items()
    }


@pytest.mark.parametrize("name", CHARTS)
def test_every_warning_is_listed_with_its_reason_and_no_other(name: str) -> None:
    said = []
    for one in warnings(name):
        assert one.pod is not None
        said.append((one.pod.key, f"{one.id} {one.container}"))
    assert sorted(said) == sorted(listed(name))


@pytest.mark.parametrize("name", [name for name in CHARTS if listed(name)])
def test_what_a_reason_says_of_resources_is_so(name: str) -> None:
    """The first words of a reason for QL022 are about the shape itself."""
    reasons, checked = listed(name), 0
    for shape in CHARTS[name]["pods"]:
        for one in (*shape.get("initContainers", ()), *shape["containers"]):
            key = shape["pod"].partition(" ")[2], f"QL022 {one['name']}"
            if key not in reasons:
                continue
            given = one.get("resources", {})
            requests = given.get("requests", {})
            assert "memory" not in given.get("limits", {})
            first = re.split("[:,]", reasons[key])[0]
            if first in ("no resources", "left out where the others have 250Mi"):
                assert not given
            elif first == "limits storage only":
                assert given.keys() == {"limits"}
                assert given["limits"].keys() == {"ephemeral-storage"}
            elif first == "requests CPU only":
                assert requests.keys() == {"cpu"}
            else:
                assert re.fullmatch(r"requests (memory|\w+Mi) without a limit", first)
                assert "memory" in requests
                assert first.split()[1] in ("memory", requests["memory"])
            checked += 1
    assert checked or not any("QL022" in about for _, about in reasons)


def test_there_are_enough_of_them_and_the_document_says_how_many() -> None:
    assert len(CHARTS) >= 40
    count = sum(len(listed(name)) for name in CHARTS)
    quiet = sum(not listed(name) for name in CHARTS)
    pods = sum(len(one["pods"]) for one in CHARTS.values())
    text = " ".join((REPO / "docs/reference/lint.md").read_text(encoding="utf-8").split())
    assert f"{len(CHARTS)} public charts, {pods} pods: {count} warnings" in text
    assert f"{quiet} charts have none" in text
