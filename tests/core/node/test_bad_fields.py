"""Fields of node documents that are refused."""

from __future__ import annotations

import pytest

from qoslet.core.node import fields as node_fields
from qoslet.core.node.faults import Faults
from qoslet.errors import BadInputs
from tests.core.node.test_resolve import BASE, MACHINE, OWN, config, faults, own, read, vectors


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
        ("evictionSoft", {"memory.available": "101%"}, "evictionSoft.memory.available"),
        ("evictionSoft", {"memory.available": "0"}, "evictionSoft.memory.available"),
        ("evictionSoft", {"memory.free": "1Gi"}, "evictionSoft.memory.free"),
        ("evictionSoft", ["memory.available"], "evictionSoft"),
        ("evictionSoftGracePeriod", {"memory.free": "1m"}, "evictionSoftGracePeriod.memory.free"),
        (
            "evictionSoftGracePeriod",
            {"pid.available": "1"},
            "evictionSoftGracePeriod.pid.available",
        ),
        (
            "evictionSoftGracePeriod",
            {"memory.available": "-1s"},
            "evictionSoftGracePeriod.memory.available",
        ),
        ("evictionMinimumReclaim", {"memory.free": "1"}, "evictionMinimumReclaim.memory.free"),
        ("evictionMinimumReclaim", {"pid.available": "0%"}, "evictionMinimumReclaim.pid.available"),
        ("evictionMinimumReclaim", {"pid.available": "-1"}, "evictionMinimumReclaim.pid.available"),
        ("evictionMaxPodGracePeriod", "30", "evictionMaxPodGracePeriod"),
        ("evictionMaxPodGracePeriod", 2**31, "evictionMaxPodGracePeriod"),
        ("evictionPressureTransitionPeriod", "5", "evictionPressureTransitionPeriod"),
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


@pytest.mark.parametrize("periods", [{}, None, {"nodefs.available": "1m"}])
def test_a_soft_threshold_needs_a_grace_period(periods):
    soft = {"memory.available": "1Gi", "nodefs.available": "100%", "pid.available": "0%"}
    document = config(evictionSoft=soft, evictionSoftGracePeriod=periods)
    assert faults(own(), document) == [
        ("kubelet.yaml: evictionSoft.memory.available", "needs a grace period")
    ]
    bad = config(evictionSoft=soft, evictionSoftGracePeriod={"memory.available": "soon"})
    (fault,) = faults(own(), bad)
    assert fault[0] == "kubelet.yaml: evictionSoftGracePeriod.memory.available"


def test_thresholds_that_a_kubelet_takes():
    read(
        own(swap=0),
        config(
            evictionSoft={"memory.available": "5.5%", "imagefs.inodesFree": "1k"},
            evictionSoftGracePeriod={
                "memory.available": "0",
                "imagefs.inodesFree": "1m30s",
                "pid.available": "1h",
            },
            evictionMinimumReclaim={"memory.available": "0", "nodefs.available": "250%"},
            evictionMaxPodGracePeriod=-1,
            evictionPressureTransitionPeriod="0s",
            oomScoreAdj=None,
        ),
    )


def test_a_controller_that_is_misspelt():
    kernel = "cpuset cpu cpuacct blkio io memory devices freezer net_cls perf_event net_prio"
    names = [*kernel.split(), "hugetlb", "pids", "rdma", "misc", "dmem", "debug", "name=systemd"]
    node, _ = read(own(host={**OWN["host"], "controllers": names}))
    assert node.host.controllers == frozenset(names)
    wrong = own(host={**OWN["host"], "controllers": ["cpu", "memry"]})
    assert faults(wrong) == [("node.yaml: host.controllers[1]", "'memry' is not a controller")]


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
