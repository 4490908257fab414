"""Fields of a node that contradict each other, and what stands above them."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
    rows = problems(config, Flags(kubernetes="1.36", memory_qos="off"))
    (row,) = [one for one in rows if one.where.endswith(FIELD)]
    assert row.severity == "info"
    assert row.message == "has no effect: --memory-qos disables Memory QoS"


def test_tiered_reservation_needs_the_gate_where_nothing_is_forced() -> None:
    with pytest.raises(BadInputs, match="needs the feature gate MemoryQoS"):
        problems({FIELD: "TieredReservation"}, Flags(kubernetes="1.36"))
    for flags in (Flags(kubernetes="1.36", memory_qos="1.36"), Flags(kubernetes="1.36")):
        gates = {"featureGates": {"MemoryQoS": flags.memory_qos is None}}
        rows = problems({FIELD: "TieredReservation", **gates}, flags)
        assert not [one for one in rows if one.where.endswith(FIELD)]


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
