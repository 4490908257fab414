"""Fields of a node that contradict each other, and what stands above them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qoslet.core.explain.node_config import rows
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.problem import Problem
from qoslet.errors import BadInputs

API = "kubelet.config.k8s.io/v1beta1"
MACHINE = Probed(cpu=2, memory=4 << 30, swap=0, pid=32768, hierarchy="v2", kernel="6.12.0")
FIELD = "memoryReservationPolicy"


def problems(config: dict[str, Any], flags: Flags) -> list[Problem]:
    document = {"apiVersion": API, "kind": "KubeletConfiguration", "failSwapOn": False, **config}
    return list(
        node_from([("k.json", json.loads(json.dumps(document)))], flags, lambda: MACHINE)[1]
    )


@pytest.mark.parametrize("gate", [{}, {"MemoryQoS": True}])
def test_tiered_reservation_is_without_effect_where_memory_qos_is_switched_off(gate) -> None:
    config = {FIELD: "TieredReservation", "featureGates": gate}
    found = problems(config, Flags(kubernetes="1.36", memory_qos="off"))
    (row,) = [one for one in found if one.where.endswith(FIELD)]
    assert row.severity == "info"
    assert row.message == "has no effect: --memory-qos disables Memory QoS"


def test_tiered_reservation_needs_the_gate_where_nothing_is_forced() -> None:
    with pytest.raises(BadInputs, match="needs the feature gate MemoryQoS"):
        problems({FIELD: "TieredReservation"}, Flags(kubernetes="1.36"))
    for flags in (Flags(kubernetes="1.36", memory_qos="1.36"), Flags(kubernetes="1.36")):
        gates = {"featureGates": {"MemoryQoS": flags.memory_qos is None}}
        found = problems({FIELD: "TieredReservation", **gates}, flags)
        assert not [one for one in found if one.where.endswith(FIELD)]


@pytest.mark.parametrize(
    ("more", "flags", "where"),
    [
        ({}, {"memory_qos": "qoslet"}, "--memory-qos"),
        ({"memoryQos": "1.36"}, {}, "n.json: memoryQos"),
        ({}, {"feature_gates": "MemoryQoS=true"}, "--feature-gates.MemoryQoS"),
    ],
)
def test_cgroup_v1_is_told_to_who_asked_for_memory_qos(
    more: dict[str, Any], flags: dict[str, str], where: str
) -> None:
    own = {"apiVersion": "qoslet/v1", "kind": "Node", "host": {"hierarchy": "v1"}, **more}
    found = node_from([("n.json", own)], Flags(kubernetes="1.30", **flags), lambda: MACHINE)[1]
    (row,) = [row for row in found if "no effect on cgroup v1" in row.message]
    assert row.where == where


@pytest.mark.parametrize(
    ("release", "gates", "on", "off"),
    [
        ("1.34", {"AllAlpha": True}, ["MemoryQoS"], []),
        ("1.34", {"AllAlpha": True, "MemoryQoS": False}, [], ["MemoryQoS"]),
        ("1.34", {"AllBeta": False}, [], ["PodLevelResources"]),
        ("1.34", {"AllBeta": False, "PodLevelResources": True}, ["PodLevelResources"], []),
        ("1.34", {"AllBeta": True}, ["PodLevelResources"], ["MemoryQoS"]),
        ("1.33", {"AllAlpha": True}, ["PodLevelResources"], []),
        ("1.37", {"AllBeta": False}, [], ["MemoryQoS"]),
        ("1.34", {"AllAlpha": False}, ["PodLevelResources"], ["MemoryQoS"]),
    ],
)
def test_gates_of_a_stage_are_set_together(
    release: str, gates: dict[str, bool], on: list[str], off: list[str]
) -> None:
    """k8s.io/component-base featuregate: AllAlpha and AllBeta set what is not set by name."""
    document = {"apiVersion": API, "kind": "KubeletConfiguration", "featureGates": gates}
    flags = Flags(kubernetes=release)
    node, found = node_from([("k.json", document)], flags, lambda: MACHINE)
    names = [*on, *off]
    assert [name for name in names if node.gate(name)] == on
    assert [name for name in names if node.gate_by_release(name)] == on
    assert not [row for row in found if "All" in row.where]


def test_config_says_which_group_set_a_gate() -> None:
    document = {
        "apiVersion": API,
        "kind": "KubeletConfiguration",
        "featureGates": {"AllAlpha": True},
    }
    node, _ = node_from([("k.json", document)], Flags(kubernetes="1.34"), lambda: MACHINE)
    shown = {row.field: row for row in rows(node)}
    assert shown["featureGates.MemoryQoS"].source == "k.json: featureGates.AllAlpha"
    assert shown["featureGates.PodLevelResources"].source == "default of 1.34"


def test_all_beta_is_unknown_before_1_19() -> None:
    document = {"featureGates": {"AllBeta": False}}
    found = problems(document, Flags(kubernetes="1.18"))
    assert [row.message for row in found if row.where.endswith("AllBeta")] == [
        "AllBeta is a gate of 1.19 and later, unknown in 1.18"
    ]


def test_reserved_cpus_beyond_the_capacity_are_named() -> None:
    with pytest.raises(BadInputs) as caught:
        problems({"reservedSystemCPUs": "0-8"}, Flags(kubernetes="1.34"))
    assert [fault.where for fault in caught.value.faults] == ["k.json: reservedSystemCPUs"] * 2
