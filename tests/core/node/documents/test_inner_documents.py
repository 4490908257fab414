"""Documents as text inside others, and the names that clouds give to the kubelet's fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.errors import BadInput
from tests.core.node.documents.test_embedded import CONFIG, KIND, MACHINE, OWN, PATCH, SHOOT
from tests.core.node.test_kubeadm import read


def test_the_image_of_a_kubelet_names_its_release(tmp_path: Path) -> None:
    own = {key: value for key, value in OWN.items() if key != "kubernetes"}
    kubelet = {"image": "ghcr.io/siderolabs/kubelet:v1.31.4", "extraConfig": CONFIG}
    talos = {"version": "v1alpha1", "machine": {"kubelet": kubelet}}
    kind = {**KIND, **PATCH, "nodes": [{"image": "kindest/node:v1.29.2@sha256:0a1b"}]}
    shoot = {**SHOOT, "spec": {"kubernetes": {"version": "1.32.1", "kubelet": CONFIG}}}
    for document, release in ((talos, "1.31"), (kind, "1.29"), (shoot, "1.32")):
        node, _ = read(tmp_path, own, document)
        assert node.profile.kubernetes == release


def test_the_patches_of_kind_are_read_as_the_documents_that_they_are(tmp_path: Path) -> None:
    flags = "kind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: {pod-max-pids: '77'}}"
    cluster = {
        **KIND,
        **PATCH,
        "featureGates": {"MemoryQoS": True},
        "kubeadmConfigPatches": [*PATCH["kubeadmConfigPatches"], "kind: KubeProxyConfiguration"],
        "nodes": [{"role": "worker"}, {"kubeadmConfigPatches": [flags]}],
    }
    node, problems = read(tmp_path, OWN, cluster)
    assert (node.kubelet.max_pods, node.kubelet.pod_pids_limit) == (42, 77)
    assert node.kubelet.feature_gates == {"MemoryQoS": True}
    assert node.origins["maxPods"].endswith(": kubeadmConfigPatches[0]: maxPods")
    assert any("the distribution" in row.message for row in problems)
    broken = {**KIND, "kubeadmConfigPatches": ["a: [", 7]}
    with pytest.raises(BadInput, match=r"kubeadmConfigPatches\[0\]: line 2"):
        read(tmp_path, OWN, broken)


@pytest.mark.parametrize(
    "source",
    [
        "data:text/plain;charset=utf-8;base64,a2luZDogS3ViZWxldENvbmZpZ3VyYXRpb24KbWF4UG9kczogNDIK",
        "data:,kind%3A%20KubeletConfiguration%0AmaxPods%3A%2042%0A",
    ],
)
def test_the_file_of_a_machine_config_is_the_whole_configuration(
    tmp_path: Path, source: str
) -> None:
    files = [
        {"path": "/etc/a"},
        {"path": "/etc/kubernetes/kubelet.conf", "contents": {"source": source}},
    ]
    node, problems = read(
        tmp_path, OWN, {**MACHINE, "spec": {"config": {"storage": {"files": files}}}}
    )
    assert node.kubelet.max_pods == 42
    assert "files[1].contents: maxPods" in node.origins["maxPods"]
    assert not any("the distribution" in row.message for row in problems)


@pytest.mark.parametrize("source", ["data:;base64,!", "http://a/b", "data:", 5, None])
def test_another_file_of_a_machine_config_is_none(tmp_path: Path, source: object) -> None:
    file = {"path": "/etc/kubernetes/kubelet.conf", "contents": {"source": source}}
    document = {**MACHINE, "spec": {"config": {"storage": {"files": [file]}}}}
    _, problems = read(tmp_path, OWN, document)
    assert any("does not hold" in row.message for row in problems)


def test_gke_groups_policies_and_counts_hugepages(tmp_path: Path) -> None:
    config = {
        "memoryManager": {"policy": "None"},
        "topologyManager": {"policy": "BestEffort", "scope": "pod"},
        "singleProcessOomKill": True,
        "imageGcLowThresholdPercent": 70,
        "memoryManger": {},
    }
    linux = {"hugepageConfig": {"hugepage_size2m": "1024", "hugepage_size1g": 2}}
    node, problems = read(tmp_path, OWN, {"kubeletConfig": config, "linuxConfig": linux})
    assert node.kubelet.topology_manager_policy == "best-effort"
    assert node.kubelet.topology_manager_scope == "pod"
    assert node.kubelet.single_process_oom_kill
    assert node.origins["topologyManagerScope"].endswith("kubeletConfig.topologyManager.scope")
    pages = {str(node.capacity[name]) for name in ("hugepages-2Mi", "hugepages-1Gi")}
    assert pages == {"2Gi"}
    assert [row.where for row in problems if "not a KubeletConfiguration field" in row.message] == [
        row.where for row in problems if row.where.endswith("kubeletConfig.memoryManger")
    ]


def test_aks_and_gardener_have_names_of_their_own(tmp_path: Path) -> None:
    aks = {
        "cpuCfsQuota": False,
        "cpuCfsQuotaPeriod": "50ms",
        "podMaxPids": 99,
        "containerLogMaxSizeMB": 20,
        "imageGcHighThreshold": 90,
        "failSwapOn": False,
    }
    node, problems = read(tmp_path, OWN, aks)
    kubelet = node.kubelet
    assert (kubelet.cpu_cfs_quota, kubelet.cpu_cfs_quota_period_us) == (False, 50000)
    assert (kubelet.pod_pids_limit, kubelet.container_log_max_size) == (99, 20_000_000)
    assert node.origins["podPidsLimit"].endswith(": podMaxPids")
    assert not any("not a KubeletConfiguration" in row.message for row in problems)
    settings = {
        "evictionHard": {"memoryAvailable": "300Mi", "nodeFSInodesFree": "3%"},
        "kubeReserved": {"cpu": "100m", "ephemeralStorage": "1Gi"},
    }
    pool = {"kubernetes": {"kubelet": settings}}
    for spec in ({"kubernetes": {"kubelet": settings}}, {"provider": {"workers": [pool]}}):
        node, _ = read(tmp_path, OWN, {**SHOOT, "spec": spec})
        assert {"memory.available", "nodefs.inodesFree"} <= set(node.kubelet.eviction_hard)
        assert set(node.kubelet.kube_reserved) == {"cpu", "ephemeral-storage"}
