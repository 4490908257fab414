"""A kubelet's flags as files have them, and texts of other formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.api.documents import Options
from qoslet.core.node.flags import Flags
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node

OWN = "apiVersion: qoslet/v1\nkind: Node\ncapacity: {cpu: 4, memory: 8Gi}\n"
FLAGS = [
    (
        'KUBELET_KUBEADM_ARGS="--max-pods=42 --node-labels=a=b --kube-reserved=cpu=1"\n',
        "KUBEADM_ARGS",
    ),
    ("# of MicroK8s\n--kubeconfig=${SNAP_DATA}/kubelet.config\n--max-pods=42\n", "arguments"),
    ("KUBELET_EXTRA_ARGS=--max-pods=42\nOTHER=\n", "KUBELET_EXTRA_ARGS"),
    ("/usr/bin/kubelet --config=/a.yaml --max-pods 42 --v=2\n", "arguments"),
    ("--node-labels='a=b'\n--max-pods=42", "arguments"),
]
OTHERS = [
    ("NAME   READY   STATUS\nweb    1/1     Running\n", "is a table of kubectl", "-o yaml"),
    ("NAMESPACE   NAME   READY\nweb   a   1/1\n", "is a table of kubectl", "-o yaml"),
    (
        "Name:   n1\nRoles:  <none>\nEvents:\n  Type  Reason\n  ----  ------\n a: b\n",
        "kubectl describe",
        "kubectl get",
    ),
    ('[settings.kubernetes]\ncluster-name = "x"\n', "is TOML", "configz"),
    ("MIME-Version: 1.0\nContent-Type: a; b=c: d\n\n--//\n", "MIME parts", "node.eks.aws"),
    ("#!/bin/sh\nset -e\n", "is a script", "what it makes"),
]


def written(folder: Path, text: str) -> list[str]:
    (folder / "given").write_text(text)
    (folder / "own.yaml").write_text(OWN)
    return [str(folder / "given"), str(folder / "own.yaml")]


@pytest.mark.parametrize(("text", "field"), FLAGS)
def test_flags_of_a_kubelet_are_a_node_document(tmp_path: Path, text: str, field: str) -> None:
    node, problems = load_node(written(tmp_path, text), Flags(probe="never"))
    assert node.kubelet_given
    assert node.kubelet.max_pods == 42
    assert f"{field}.max-pods" in node.origins["maxPods"]
    assert [row.severity for row in problems if "the distribution" in row.message] == ["info"]


@pytest.mark.parametrize("text", ['ARGS="--max-pods=42', "--", "A=b", "--Max", ""])
def test_other_words_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInputs):
        load_node(written(tmp_path, text), Flags(probe="never"))


@pytest.mark.parametrize(("text", "message", "hint"), OTHERS)
def test_a_text_of_another_format_says_what_to_give(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(BadInputs) as of_node:
        load_node(written(tmp_path, text), Flags(probe="never"))
    with pytest.raises(BadInputs) as of_pods:
        load_text(text, Options(), name="given")
    for caught in (of_node, of_pods):
        (fault,) = caught.value.faults
        assert message in fault.message
        assert hint in fault.hint
