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


EKS = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}
FLAGGED: list[tuple[dict[str, Any], str]] = [
    ({**EKS, "spec": {"kubelet": {"flags": ["--max-pods=42"]}}}, "spec.kubelet.flags.max-pods"),
    (
        {**EKS, "spec": {"kubelet": {"config": {"maxPods": 9}, "flags": ["--max-pods", "42"]}}},
        "spec.kubelet.flags.max-pods",
    ),
    (
        {"version": "v1alpha1", "machine": {"kubelet": {"extraArgs": {"max-pods": "42"}}}},
        "machine.kubelet.extraArgs.max-pods",
    ),
    (
        {"version": "v1alpha1", "machine": {"kubelet": {"extraArgs": {"max-pods": ["9", "42"]}}}},
        "machine.kubelet.extraArgs.max-pods",
    ),
    ({"kubelet-arg": ["max-pods=42"], "node-label": []}, "kubelet-arg.max-pods"),
    ({"kubelet-arg": "max-pods=42"}, "kubelet-arg.max-pods"),
]


@pytest.mark.parametrize(("document", "field"), FLAGGED)
def test_flags_stand_above_every_configuration(
    tmp_path: Path, document: dict[str, Any], field: str
) -> None:
    kubelet = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    for others in ([], [{**kubelet, "maxPods": 7, "podPidsLimit": 77}]):
        node, problems = read(tmp_path, OWN, document, *others)
        assert node.kubelet_given
        assert node.kubelet.max_pods == 42
        assert node.origins["maxPods"].endswith(f": {field}")
        assert node.kubelet.pod_pids_limit == (77 if others else -1)
        assert [row.severity for row in problems if "the distribution" in row.message] == ["info"]


def test_flags_without_an_effect_are_told_and_those_of_maps_add_up(tmp_path: Path) -> None:
    flags = [
        "--node-labels=a=b",
        "--feature-gates=MemoryQoS=true",
        "--fail-swap-on",
        "--kube-reserved=cpu=500m",
        "--kube-reserved=memory=1Gi",
        "--max-podz=3",
        7,
    ]
    config = {"featureGates": {"NodeSwap": True}}
    document = {**EKS, "spec": {"kubelet": {"config": config, "flags": flags}}}
    node, problems = read(tmp_path, OWN, document)
    assert node.kubelet.feature_gates == {"NodeSwap": True, "MemoryQoS": True}
    assert node.kubelet.fail_swap_on
    assert {name: str(amount) for name, amount in node.kubelet.kube_reserved.items()} == {
        "cpu": "500m",
        "memory": "1Gi",
    }
    told = {row.message: row.hint for row in problems if "spec.kubelet.flags" in row.where}
    assert told["node-labels: nothing about resources"] == ""
    assert "max-pods" in told["'max-podz' is not a flag of a kubelet and has no effect"]
    assert "must be a text, not a number and has no effect" in told


def test_a_document_of_flags_of_another_shape_is_told(tmp_path: Path) -> None:
    _, problems = read(tmp_path, OWN, {**EKS, "spec": {"kubelet": {"flags": 5}}})
    assert any("must be a text" in row.message for row in problems)


STATIC = {"cpuManagerPolicy": "static"}


@pytest.mark.parametrize(
    "document",
    [
        {"kubeletConfig": STATIC},
        {**EKS, "spec": {"kubelet": {"config": STATIC}}},
        {"kubelet-arg": ["cpu-manager-policy=static"]},
    ],
)
def test_what_the_distribution_may_set_is_no_error(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    """GKE and EKS reserve CPU on every node; a whole configuration without any is refused."""

    def severities(*documents: Any) -> list[str]:
        _, problems = read(tmp_path, OWN, *documents)
        return [row.severity for row in problems if "needs CPU in kubeReserved" in row.message]

    kubelet = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    assert severities(document) == ["warning"]
    assert severities(document, kubelet) == ["error"]
    assert severities(kubelet, document) == ["error"]
    assert severities({**kubelet, **STATIC}) == ["error"]


@pytest.mark.parametrize(
    ("mode", "hierarchy"),
    [("CGROUP_MODE_V1", "v1"), ("CGROUP_MODE_V2", "v2"), ("CGROUP_MODE_UNSPECIFIED", None)],
)
def test_the_cgroup_mode_of_gke_is_the_hierarchy(
    tmp_path: Path, mode: str, hierarchy: str | None
) -> None:
    for config in ({"kubeletConfig": {"maxPods": 42}}, {}):
        if not config and hierarchy is None:
            continue
        document = {**config, "linuxConfig": {"cgroupMode": mode}}
        node, _ = read(tmp_path, OWN, document)
        place = node.origins.get("host.hierarchy", "")
        assert place.endswith(": linuxConfig.cgroupMode") is (hierarchy is not None)
        if hierarchy is not None:
            assert node.hierarchy == hierarchy
