"""Node documents and flags: the real ones, precedence, and every fault with its place."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.node import fields as node_fields
from qoslet.core.node import flags as node_flags
from qoslet.core.node.faults import Faults
from qoslet.core.node.node import allocatable
from qoslet.core.node.resolve import FLAG_ROWS, NO_FLAGS, Flags, Probed, as_written, node_from
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


def vectors(name):
    return [pytest.param(v, id=v["id"]) for v in RULES if v["fn"] == name]


@pytest.mark.parametrize("vector", vectors("kubelet_config_validation"))
def test_kubelet_config_validation(vector):
    change = dict(vector["input"]["change"])
    if "memorySwap.swapBehavior" in change:
        change["memorySwap"] = {"swapBehavior": change.pop("memorySwap.swapBehavior")}
    document = config(**{**BASE, **change})
    if vector["expected"]["valid"]:
        assert not [p for p in read(own(), document)[1] if p.severity == "error"]
    else:
        places = " ".join(where for where, _ in faults(own(), document))
        assert any(name in places for name in change), places


@pytest.mark.parametrize("vector", vectors("parse_qos_reserved"))
def test_parse_qos_reserved(vector):
    found = Faults()
    value = node_fields.percent(found, "qosReserved", vector["input"])
    if vector["expected"] == "error":
        assert found.found
    else:
        assert (value, found.found) == (vector["expected"]["memory"], [])


@pytest.mark.parametrize("vector", vectors("parse_reserved_list"))
def test_parse_reserved_list(vector):
    found = Faults()
    node_fields.reserved(found, "kubeReserved", vector["input"])
    assert bool(found.found) == (vector["expected"] == "error")


@pytest.mark.parametrize("vector", vectors("node_allocatable_validate"))
def test_node_allocatable_validate(vector):
    asked = vector["input"]
    thresholds = {
        signal: value.get("quantity") or f"{value['percentage'] * 100:g}%"
        for signal, value in asked["hardEviction"].items()
    }
    document = config(
        kubeReserved=asked["kubeReserved"],
        systemReserved=asked["systemReserved"],
        evictionHard=thresholds,
    )
    # The vector's capacity may lack what a node must have, and only what is there counts.
    capacity = {"cpu": "10", "memory": "10Gi", "pid": "1000", **asked["capacity"]}
    if vector["expected"] == "ok":
        read(own(capacity=capacity), document)
    else:
        assert "exceed the capacity" in faults(own(capacity=capacity), document)[0][1]


def messages(**fields):
    return faults(own(), config(**fields))


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        ("cgroupsPerQOS", "yes", "cgroupsPerQOS"),
        ("cgroupRoot", "custom", "cgroupRoot"),
        ("cgroupRoot", "/a/../b", "cgroupRoot"),
        ("cgroupRoot", "/a\0b", "cgroupRoot"),
        ("kubeReservedCgroup", "/a/./b", "kubeReservedCgroup"),
        ("cgroupDriver", "systemdd", "cgroupDriver"),
        ("cpuCFSQuotaPeriod", 100, "cpuCFSQuotaPeriod"),
        ("cpuCFSQuotaPeriod", "0.5ms", "cpuCFSQuotaPeriod"),
        ("cpuCFSQuotaPeriod", "100", "cpuCFSQuotaPeriod"),
        ("podPidsLimit", "100", "podPidsLimit"),
        ("podPidsLimit", -2, "podPidsLimit"),
        ("podPidsLimit", 2**63, "podPidsLimit"),
        ("cpuManagerPolicy", "dynamic", "cpuManagerPolicy"),
        ("enforceNodeAllocatable", "pods", "enforceNodeAllocatable"),
        ("enforceNodeAllocatable", ["podz"], "enforceNodeAllocatable[0]"),
        ("enforceNodeAllocatable", [7], "enforceNodeAllocatable[0]"),
        ("kubeReserved", {"cpu": 1}, "kubeReserved.cpu"),
        ("kubeReserved", {"cpu": "-1"}, "kubeReserved.cpu"),
        ("kubeReserved", {"memory": "9Ei9"}, "kubeReserved.memory"),
        ("kubeReserved", {"memory": "64Gi"}, "kubeReserved"),
        ("systemReserved", ["cpu"], "systemReserved"),
        ("systemReserved", {"pid": "40000"}, "systemReserved"),
        ("reservedSystemCPUs", "8", "reservedSystemCPUs"),
        ("evictionHard", {"memory.available": "0"}, "evictionHard.memory.available"),
        ("evictionHard", {"memory.available": "101%"}, "evictionHard.memory.available"),
        ("evictionHard", {"memory.available": "-1%"}, "evictionHard.memory.available"),
        ("evictionHard", {"memory.free": "1Gi"}, "evictionHard.memory.free"),
        ("evictionHard", {"memory.available": "99%9%"}, "evictionHard.memory.available"),
        ("evictionHard", {"memory.available": 100}, "evictionHard.memory.available"),
        ("featureGates", {"MemoryQos": True}, "featureGates.MemoryQos"),
        ("featureGates", {"MemoryQoS": "true"}, "featureGates.MemoryQoS"),
        ("memorySwap", {"swapBehavior": "UnlimitedSwap"}, "memorySwap"),
        ("memoryThrottlingFactor", 0, "memoryThrottlingFactor"),
        ("memoryThrottlingFactor", "0.9", "memoryThrottlingFactor"),
        ("memoryThrottlingFactor", float("nan"), "memoryThrottlingFactor"),
        ("memoryReservationPolicy", "TieredReservation", "memoryReservationPolicy"),
        ("qosReserved", {"memory": "50"}, "qosReserved.memory"),
        ("qosReserved", {"memory": "5.5%"}, "qosReserved.memory"),
        ("systemCgroups", "/", "systemCgroups"),
        ("maxPods", -1, "maxPods"),
        ("failSwapOn", 1, "failSwapOn"),
    ],
)
def test_bad_kubelet_fields(field, value, where):
    assert f"kubelet.yaml: {where}" in [place for place, _ in messages(**{field: value})]


def test_all_faults_at_once_with_hints():
    with pytest.raises(BadInputs) as caught:
        read(
            own(hots={}, host={"hierarchy": "v3", "kernal": "6"}, capacity={"cpu": "-1"}),
            config(
                featureGates={"MemoryQos": True},
                enforceNodeAllocatable=["none", "none", "podz"],
                memoryThrottlingFactor=2,
            ),
            pod_max_pids="many",
            probe=lambda: MACHINE,
        )
    found = {fault.where: fault for fault in caught.value.faults}
    assert len(found) >= 9
    assert found["node.yaml: hots"].hint == "did you mean host?"
    assert found["node.yaml: host.kernal"].hint == "did you mean kernel?"
    assert found["kubelet.yaml: featureGates.MemoryQos"].hint == "did you mean MemoryQoS?"
    assert found["kubelet.yaml: enforceNodeAllocatable[2]"].hint == "did you mean pods?"
    assert {"--pod-max-pids", "node.yaml: host.hierarchy", "node.yaml: capacity.cpu"} <= set(found)
    assert {"kubelet.yaml: memoryThrottlingFactor", "kubelet.yaml: enforceNodeAllocatable[1]"} <= (
        set(found)
    )


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"metadata": {"name": "a/b"}}, "metadata.name"),
        ({"metadata": {"name": "a\0"}}, "metadata.name"),
        ({"metadata": {"name": ".."}}, "metadata.name"),
        ({"metadata": []}, "metadata"),
        ({"os": "plan9"}, "os"),
        ({"capacity": {"cpu": "0", "memory": "1Gi"}}, "capacity.cpu"),
        (
            {"capacity": {"cpu": "1", "memory": "1Gi", "hugepages-2MB": "1"}},
            "capacity.hugepages-2MB",
        ),
        ({"capacity": {"cpu": "1", "memory": "99999999Ei"}}, "capacity.memory"),
        ({"capacity": {"cpu": True, "memory": "1Gi"}}, "capacity.cpu"),
        ({"swap": "lots"}, "swap"),
        ({"numa": [{"cpus": "0-", "memory": "1Gi"}]}, "numa[0].cpus"),
        ({"numa": [{"cpu": "0"}]}, "numa[0].cpu"),
        ({"host": {**OWN["host"], "pageSize": "5000"}}, "host.pageSize"),
        ({"host": {**OWN["host"], "hugepageSizes": ["3Mi"]}}, "host.hugepageSizes[0]"),
        ({"host": {**OWN["host"], "hugepageSizes": "2Mi"}}, "host.hugepageSizes"),
        ({"host": {**OWN["host"], "systemd": "new"}}, "host.systemd"),
        ({"host": {**OWN["host"], "psi": "on"}}, "host.psi"),
    ],
)
def test_bad_own_fields(change, where):
    found = faults(own(**change), probe=lambda: MACHINE)
    assert f"node.yaml: {where}" in [place for place, _ in found]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ([], "x"),
        ({}, "x"),
        ({"apiVersion": "v1", "kind": "Nodes"}, "x: kind"),
        ({"apiVersion": "qoslet/v2", "kind": "Node"}, "x: apiVersion"),
        ({"apiVersion": "v1", "kind": "List", "items": {}}, "x: items"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, "x"),
        ({"apiVersion": "v1", "kind": "Pod"}, "x"),
        ({"kubeletconfig": 3}, "x: kubeletconfig"),
    ],
)
def test_what_is_no_node_document(document, where):
    assert where in [place for place, _ in faults(("x", document), probe=lambda: MACHINE)]


def test_a_mistyped_field_of_the_kubelet_warns():
    _, problems = read(own(swap=0), config(kubeReserverd={"cpu": "1"}, evictionSoft={}))
    assert [(p.where, p.hint) for p in problems] == [
        ("kubelet.yaml: kubeReserverd", "did you mean kubeReserved?")
    ]


def test_refusals_are_errors_only_with_a_kubelet_configuration():
    host = {**OWN["host"], "hierarchy": "v1"}
    _, problems = read(own(host=host))
    assert {p.severity for p in problems} == {"warning"}
    _, problems = read(own(host=host), config())
    found = texts(problems)
    assert {p.severity for p in problems} == {"error"}
    assert [where for _, where, _ in found] == ["node.yaml: host.hierarchy", "node.yaml: swap"]


@pytest.mark.parametrize(
    ("fields", "release", "where"),
    [
        ({"qosReserved": {"memory": "50%"}}, "1.36", "qosReserved"),
        ({"cgroupsPerQOS": False}, "1.36", "cgroupsPerQOS"),
        ({"cpuCFSQuotaPeriod": "50ms"}, "1.30", "cpuCFSQuotaPeriod"),
        ({"cpuManagerPolicy": "static"}, "1.36", "cpuManagerPolicy"),
        ({"memorySwap": {"swapBehavior": "LimitedSwap"}}, "1.25", "memorySwap"),
        ({"featureGates": {"PodLevelResources": False}}, "1.36", "featureGates.PodLevelResources"),
    ],
)
def test_what_a_kubelet_refuses_at_start(fields, release, where):
    _, problems = read(own(swap=0, kubernetes=release), config(**fields))
    assert ("error", f"kubelet.yaml: {where}") in [(p.severity, p.where) for p in problems]


def test_gate_of_another_release_warns():
    _, problems = read(own(swap=0, kubernetes="1.20"), feature_gates="MemoryQoS=true")
    assert texts(problems)[0][:2] == ("warning", "--feature-gates.MemoryQoS")


def test_swap_of_the_older_releases():
    document = config(memorySwap={"swapBehavior": "UnlimitedSwap"}, failSwapOn=False)
    assert read(own(kubernetes="1.28"), document)[0].kubelet.swap_behavior == "UnlimitedSwap"


def test_kernels_and_memory_qos():
    host = {**OWN["host"], "kernel": "5.7"}
    _, problems = read(own(swap=0, host=host), feature_gates="MemoryQoS=true")
    assert [p.where for p in problems] == ["node.yaml: host.kernel"] * 2
    host = {**OWN["host"], "hierarchy": "v1"}
    _, problems = read(own(swap=0, host=host, kubernetes="1.30"), feature_gates="MemoryQoS=true")
    assert [p.message for p in problems] == ["Memory QoS has no effect on cgroup v1"]


def test_a_null_factor():
    gates = {"MemoryQoS": True}
    document = config(memoryThrottlingFactor=None, featureGates=gates)
    assert faults(own(), document)[0][0] == "kubelet.yaml: memoryThrottlingFactor"
    node, _ = read(own(kubernetes="1.37"), document)
    assert node.kubelet.memory_throttling_factor is None
    assert node.origins["memoryThrottlingFactor"] == "kubelet.yaml: memoryThrottlingFactor"


def test_names_that_systemd_reads_otherwise():
    document = config(
        cgroupDriver="systemd",
        cgroupRoot="/my_root.slice",
        kubeReservedCgroup="/runtime.slice/kubelet.service",
    )
    _, problems = read(own(swap=0), document)
    assert [p.where for p in problems] == [
        "kubelet.yaml: cgroupRoot",
        "kubelet.yaml: cgroupRoot",
        "kubelet.yaml: kubeReservedCgroup",
        "kubelet.yaml: kubeReservedCgroup",
    ]


def test_defaults_that_do_not_fit_are_refused_not_bad_input():
    small = {"cpu": "1", "memory": "64Mi", "pid": "100"}
    _, problems = read(own(swap=0, capacity=small))
    assert [p.severity for p in problems] == ["warning"]
    assert "exceed the capacity 64Mi" in problems[0].message


def test_garbage_costs_little_and_is_shown_harmlessly():
    gates = {f"Gate{at}\x1b[31m": True for at in range(20000)}
    capacity = {f"{at}\n": "1" for at in range(20000)}
    found = faults(own(capacity=capacity), config(featureGates=gates), probe=lambda: MACHINE)
    assert len(found) == Faults.limit
    assert all(where.isprintable() and message.isprintable() for where, message in found)
    _, problems = read(own(swap=0), config(**{f"kubeReserved{at}": 1 for at in range(5000)}))
    assert len(problems) == 20


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("100ms", 10**8),
        ("1m2.5s", 62_500_000_000),
        ("0", 0),
        ("-1.5h", -5_400_000_000_000),
        ("1us", 1000),
        ("1µs", 1000),
        (".5s", 500_000_000),
        ("1.s", 10**9),
        ("", None),
        ("1", None),
        ("ms", None),
        (".s", None),
        ("1.2.3s", None),
        ("1d", None),
        ("1 s", None),
        ("+", None),
    ],
)
def test_durations(text, nano):
    assert node_fields.nanoseconds(text) == nano


def test_every_flag_has_a_row_and_a_field():
    assert [row.field for row in FLAG_ROWS] == list(Flags.__struct_fields__)
    names = [name for row in FLAG_ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert {"--experimental-qos-reserved", "--qos-reserve-requests"} <= set(names)


def test_flags():
    node, _ = read(
        own(swap=0),
        cgroups_per_qos="true",
        cgroup_root="/custom",
        qos_reserved="memory=50%",
        system_reserved="cpu=1, memory=1Gi",
        system_reserved_cgroup="/system.slice",
        enforce_node_allocatable="pods,system-reserved",
        eviction_hard="memory.available<5%,nodefs.available<1Gi",
        cpu_cfs_quota="false",
        cpu_cfs_quota_period="50ms",
        cpu_manager_policy="none",
        memory_swap_behavior="LimitedSwap",
        memory_qos="1.27",
    )
    kubelet = node.kubelet
    assert kubelet.cgroup_root == "/custom"
    assert kubelet.qos_reserved == 50
    assert {k: str(v) for k, v in kubelet.system_reserved.items()} == {"cpu": "1", "memory": "1Gi"}
    assert kubelet.enforce_node_allocatable == ("pods", "system-reserved")
    assert kubelet.eviction_hard == {"memory.available": "5%", "nodefs.available": "1Gi"}
    assert (kubelet.cpu_cfs_quota, kubelet.cpu_cfs_quota_period_us) == (False, 50_000)
    assert kubelet.swap_behavior == "LimitedSwap"
    assert (node.profile.memory_qos, node.origins["memoryQos"]) == ("1.27", "--memory-qos")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("cgroups_per_qos", "maybe"),
        ("pod_max_pids", "1e3"),
        ("kube_reserved", "cpu"),
        ("kube_reserved", "cpu=1,cpu=2"),
        ("eviction_hard", "memory.available=1Gi"),
        ("feature_gates", "MemoryQoS=maybe"),
        ("feature_gates", "Nonsense=true"),
        ("memory_qos", "1.99"),
        ("isolation", "jail"),
        ("cgroup_driver", "cgroupv2"),
        ("memory_swap_behavior", "Swap"),
        ("kubernetes", ""),
        ("kubernetes", "9" * 5000),
        ("runtime", "x" * 5000),
    ],
)
def test_bad_flags(field, text):
    row = next(row for row in FLAG_ROWS if row.field == field)
    found = faults(own(), **{field: text})
    assert found[0][0].startswith(row.names[0])
    assert all(len(message) < 500 for _, message in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
HOST_FIELDS = ("hierarchy", "kernel", "pageSize", "hugepageSizes", "systemd", "mounts", "psi")
KUBELET_FIELDS = (
    "cgroupRoot",
    "cpuCFSQuotaPeriod",
    "enforceNodeAllocatable",
    "kubeReserved",
    "evictionHard",
    "featureGates",
    "memorySwap",
    "memoryThrottlingFactor",
    "qosReserved",
    "reservedSystemCPUs",
    "podPidsLimit",
)


def faults_or_none(documents, flags):
    try:
        node_from(documents, flags, lambda: MACHINE)
    except BadInputs as error:
        return error.faults
    return []


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(KUBELET_FIELDS, JSON)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(HOST_FIELDS, JSON)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(("capacity", "swap", "numa", "os"), JSON)),
)
def test_any_value_is_read_or_is_a_fault(kubelet, host, rest):
    documents = [config(**kubelet), ("own", {**OWN, "host": host, **rest}), ("any", host)]
    for some in (documents[:2], documents):
        assert all(fault.where for fault in faults_or_none(some, NO_FLAGS))


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Flags.__struct_fields__, st.text())))
def test_any_flag_is_read_or_is_a_fault(given_flags):
    places = {name for row in FLAG_ROWS for name in row.names}
    for fault in faults_or_none([own()], Flags(**given_flags)):
        assert fault.where.split(".")[0].split("[")[0] in places


def test_flag_rows_override_real_fields():
    found = Faults()
    texts_of = {row.field: "1" for row in FLAG_ROWS if row.shape == "int"}
    overrides = node_flags.overrides(found, Flags(**texts_of))
    assert overrides == {"podPidsLimit": (1, "--pod-max-pids"), "maxPods": (1, "--max-pods")}
    assert not found.found


def test_what_memory_qos_loses_on_a_poor_host():
    host = {**OWN["host"], "psi": False, "controllers": ["cpu", "pids"]}
    _, problems = read(own(swap=0, host=host), feature_gates="MemoryQoS=true")
    found = [(p.severity, p.where) for p in problems if "host." in p.where]
    missing = ("warning", "node.yaml: host.controllers")
    assert found == [("info", "node.yaml: host.psi"), missing, missing, missing]
    _, problems = read(own(swap=0, host=host))
    assert "node.yaml: host.psi" not in {p.where for p in problems}
