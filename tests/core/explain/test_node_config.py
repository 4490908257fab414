"""What is in force: every field once, with its source; documents that say it all again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.explain.node_config import documents, rows
from qoslet.core.node.documents.kubelet_config import READERS
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.node.topology import NumaNode
from qoslet.core.resources.node_policy import node_policy

OWN = {
    "apiVersion": "qoslet/v1",
    "kind": "Node",
    "capacity": {"cpu": "4", "memory": "8Gi", "pid": "1000"},
    "host": {"hierarchy": "v2", "kernel": "6.12"},
}
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "kubeReserved": {"cpu": "250m"},
    "cpuCFSQuotaPeriod": "12500us",
    "qosReserved": {"memory": "50%"},
    "featureGates": {"QOSReserved": True, "MemoryQoS": True},
}


def nothing() -> Probed:
    raise AssertionError("a whole node is not probed")


def read(*given: dict[str, Any], flags: Flags | None = None, probed: Probed | None = None) -> Node:
    labelled = [(f"d{at}", document) for at, document in enumerate(given)]
    return node_from(labelled, flags or Flags(), (lambda: probed) if probed else nothing)[0]


HERE = Probed(
    cpu=2, memory=1 << 30, swap=1 << 20, pid=99, hugepages={2 << 20: 0}, hierarchy="v1",
    kernel="6.1", page_size=4096, swap_controller=False, systemd=252, systemd_runs=True,
    controllers=frozenset({"cpu", "memory"}), hugetlb_rsvd=True, psi=False,
    mounts={"cpu": "/c", "memory": "/m"}, numa=(NumaNode("0-1", 1 << 30, distances=(10,)),), cpus="0-1",
)  # fmt: skip


def test_each_field_has_the_source_that_decided_it() -> None:
    node = read(OWN, KUBELET, flags=Flags(kube_reserved="cpu=1", max_pods="7"), probed=Probed())
    found = {row.field: row for row in rows(node)}
    assert len(found) == len(list(rows(node)))
    assert (found["kubeReserved"].value, found["kubeReserved"].source) == (
        {"cpu": "1"},
        "--kube-reserved",
    )
    assert found["maxPods"].flag == "--max-pods"
    assert found["cpuCFSQuotaPeriod"].value == "12.5ms"
    assert found["cpuCFSQuotaPeriod"].source == "d1: cpuCFSQuotaPeriod"
    assert found["capacity.memory"].source == "d0: capacity.memory"
    assert found["featureGates.QOSReserved"].source == "d1: featureGates.QOSReserved"
    assert found["featureGates.NodeSwap"].source == "default of 1.36"
    assert found["failSwapOn"].source == "default"
    assert {field for field in READERS if field != "featureGates"} <= found.keys()


def test_merged_defaults_are_told_from_what_was_given() -> None:
    kubelet = {"evictionHard": {"memory.available": "9Mi"}, "mergeDefaultEvictionSettings": True}
    found = {row.field: row for row in rows(read(OWN, {**KUBELET, **kubelet}, probed=Probed()))}
    sources = dict(found["evictionHard"].sources)
    assert sources.pop("memory.available") == found["evictionHard"].source == "d1: evictionHard"
    assert set(sources.values()) == {"default"}
    assert found["kubeReserved"].sources == {}


@pytest.mark.parametrize("release", ["1.6", "1.22", "1.27", "1.36", "1.37", "design"])
@pytest.mark.parametrize(
    ("given", "probed"),
    [((OWN,), None), ((OWN, KUBELET), None), ((), HERE)],
    ids=["own", "kubelet", "probed"],
)
def test_the_documents_give_the_same_node(
    given: tuple[dict[str, Any], ...], probed: Probed | None, release: str
) -> None:
    flags = Flags(kubernetes=release, fail_swap_on="false")
    if len(given) > 1 and release in ("1.6", "1.22"):
        gates = {"featureGates": {"QOSReserved": release != "1.6"}}
        given = (OWN, KUBELET | gates)
    node = read(*given, flags=flags, probed=probed or Probed())
    texts = [json.loads(json.dumps(one)) for one in documents(node)]
    again = read(*texts)
    plain = {"origins": {}, "probed": (), "assumed": (), "kubelet_given": False}
    if len(given) < 2:
        plain["kubelet"] = replace(node.kubelet, fail_cgroup_v1=False, fail_swap_on=False)
    expected = replace(node, **plain)
    found = replace(again, origins={}, probed=(), kubelet_given=False)
    for name in Node.__struct_fields__:
        assert getattr(found, name) == getattr(expected, name), name


@pytest.mark.parametrize("policy", [None, "None", "TieredReservation"])
@pytest.mark.parametrize("flags", [Flags(), Flags(memory_qos="qoslet"), Flags(memory_qos="1.22")])
def test_the_documents_keep_the_form_of_memory_qos(flags: Flags, policy: str | None) -> None:
    kubelet = KUBELET | ({} if policy is None else {"memoryReservationPolicy": policy})
    node = read(OWN, kubelet, flags=flags, probed=Probed())
    again = read(*[json.loads(json.dumps(one)) for one in documents(node)])
    before, after = node_policy(node), node_policy(again)
    assert after.memory_qos == before.memory_qos != "off"
    assert (after.reservation, after.factor) == (before.reservation, before.factor)
    assert again.profile == node.profile


def test_a_form_that_nobody_named_is_told_as_a_default() -> None:
    found = {row.field: row for row in rows(read(OWN, KUBELET, probed=Probed()))}
    form, policy = found["memoryQos"], found["memoryReservationPolicy"]
    assert (form.value, form.source) == ("qoslet", "default without a Kubernetes release")
    assert (policy.value, policy.source) == ("TieredReservation", "default of form qoslet")
    named = read({**OWN, "memoryQos": "1.37"}, KUBELET, probed=Probed())
    (form,) = (row for row in rows(named) if row.field == "memoryQos")
    assert (form.value, form.source) == ("1.37", "d0: memoryQos")
