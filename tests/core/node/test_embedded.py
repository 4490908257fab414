"""KubeletConfigurations inside documents of distributions and clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qoslet.errors import BadInput
from tests.core.node.test_kubeadm import read

OWN = {"apiVersion": "qoslet/v1", "kind": "Node", "kubernetes": "1.35"}
CONFIG = {"maxPods": 42, "kubeReserved": {"memory": "1Gi"}}
READ: list[tuple[dict[str, Any], str]] = [
    (
        {
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "KubeletConfig",
            "spec": {"machineConfigPoolSelector": {}, "kubeletConfig": CONFIG},
        },
        "spec.kubeletConfig.maxPods",
    ),
    (
        {
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {"cluster": {"name": "c"}, "kubelet": {"config": CONFIG, "flags": []}},
        },
        "spec.kubelet.config.maxPods",
    ),
    (
        {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": {"kubelet": CONFIG}},
        "spec.kubelet.maxPods",
    ),
    (
        {
            "version": "v1alpha1",
            "machine": {"type": "worker", "kubelet": {"extraConfig": CONFIG}},
            "cluster": {},
        },
        "machine.kubelet.extraConfig.maxPods",
    ),
    ({"kubeletConfig": CONFIG, "linuxConfig": {"sysctl": {}}}, "kubeletConfig.maxPods"),
]
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "kind": "Cluster",
            "kubeadmConfigPatches": ["kind: KubeletConfiguration\nmaxPods: 9"],
        },
        "kubeadmConfigPatches",
        "give that patch as a file",
    ),
    (
        {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": {}},
        "holds files of a node",
        "KubeletConfig object",
    ),
    ({"kubelet-arg": ["max-pods=9"], "node-label": []}, "k3s or RKE2", "--eviction-hard"),
    (
        {"version": "v1alpha1", "machine": {"kubelet": {}}},
        "no machine.kubelet.extraConfig",
        "configz",
    ),
    (
        {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"kubelet": 1}},
        "has no spec.kubelet.config",
        "configz",
    ),
    (
        {
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {"kubelet": {"config": [1]}},
        },
        "is not an object",
        "correct it",
    ),
]


@pytest.mark.parametrize(("document", "field"), READ)
def test_it_is_read_where_it_stands_plainly(
    tmp_path: Path, document: dict[str, Any], field: str
) -> None:
    node, problems = read(tmp_path, OWN, document)
    assert node.kubelet_given
    assert node.kubelet.max_pods == 42
    assert node.origins["maxPods"].endswith(f": {field}")
    (row,) = [row for row in problems if "the distribution" in row.message]
    assert row.severity == "info"


@pytest.mark.parametrize(("document", "message", "hint"), REFUSED)
def test_or_refused_with_what_to_give_instead(
    tmp_path: Path, document: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, OWN, document)
    text = str(caught.value)
    assert message in text
    assert hint in text
    assert len(text.splitlines()) == 1
