"""Node documents and flags: the real ones, precedence, and every fault with its place."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from qoslet.core.node.node import allocatable
from qoslet.core.node.resolve import Flags, Probed, as_written, node_from
from qoslet.core.node.topology import NumaNode
from qoslet.errors import BadInputs
from tests.paths import DATA

RULES = json.loads((DATA / "rules.json").read_text())["vectors"]
API = "kubelet.config.k8s.io/v1beta1"
MACHINE = Probed(
    cpu=2,
    memory=4 * 2**30,
    swap=0,
    pid=4194304,
    hugepages={2**21: 0},
    hierarchy="v1",
    kernel="6.1.0",
    page_size=4096,
    swap_controller=False,
    systemd=252,
    systemd_runs=True,
    controllers=frozenset({"cpu", "memory"}),
    hugetlb_rsvd=False,
    psi=True,
    mounts={"cpu": "/sys/fs/cgroup/cpu"},
    numa=(NumaNode("0-1", 4 * 2**30),),
    cpus="0-1",
)
OWN: dict[str, Any] = {
    "apiVersion": "qoslet/v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "capacity": {
        "cpu": "8",
        "memory": "32Gi",
        "pid": "32768",
        "hugepages-2Mi": "1Gi",
        "ephemeral-storage": "100Gi",
    },
    "swap": "2Gi",
    "host": {
        "hierarchy": "v2",
        "kernel": "6.12",
        "pageSize": "4Ki",
        "hugepageSizes": ["2Mi", "1Gi"],
        "swapController": True,
        "systemd": 257,
    },
    "kubernetes": "1.36",
    "runtime": "runc-1.4.0",
}


def sample(name):
    text = (DATA / "samples" / name).read_text()
    return name, yaml.safe_load(text) if name.endswith(".yaml") else json.loads(text)


def config(**fields):
    return "kubelet.yaml", {"apiVersion": API, "kind": "KubeletConfiguration", **fields}


def own(**fields):
    return "node.yaml", {**OWN, **fields}


def no_probe():
    raise AssertionError("the machine is asked although nothing is missing")


def read(*documents, probe=no_probe, **flags):
    return node_from(documents, Flags(**flags), probe)


def faults(*documents, probe=no_probe, **flags):
    with pytest.raises(BadInputs) as caught:
        read(*documents, probe=probe, **flags)
    return [(fault.where, fault.message) for fault in caught.value.faults]


def texts(problems):
    return [(p.severity, p.where, p.message) for p in problems]


def test_own_document_says_everything():
    node, problems = read(own())
    assert node.name == "n1"
    assert {k: str(v) for k, v in node.capacity.items()} == OWN["capacity"]
    assert node.swap == 2 * 2**30
    assert node.host.hierarchy == "v2"
    assert node.host.kernel == "6.12"
    assert node.host.hugepage_sizes == (2**21, 2**30)
    assert node.host.systemd == 257
    assert node.driver == "systemd"
    assert node.probed == ()
    assert node.origins["capacity.memory"] == "node.yaml: capacity.memory"
    assert node.origin("kubeReserved") == "default"
    assert node.kubelet.single_process_oom_kill is False
    assert [p.severity for p in problems] == ["warning"]
    assert "failSwapOn" in problems[0].message


@pytest.mark.parametrize("name", ["nodes.json", "nodes-pods.json"])
def test_real_documents_give_the_real_allocatable(name):
    node, problems = read(sample("kubelet-config.yaml"), sample(name), probe=lambda: MACHINE)
    assert {k: str(v) for k, v in allocatable(node).items()} == {
        k: str(v) for k, v in node.status_allocatable.items()
    }
    assert problems == []
    assert (node.name, node.driver, node.kubelet.cgroup_root) == ("n1", "cgroupfs", "/k8s-root")
    assert node.profile.kubernetes == "1.36"
    assert node.profile.runtime.name == "containerd-2.4.0-beta"
    assert node.host.kernel == "6.18.44"
    assert node.kubelet_given
    assert node.origins["kubeReserved"] == "kubelet-config.yaml: kubeReserved"
    assert node.origins["capacity.cpu"] == f"{name}: items[0].status.capacity.cpu"
    assert node.probed == ()
    assert {"capacity.pid", "host.hierarchy"} <= {one.field for one in node.assumed}
    assert (node.hierarchy, str(node.capacity["pid"])) == ("v1", "32768"), "as the machine was"


def test_configz_says_the_same_as_the_file():
    from_file, _ = read(sample("kubelet-config.yaml"), own(swap=0))
    from_api, _ = read(sample("configz.json"), own(swap=0))
    given = msgspec.structs.asdict(from_api.kubelet)
    assert given.pop("memory_throttling_factor") == 0.9
    wanted = msgspec.structs.asdict(from_file.kubelet)
    assert wanted.pop("memory_throttling_factor") is None
    assert given == wanted
    assert from_api.origins["kubeReserved"] == "configz.json: kubeletconfig.kubeReserved"


def test_allocatable_that_differs_is_said():
    other = config(kubeReserved={"cpu": "1"}, failCgroupV1=False)
    _, problems = read(other, sample("nodes.json"), probe=lambda: MACHINE)
    assert {p.severity for p in problems} == {"warning"}
    _, problems = read(sample("nodes.json"), probe=lambda: MACHINE)
    place = "nodes.json: items[0].status.allocatable.cpu"
    message = "the node reports 1750m allocatable cpu, these settings give 2"
    assert ("info", place, message) in texts(problems)


def test_the_machine_alone():
    node, _ = read(probe=lambda: MACHINE)
    assert str(node.capacity["memory"]) == "4Gi"
    assert node.host == msgspec.structs.replace(
        node.host, hierarchy="v1", controllers=frozenset({"cpu", "memory"}), psi=True, systemd=252
    )
    assert node.driver == "systemd"
    assert node.probed == tuple(sorted(node.probed))
    assert {"capacity.cpu", "swap", "host.systemd", "numa"} <= set(node.probed)
    assert node.kubelet.eviction_hard["memory.available"] == "100Mi"
    assert node.kubelet.single_process_oom_kill is True
    assert (node.profile.kubernetes, node.profile.runtime.name) == ("1.36", "runc-1.4.0")


def test_a_machine_that_tells_nothing():
    assert [where for where, _ in faults(probe=Probed)] == ["capacity.cpu", "capacity.memory"]


def test_the_machine_is_asked_once():
    asked = iter([MACHINE])
    read(probe=lambda: next(asked))
    assert not list(asked)


def test_details_of_a_declared_hierarchy_are_not_the_machines():
    node, _ = read(own(), probe=no_probe)
    assert node.host.controllers is None
    assert node.host.psi is None
    assert node.host.mounts == {}
    assert node.host.hugetlb_rsvd is True


def test_optional_parts_of_the_own_document():
    host = {
        **OWN["host"],
        "controllers": ["cpu", "memory"],
        "hugetlbRsvd": False,
        "mounts": {"memory_recursiveprot": ""},
        "psi": False,
    }
    numa = [{"cpus": "0-3", "memory": "16Gi"}, {"cpus": "4-7", "memory": "16Gi"}]
    node, _ = read(own(host=host, numa=numa, os="linux"))
    assert node.host.controllers == {"cpu", "memory"}
    assert node.host.hugetlb_rsvd is False
    assert node.host.psi is False
    assert node.host.mounts == {"memory_recursiveprot": ""}
    assert node.host.numa == (NumaNode("0-3", 2**34), NumaNode("4-7", 2**34, 1))


def test_absent_systemd_and_swap_of_a_described_machine_are_none():
    host = {k: v for k, v in OWN["host"].items() if k != "systemd"}
    document = {k: v for k, v in OWN.items() if k != "swap"}
    node, _ = read(("node.yaml", {**document, "host": host}))
    assert (node.driver, node.host.systemd, node.swap) == ("cgroupfs", None, 0)


def test_a_document_that_only_names_the_release_leaves_the_machine_alone():
    short = {"apiVersion": "qoslet/v1", "kind": "Node", "kubernetes": "1.30"}
    node, _ = read(("node.yaml", short), probe=lambda: MACHINE)
    assert (node.profile.kubernetes, node.driver) == ("1.30", "systemd")


def vectors(name):
    return [pytest.param(v, id=v["id"]) for v in RULES if v["fn"] == name]


def test_precedence():
    api = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "capacity": {"cpu": "2", "memory": "1Gi", "pods": "110"},
            "nodeInfo": {"kubeletVersion": "v1.30.1", "swap": {"capacity": 7}},
        },
    }
    document = config(podPidsLimit=5, kubeReserved={"cpu": "1", "memory": "1Gi"})
    node, _ = read(own(), document, ("api.yaml", api), pod_max_pids="7", kube_reserved="cpu=2")
    assert str(node.capacity["cpu"]) == "8"
    assert str(node.capacity["pods"]) == "110"
    assert node.swap == 2 * 2**30
    assert node.profile.kubernetes == "1.36"
    assert node.kubelet.pod_pids_limit == 7
    assert {k: str(v) for k, v in node.kubelet.kube_reserved.items()} == {"cpu": "2"}
    assert node.origins["podPidsLimit"] == "--pod-max-pids"
    assert node.origins["capacity.pods"] == "api.yaml: status.capacity.pods"


def test_driver_order():
    assert read(own(), cgroup_driver="cgroupfs")[0].driver == "cgroupfs"
    assert read(own(), config(cgroupDriver="systemd"))[0].driver == "systemd"
    assert read(own(), config(cgroupDriver="systemd"), cgroup_driver="cgroupfs")[0].driver == (
        "cgroupfs"
    )
    assert read(own(), config())[0].driver == "cgroupfs"
    assert read(own())[0].driver == "systemd"


def test_a_verb_that_writes_takes_systemd_only_where_it_is_named():
    probed = as_written(read(own())[0])
    assert (probed.driver, "driver" in probed.probed) == ("cgroupfs", False)
    assert as_written(read(own(), config(cgroupDriver="systemd"))[0]).driver == "systemd"
    assert as_written(read(own(), cgroup_driver="systemd")[0]).driver == "systemd"
    assert as_written(read(own(), config())[0]).driver == "cgroupfs"


def test_the_units_of_a_root_are_told_only_to_who_makes_them():
    named = Flags(cgroup_root="/user.slice/box.service/qoslet")
    said = {}
    for own_tree in (False, True):
        _, rows = node_from([own()], named, lambda: MACHINE, own_tree=own_tree)
        said[own_tree] = [row.message for row in rows if "becomes the unit" in row.message]
    assert len(said[False]) == 2
    assert said[True] == []


def test_gates_of_flag_and_document_merge():
    document = config(featureGates={"MemoryQoS": True, "NodeSwap": True})
    node, _ = read(own(swap=0), document, feature_gates="MemoryQoS=false")
    assert node.kubelet.feature_gates == {"MemoryQoS": False, "NodeSwap": True}
    assert node.origins["featureGates.MemoryQoS"] == "--feature-gates.MemoryQoS"
    assert node.origins["featureGates.NodeSwap"] == "kubelet.yaml: featureGates.NodeSwap"


def test_eviction_defaults():
    assert read(own(), config())[0].kubelet.eviction_hard["nodefs.available"] == "10%"
    document = config(evictionHard={"memory.available": "1Gi"})
    assert read(own(), document)[0].kubelet.eviction_hard == {"memory.available": "1Gi"}
    document[1]["mergeDefaultEvictionSettings"] = True
    found = read(own(), document)[0].kubelet.eviction_hard
    assert (found["memory.available"], found["nodefs.available"]) == ("1Gi", "10%")
    windows, _ = read(own(os="windows"))
    assert windows.kubelet.eviction_hard["memory.available"] == "500Mi"


def test_reserved_cpus_replace_the_cpu_of_both_reservations():
    document = config(
        reservedSystemCPUs="0-1,7", kubeReserved={"cpu": "1", "memory": "1Gi"}, systemReserved={}
    )
    node, _ = read(own(), document)
    assert {k: str(v) for k, v in node.kubelet.kube_reserved.items()} == {"memory": "1Gi"}
    assert {k: str(v) for k, v in node.kubelet.system_reserved.items()} == {"cpu": "3"}


@pytest.mark.parametrize(
    ("text", "release"), [("v1.36.2", "1.36"), ("1.6", "1.6"), ("design", "design")]
)
def test_release_as_a_flag(text, release):
    assert read(own(), kubernetes=text)[0].profile.kubernetes == release


def test_a_release_newer_than_all():
    node, problems = read(own(kubernetes="v1.99.0", swap=0))
    assert node.profile.kubernetes == "1.37"
    assert texts(problems)[0][:2] == ("warning", "node.yaml: kubernetes")
    assert faults(own(), kubernetes="1.99")[0][0] == "--kubernetes"


def test_a_release_that_yaml_made_a_number():
    assert read(own(kubernetes=1.36))[0].profile.kubernetes == "1.36"
    (where, message), *_ = faults(own(kubernetes=1.3))
    assert where == "node.yaml: kubernetes"
    assert "must be a string" in message


def test_the_tables_of_the_documents_are_a_runtime_that_a_plan_takes():
    unnamed = own()[0], {k: v for k, v in OWN.items() if k != "runtime"}
    for flags, name in (
        ({"kubernetes": "design"}, "kep-2254"),
        ({"runtime": "kep-2254", "kubernetes": "1.30"}, "kep-2254"),
        ({"kubernetes": "1.30"}, "runc-1.4.0"),
    ):
        runtime = read(unnamed, **flags)[0].profile.runtime
        assert (runtime.name, runtime.weight(1024)) == (name, 39 if name == "kep-2254" else 100)
    named = read(unnamed, kubernetes="design", runtime="crun-1.23")[0].profile.runtime
    assert (named.name, named.weight(1024), named.tables) == ("crun-1.23", 39, True)


def test_an_unknown_runtime():
    assert faults(own(runtime="rkt-1"))[0][0] == "node.yaml: runtime"
    assert faults(own(), runtime="rkt-1")[0][0] == "--runtime"
    api = {"status": {"nodeInfo": {"containerRuntimeVersion": "rkt://1.2"}}}
    document = {k: v for k, v in OWN.items() if k not in ("runtime", "swap")}
    node, problems = read(
        ("node.yaml", document), ("api", {"apiVersion": "v1", "kind": "Node", **api})
    )
    assert node.profile.runtime.name == "runc-1.4.0"
    assert "qoslet assumes runc-1.4.0" in problems[0].message


def two_nodes():
    items = [{"kind": "Node", "metadata": {"name": name}} for name in ("a", "n1")]
    return "list.yaml", {"apiVersion": "v1", "kind": "List", "items": items}


def test_several_nodes_need_a_name():
    (where, message), *_ = faults(two_nodes(), probe=lambda: MACHINE)
    assert (where, message) == ("list.yaml: items[0]", "contains several nodes: 'a', 'n1'")
    assert read(two_nodes(), own())[0].name == "n1"


def test_windows():
    node, problems = read(own(os="windows", host={}, swap=None), isolation="hyperv")
    assert (node.os, node.isolation, node.swap, problems) == ("windows", "hyperv", 0, [])


BASE = {
    "cgroupsPerQOS": True,
    "enforceNodeAllocatable": [
        "pods",
        "system-reserved",
        "kube-reserved",
    ],
    "systemReservedCgroup": "/system.slice",
    "kubeReservedCgroup": "/kubelet.service",
    "memoryThrottlingFactor": 0.9,
    "memoryReservationPolicy": "None",
    "featureGates": {"MemoryQoS": True},
    "failSwapOn": False,
}
