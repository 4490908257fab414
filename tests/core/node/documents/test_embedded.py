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
    ({"apiVersion": "v1alpha1", "kind": "KubeletConfig", "config": CONFIG}, "config.maxPods"),
    (
        {
            "apiVersion": "karpenter.azure.com/v1beta1",
            "kind": "AKSNodeClass",
            "spec": {"kubelet": CONFIG},
        },
        "spec.kubelet.maxPods",
    ),
    (
        {
            "apiVersion": "karpenter.sh/v1beta1",
            "kind": "NodePool",
            "spec": {"template": {"spec": {"kubelet": CONFIG}}},
        },
        "spec.template.spec.kubelet.maxPods",
    ),
    (
        {
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Provisioner",
            "spec": {"kubeletConfiguration": CONFIG},
        },
        "spec.kubeletConfiguration.maxPods",
    ),
    (
        {
            "apiVersion": "k0s.k0sproject.io/v1beta1",
            "kind": "ClusterConfig",
            "spec": {"workerProfiles": [{"name": "a", "values": CONFIG}]},
        },
        "spec.workerProfiles[0].values.maxPods",
    ),
    (
        {
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "Shoot",
            "spec": {"kubernetes": {"kubelet": CONFIG}},
        },
        "spec.kubernetes.kubelet.maxPods",
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {
                    "apiVersion": "machineconfiguration.openshift.io/v1",
                    "kind": "KubeletConfig",
                    "spec": {"kubeletConfig": CONFIG},
                }
            ],
        },
        "items[0]: spec.kubeletConfig.maxPods",
    ),
]
KIND = {"apiVersion": "kind.x-k8s.io/v1alpha4", "kind": "Cluster"}
PATCH = {"kubeadmConfigPatches": ["kind: KubeletConfiguration\nmaxPods: 42"]}
MACHINE = {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig"}
K0S = {"apiVersion": "k0s.k0sproject.io/v1beta1", "kind": "ClusterConfig"}
SHOOT = {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot"}
POOL = {"kubernetes": {"kubelet": CONFIG}}
EMPTY: list[tuple[dict[str, Any], str]] = [
    (KIND, "no kubeadmConfigPatches"),
    ({**MACHINE, "spec": {}}, "does not hold /etc/kubernetes/kubelet.conf"),
    ({"version": "v1alpha1", "machine": {"kubelet": {}}}, "no machine.kubelet.extraConfig"),
    (
        {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"kubelet": 1}},
        "has no spec.kubelet.config",
    ),
    ({**K0S, "spec": {}}, "has no spec.workerProfiles"),
    (
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {}},
        "no spec.template.spec.kub",
    ),
    ({"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "w"}, "nothing of a kubelet"),
]
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}
        | {"spec": {"kubelet": {"config": [1]}}},
        "is not an object",
        "correct it",
    ),
    (
        {**KIND, "nodes": [PATCH, {}, PATCH]},
        "nodes[0] and nodes[2] of the Cluster",
        "leave those of the node",
    ),
    (
        {**K0S, "spec": {"workerProfiles": [{"values": CONFIG}, {"values": CONFIG}]}},
        "2 worker profiles",
        "leave one",
    ),
    ({**SHOOT, "spec": {"provider": {"workers": [POOL, {}]}}}, "different kubelets", "configz"),
    ({"apiVersion": "kops.k8s.io/v1alpha2", "kind": "Cluster"}, "kOps' own names", "configz"),
    (
        {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "KubeadmConfigTemplate"},
        "parts of kubeadm's file",
        "configz",
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


@pytest.mark.parametrize(("document", "message"), EMPTY)
def test_one_without_a_configuration_may_stand_beside_another(
    tmp_path: Path, document: dict[str, Any], message: str
) -> None:
    _, problems = read(tmp_path, OWN, document)
    assert [row.severity for row in problems if message in row.message] == ["info"]
    with pytest.raises(BadInput, match="configz") as caught:
        read(tmp_path, document, more=None)
    assert message in str(caught.value)


def test_the_documents_of_a_talos_file_are_counted(tmp_path: Path) -> None:
    others = [{"apiVersion": "v1alpha1", "kind": f"{name}Config"} for name in "ABCDE"]
    talos = {"apiVersion": "v1alpha1", "kind": "KubeletConfig", "config": CONFIG}
    node, problems = read(tmp_path, OWN, *others, {**talos, "image": "example.com/kubelet:v1.34.2"})
    assert node.kubelet.max_pods == 42
    told = [row.message for row in problems if row.message.startswith("skipped")]
    assert len(told) == 4
    assert told[-1].startswith("skipped: 2 more")


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
    ("image", "driver"),
    [
        ("Amazon Linux 2023", "systemd"),
        ("Amazon Linux 2", "cgroupfs"),
        ("Talos (v1.9)", "cgroupfs"),
    ],
)
def test_a_part_of_a_configuration_does_not_decide_about_the_driver(
    tmp_path: Path, image: str, driver: str
) -> None:
    status = {"capacity": {"cpu": "2", "memory": "4Gi"}, "nodeInfo": {"osImage": image}}
    api = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "far"}, "status": status}
    config = {**EKS, "spec": {"kubelet": {"config": CONFIG}}}
    whole = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    told = {**EKS, "spec": {"kubelet": {"config": {"cgroupDriver": "systemd"}}}}
    assert (
        read(tmp_path, OWN, api)[0].driver == read(tmp_path, OWN, api, config)[0].driver == driver
    )
    assert read(tmp_path, OWN, api, config, whole)[0].driver == "cgroupfs"
    assert read(tmp_path, OWN, api, told)[0].driver == "systemd"


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
