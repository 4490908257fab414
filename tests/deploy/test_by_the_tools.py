"""``deploy/`` as Helm and kubectl themselves render it, where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.objects import CHART, KUSTOMIZE, Objects, chart, documents, kustomized

HELM, KUBECTL = shutil.which("helm"), shutil.which("kubectl")
VALUES: list[dict[str, Any]] = [
    {},
    {"mode": "release", "cgroupRoot": "/pods/kubepods"},
    {"mode": "release", "nri": True, "monitoring": True},
    {
        "nri": True,
        "realTime": True,
        "imagePullSecrets": [{"name": "r"}],
        "extraArgs": ["--interval=60"],
    },
    {"monitoring": True, "tolerations": [], "nodeSelector": {"a": "b"}},
    {"rbac": {"api": True, "evict": True, "nodeCondition": True, "nodesProxy": True}},
    {"policy": {"mode": "guard", "evict": "pod", "namespaces": ["shop"], "memoryQos": 1.36}},
]
COMPONENTS = [
    *([path.name] for path in sorted((KUSTOMIZE / "components").iterdir())),
    ["api-source", "evict", "node-condition", "nri", "monitoring"],
    ["release", "monitoring"],
]


def _output(*command: str) -> Objects:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = {(one["kind"], one["metadata"]["name"]): one for one in documents(done.stdout)}
    return _parsed(found)


def _parsed(objects: Objects) -> Objects:
    """The same, with the policy as a document: the order of its fields is not a difference."""
    for (kind, _), one in objects.items():
        if kind == "ConfigMap" and "policy.yaml" in one["data"]:
            one["data"]["policy.yaml"] = yaml.safe_load(one["data"]["policy.yaml"])
    return objects


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
@pytest.mark.parametrize("values", VALUES, ids=str)
def test_helm_renders_the_chart_as_its_tests_do(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    by_helm = _output(
        *(str(HELM), "template", "qoslet", str(CHART), "-n", "qoslet"),
        *("-f", str(tmp_path / "values.yaml"), "--api-versions", "monitoring.coreos.com/v1"),
    )
    assert by_helm == _parsed(chart(**values))


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("components", COMPONENTS, ids=",".join)
def test_kubectl_puts_the_base_together_as_its_tests_do(
    components: list[str], tmp_path: Path
) -> None:
    shutil.copytree(KUSTOMIZE, tmp_path / "kustomize")
    (tmp_path / "own").mkdir()
    own = {
        "resources": ["../kustomize/base"],
        "components": [f"../kustomize/components/{one}" for one in components],
    }
    (tmp_path / "own/kustomization.yaml").write_text(yaml.safe_dump(own))
    by_kubectl = _output(str(KUBECTL), "kustomize", str(tmp_path / "own"))
    assert by_kubectl == _parsed(kustomized(*components))
