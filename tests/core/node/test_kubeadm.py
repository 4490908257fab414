"""kubeadm's file and its ConfigMaps as descriptions of a node, and one node of many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.errors import BadInputs
from qoslet.host.files.node import load_node

KUBEADM = "kubeadm.k8s.io/v1beta4"


def cluster(version: object = "v1.31.4", api: str = KUBEADM) -> dict[str, Any]:
    return {"apiVersion": api, "kind": "ClusterConfiguration", "kubernetesVersion": version}


def init(kind: str = "InitConfiguration", api: str = KUBEADM, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "nodeRegistration": fields}


def kubelet(**fields: Any) -> dict[str, Any]:
    api = "kubelet.config.k8s.io/v1beta1"
    return {"apiVersion": api, "kind": "KubeletConfiguration", **fields}


PROXY = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n-a"},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "nodeInfo": {"kubeletVersion": "v1.33.1"},
    },
}
OWN = {"apiVersion": "qoslet/v1", "kind": "Node", "capacity": {"cpu": 4, "memory": "8Gi"}}


def named(name: str, cpu: str = "4") -> dict[str, Any]:
    status = {"capacity": {"cpu": cpu, "memory": "8Gi"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def read(
    folder: Path, *documents: object, more: object = OWN, **flags: str
) -> tuple[Node, list[Problem]]:
    path = folder / "node.yaml"
    given = [*documents, more] if more is not None else [*documents]
    path.write_text("---\n".join(yaml.safe_dump(one) for one in given))
    return load_node([str(path)], Flags(probe="never", **flags))


def refused(folder: Path, *documents: object, **flags: str) -> list[str]:
    with pytest.raises(BadInputs) as found:
        read(folder, *documents, more=None, **flags)
    return [str(fault) for fault in found.value.faults]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_kubeadms_file_is_read(tmp_path: Path, order: tuple[int, ...]) -> None:
    reserved = {"kubeReserved": {"cpu": "200m"}}
    parts = [init(name="cp-1"), cluster(), kubelet(**reserved), PROXY]
    node, problems = read(tmp_path, *(parts[at] for at in order))
    assert [row for row in problems if row.severity != "info"] == []
    assert (node.name, node.profile.kubernetes, node.driver) == ("cp-1", "1.31", "systemd")
    assert str(node.origins["kubernetes"]).endswith("kubernetesVersion")
    assert node.kubelet.kube_reserved.keys() == {"cpu"}
    assert node.kubelet_given


@pytest.mark.parametrize("api", ["v1beta1", "v1beta2", "v1beta3", "v1beta4", "v1"])
def test_every_version_of_kubeadm(tmp_path: Path, api: str) -> None:
    node, _ = read(tmp_path, cluster(api=f"kubeadm.k8s.io/{api}"))
    assert (node.profile.kubernetes, node.kubelet_given) == ("1.31", True)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("v1.36.2", "1.36"),
        ("1.36.2", "1.36"),
        ("v1.30.0-rc.1", "1.30"),
        ("v1.29.4+k3s1", "1.29"),
        ("stable-1.32", "1.32"),
    ],
)
def test_the_version_of_the_cluster(tmp_path: Path, version: str, release: str) -> None:
    assert read(tmp_path, cluster(version))[0].profile.kubernetes == release


@pytest.mark.parametrize("version", ["stable", "latest", "ci/latest", "stable-1", "", None, 1, []])
def test_a_version_that_names_no_release_is_left_out(tmp_path: Path, version: object) -> None:
    node, _ = read(tmp_path, cluster(version))
    assert "node.yaml" not in node.origins.get("kubernetes", "")


def test_kubeadms_default_driver_is_systemd_since_1_22(tmp_path: Path) -> None:
    """cmd/kubeadm/app/componentconfigs/kubelet.go: the driver that is not given."""
    assert read(tmp_path, cluster("v1.22.0"), kubelet())[0].driver == "systemd"
    assert read(tmp_path, cluster("v1.21.9"), kubelet())[0].driver == "cgroupfs"
    assert read(tmp_path, cluster(), kubelet(cgroupDriver="cgroupfs"))[0].driver == "cgroupfs"
    assert read(tmp_path, cluster(), cgroup_driver="cgroupfs")[0].driver == "cgroupfs"
    assert read(tmp_path, kubelet())[0].driver == "cgroupfs"


@pytest.mark.parametrize("kind", ["InitConfiguration", "JoinConfiguration"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"max-pods": "40", "node-labels": "a=b", "cgroup-driver": "cgroupfs"},
        [
            {"name": "max-pods", "value": "40"},
            {"name": "node-labels", "value": "a=b"},
            {"name": "cgroup-driver", "value": "cgroupfs"},
        ],
    ],
)
def test_the_kubelets_flags_override_its_configuration(
    tmp_path: Path, kind: str, arguments: object
) -> None:
    node, _ = read(tmp_path, init(kind, kubeletExtraArgs=arguments), kubelet(maxPods=7))
    assert (node.kubelet.max_pods, node.driver) == (40, "cgroupfs")
    assert node.origins["maxPods"].endswith("nodeRegistration.kubeletExtraArgs.max-pods")
    given, _ = read(tmp_path, init(kind, kubeletExtraArgs=arguments), kubelet(), max_pods="9")
    assert given.kubelet.max_pods == 9


@pytest.mark.parametrize("given", [None, 3, "a", [None, 3], [{"name": 1}], {"max-pods": 40}])
def test_arguments_that_are_none_are_no_traceback(tmp_path: Path, given: object) -> None:
    node, _ = read(tmp_path, init(kubeletExtraArgs=given), kubelet(maxPods=7))
    assert node.kubelet.max_pods == 7


LISTED = [
    {"name": "node-labels", "value": "a=b"},
    {"name": "max-podz", "value": "40"},
    {"name": "v", "value": 2},
    {"value": "lonely"},
    "--v=2",
]
MAPPED = {"node-labels": "a=b", "max-podz": "40", "v": 2}


@pytest.mark.parametrize(
    ("api", "given", "places"),
    [
        ("v1beta4", LISTED, ["[1].value", "[2].value", "[3].name", "[4]"]),
        ("v1beta3", MAPPED, [".max-podz", ".v"]),
        ("v1beta4", {"v": "2"}, [""]),
        ("v1beta2", [{"name": "v", "value": "2"}], [""]),
        ("v1beta4", "--v=2", [""]),
    ],
)
def test_arguments_without_effect_are_named(
    tmp_path: Path, api: str, given: object, places: list[str]
) -> None:
    document = init(api=f"kubeadm.k8s.io/{api}", kubeletExtraArgs=given)
    _, problems = read(tmp_path, document, kubelet())
    warned = [row for row in problems if row.severity == "warning" and "ExtraArgs" in row.where]
    assert [row.where.partition("kubeletExtraArgs")[2] for row in warned] == places
    assert all("no effect" in row.message or "refuses" in row.message for row in warned)
    near = [row.hint for row in warned if "max-podz" in row.message]
    assert near in ([], ["did you mean max-pods?"])
    said = [row.message for row in problems if row.severity == "info"]
    assert ("node-labels: nothing about resources" in said) is ("node-labels" in str(given))


def test_what_joins_has_the_kubelet_of_its_flags(tmp_path: Path) -> None:
    arguments = [{"name": "max-pods", "value": "40"}, {"name": "hostname-override", "value": "w-1"}]
    node, _ = read(tmp_path, init("JoinConfiguration", kubeletExtraArgs=arguments))
    assert (node.kubelet.max_pods, node.name, node.driver) == (40, "w-1", "systemd")
    assert node.kubelet_given


def test_a_drop_in_adds_to_the_maps_of_the_file(tmp_path: Path) -> None:
    """cmd/kubelet/app/server.go mergeKubeletConfigurations: a JSON merge patch."""
    file = kubelet(
        kubeReserved={"cpu": "80m", "memory": "442Mi", "ephemeral-storage": "1Gi"},
        evictionHard={"memory.available": "100Mi", "nodefs.available": "10%"},
        featureGates={"MemoryQoS": True, "NodeSwap": False},
        enforceNodeAllocatable=["pods"],
    )
    drop_in = kubelet(
        kubeReserved={"cpu": "200m", "ephemeral-storage": None},
        evictionHard={"memory.available": "200Mi"},
        featureGates={"NodeSwap": True},
        maxPods=30,
    )
    node, _ = read(tmp_path, file, drop_in)
    reserved = {name: str(amount) for name, amount in node.kubelet.kube_reserved.items()}
    assert reserved == {"cpu": "200m", "memory": "442Mi"}
    assert node.kubelet.eviction_hard.keys() == {"memory.available", "nodefs.available"}
    assert node.kubelet.feature_gates == {"MemoryQoS": True, "NodeSwap": True}
    assert node.kubelet.max_pods == 30
    origins = {name: node.origins[name] for name in node.origins if "Reserved." in name}
    assert "document 2" in origins["kubeReserved.cpu"]
    assert "document 1" in origins["kubeReserved.memory"]
    assert "document 1" in node.origins["featureGates.MemoryQoS"]
    assert "document 2" in node.origins["featureGates.NodeSwap"]
    other, _ = read(tmp_path, file, drop_in, kube_reserved="cpu=1")
    assert {name: str(one) for name, one in other.kubelet.kube_reserved.items()} == {"cpu": "1"}
    assert other.origins.get("kubeReserved.cpu", "--kube-reserved") == "--kube-reserved"
    third, _ = read(tmp_path, file, drop_in, kubelet(kubeReserved={"memory": "1Gi"}))
    assert "document 2" in third.origins["kubeReserved.cpu"]
    assert "document 3" in third.origins["kubeReserved.memory"]


@pytest.mark.parametrize("order", [1, -1])
def test_gates_of_flags_win_one_by_one(tmp_path: Path, order: int) -> None:
    gates = {"MemoryQoS": True, "NodeSwap": False}
    argument = {"name": "feature-gates", "value": "NodeSwap=true"}
    documents = [cluster(), init(kubeletExtraArgs=[argument]), kubelet(featureGates=gates)]
    node, _ = read(tmp_path, *documents[::order], feature_gates="PodLevelResources=false")
    assert node.kubelet.feature_gates == {
        "MemoryQoS": True, "NodeSwap": True, "PodLevelResources": False,
    }  # fmt: skip
    origins = {name: node.origins[f"featureGates.{name}"] for name in node.kubelet.feature_gates}
    assert "kubeletExtraArgs" not in origins["MemoryQoS"]
    assert "kubeletExtraArgs.feature-gates" in origins["NodeSwap"]
    alone, _ = read(tmp_path, *documents[:2][::order])
    assert alone.kubelet.feature_gates == {"NodeSwap": True}


def test_a_broken_argument_is_a_fault(tmp_path: Path) -> None:
    (fault,) = refused(tmp_path, init(kubeletExtraArgs={"max-pods": "many"}), OWN)
    assert "--max-pods" in fault


def test_the_nodes_own_documents_say_more(tmp_path: Path) -> None:
    node, _ = read(tmp_path, cluster(), init(name="cp-1"), NODE, more=None)
    assert (node.name, node.profile.kubernetes) == ("n-a", "1.33")
    chosen, _ = read(tmp_path, cluster(), more={**OWN, "kubernetes": "1.36"})
    assert chosen.profile.kubernetes == "1.36"
    assert read(tmp_path, cluster(), kubernetes="1.35")[0].profile.kubernetes == "1.35"


def test_what_joins_says_nothing_of_a_kubelet(tmp_path: Path) -> None:
    for document, kind in (
        (init("JoinConfiguration"), "JoinConfiguration"),
        (PROXY, PROXY["kind"]),
    ):
        fault = refused(tmp_path, document)[0]
        assert f"{kind!r} says nothing of a kubelet" in fault
        assert "get cm kubelet-config" in fault


def config_map(name: str = "kubelet-config", **data: object) -> dict[str, Any]:
    texts = {key: one if isinstance(one, str) else yaml.safe_dump(one) for key, one in data.items()}
    meta = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": texts}


def test_the_config_map_is_read(tmp_path: Path) -> None:
    given = kubelet(cgroupDriver="systemd", maxPods=40, maxPodz=3)
    node, problems = read(tmp_path, config_map(kubelet=given))
    assert (node.driver, node.kubelet.max_pods) == ("systemd", 40)
    where = f"{tmp_path}/node.yaml: document 1: data.kubelet: maxPods"
    assert node.origins["maxPods"] == where
    (row,) = [row for row in problems if row.severity == "warning"]
    assert row.where.endswith("data.kubelet: maxPodz")


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_config_maps_in_a_list(tmp_path: Path, form: str) -> None:
    maps = [
        config_map("kubelet-config", kubelet=kubelet(maxPods=40)),
        config_map("kubeadm-config", ClusterConfiguration=cluster()),
        config_map("coredns", Corefile=".:53 {}"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "empty"}},
    ]
    many: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": [*maps, named("n-a")]}
    path = tmp_path / f"all.{form}"
    path.write_text(json.dumps(many) if form == "json" else yaml.safe_dump(many))
    node, _ = load_node([str(path)], Flags(probe="never"))
    assert (node.name, node.kubelet.max_pods, node.profile.kubernetes) == ("n-a", 40, "1.31")
    many["items"].pop()
    path.write_text(json.dumps(many) if form == "json" else yaml.safe_dump(many))
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump(OWN))
    node, _ = load_node([str(path), str(own)], Flags(probe="never"))
    assert (node.kubelet.max_pods, node.driver) == (40, "systemd")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (config_map(kubelet="a: [\n"), "data.kubelet: line 2"),
        (config_map(kubelet="kind: Pood\napiVersion: v1\n"), "data.kubelet: kind: Pood is not"),
        (config_map(kubelet=kubelet(maxPods="x")), "data.kubelet: maxPods"),
        (config_map("other", a="b"), "ConfigMap is not a node document"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "data": {"kubelet": 3}}, "ConfigMap is not"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "data": []}, "ConfigMap is not"),
    ],
)
def test_a_broken_config_map_is_one_line(tmp_path: Path, document: Any, words: str) -> None:
    fault = refused(tmp_path, document)[0]
    assert words in fault.replace("'", "")


MANY = {"apiVersion": "v1", "kind": "List", "items": [named("n-a"), named("n-b", "2")]}


def test_one_node_of_many_is_chosen(tmp_path: Path) -> None:
    for documents in ((MANY,), (named("n-a"), named("n-b", "2"))):
        node, _ = read(tmp_path, *documents, more=None, node_name="n-b")
        assert (node.name, str(node.capacity["cpu"].value)) == ("n-b", "2")
        assert node.origins["metadata.name"] == "--node-name"
    fault = refused(tmp_path, MANY)[0]
    assert "contains several nodes: 'n-a', 'n-b' (choose one with --node-name" in fault


def test_a_node_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    fault = refused(tmp_path, MANY, node_name="n-c")[0]
    assert "node.yaml: contains no node 'n-c' (nodes: 'n-a', 'n-b')" in fault
    fault = refused(tmp_path, MANY, node_name="worker")[0]
    assert "contains no node 'worker' (nodes: 'n-a', 'n-b')" in fault
    assert "is not a node name" in refused(tmp_path, OWN, node_name="N_A")[0]


def test_a_node_without_a_document_gets_the_name(tmp_path: Path) -> None:
    assert read(tmp_path, kubelet(), node_name="n-c")[0].name == "n-c"


HARD = {"memory.available": "200Mi"}
DISK = {"nodefs.available": "5%"}
FILE_DEFAULTS = {"memory.available", "nodefs.available", "nodefs.inodesFree"} | {
    "imagefs.available",
    "imagefs.inodesFree",
}


@pytest.mark.parametrize(
    ("documents", "flags", "signals"),
    [
        (({"evictionHard": HARD},), {}, {"memory.available"}),
        (({}, {"evictionHard": DISK}), {}, FILE_DEFAULTS),
        (({"evictionHard": HARD}, {"evictionHard": DISK}), {}, {*HARD, *DISK}),
        (({"evictionHard": HARD}, {"evictionHard": {"memory.available": None}}), {}, set()),
        (({}, {"evictionHard": DISK}, {"evictionHard": {**HARD}}), {}, FILE_DEFAULTS),
        (({}, {"evictionHard": DISK}), {"eviction_hard": "memory.available<1Gi"}, {*HARD}),
        (
            ({"evictionHard": DISK, "mergeDefaultEvictionSettings": True},),
            {"eviction_hard": "memory.available<1Gi"},
            {*HARD},
        ),
        (({"evictionHard": DISK, "mergeDefaultEvictionSettings": True},), {}, FILE_DEFAULTS),
    ],
)
def test_thresholds_of_drop_ins_stand_over_those_of_the_file(
    tmp_path: Path,
    documents: tuple[dict[str, Any], ...],
    flags: dict[str, str],
    signals: set[str],
) -> None:
    """Source: server.go loadConfigFile sets the defaults before mergeKubeletConfigurations."""
    node, _ = read(tmp_path, *(kubelet(**one) for one in documents), **flags)
    assert node.kubelet.eviction_hard.keys() == signals
