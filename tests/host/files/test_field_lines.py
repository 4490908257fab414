"""The lines of fields in manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoslet.host.files.field_lines import FieldLines

TEXT = """\
# a comment
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    metadata:
      annotations:
        qoslet.dev/lint-ignore: QL999
    spec:
      containers:
      - name: a
        resources:
          requests:
            memory: 64Mi
          limits: {cpu: 30m}
      - name: b
---
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata: {name: web, namespace: shop}
  spec:
    volumes: [{name: x, emptyDir: {}}]
"""


@pytest.mark.parametrize(
    ("name", "field", "line"),
    [
        ("Deployment default/web", "spec.containers[0].resources.requests.memory", 20),
        ("Deployment default/web", "spec.containers[0].resources.limits.memory", 21),
        ("Deployment default/web", "spec.containers[1].resources.limits.memory", 22),
        ("Deployment default/web", "metadata.annotations[qoslet.dev/lint-ignore]", 14),
        ("Pod shop/web", "spec.volumes[0].emptyDir.sizeLimit", 30),
        ("Pod shop/web", "spec.containers[7]", 29),
        ("Pod default/gone", "spec", None),
        ("", "kind", 3),
    ],
)
def test_a_field_has_its_line_or_that_of_what_lacks_it(
    tmp_path: Path, name: str, field: str, line: int | None
) -> None:
    (tmp_path / "web.yaml").write_text(TEXT)
    assert FieldLines().line(str(tmp_path / "web.yaml"), name, field) == line


def test_json_has_lines(tmp_path: Path) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "b"}]}}
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "items": [pod]}, indent=1))
    found = FieldLines().line(str(tmp_path / "a.json"), "Pod default/a", "spec.containers[0].image")
    assert found == 11


@pytest.mark.parametrize("text", ["a: [", "", "- 1\n- 2\n", "[" * 3000, "\0", "a: &a [*a]"])
def test_what_cannot_be_read_has_no_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    lines = FieldLines()
    for file in (tmp_path / "odd.yaml", tmp_path, tmp_path / "gone.yaml"):
        assert lines.line(str(file), "Pod default/a", "spec") is None
