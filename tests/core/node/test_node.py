"""Reservations, enforcement and allocatable, by the vectors of tests/data/rules.json."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from msgspec.structs import replace

from qoslet.core.node.node import (
    HostFacts,
    Kubelet,
    Node,
    allocatable,
    enforced,
    eviction_reservation,
    reserved,
    seccomp_default,
    unevicted,
)
from qoslet.core.quantity import NANO, parse, total
from qoslet.core.versions import kubernetes
from tests.paths import DATA

RULES = json.loads((DATA / "rules.json").read_text())["vectors"]


def vectors(name):
    return [pytest.param(v, id=v["id"]) for v in RULES if v["fn"] == name]


def quantities(given):
    return {name: parse(text) for name, text in given.items()}


def threshold(given):
    return given["quantity"] if "quantity" in given else f"{given['percentage'] * 100:g}%"


def node_of(given, **kubelet):
    return Node(
        name="n1",
        capacity=quantities(given["capacity"]),
        swap=0,
        host=HostFacts(),
        profile=kubernetes.resolve(),
        kubelet=Kubelet(
            kube_reserved=quantities(given["kubeReserved"]),
            system_reserved=quantities(given["systemReserved"]),
            eviction_hard={k: threshold(v) for k, v in given.get("hardEviction", {}).items()},
            **kubelet,
        ),
    )


@pytest.mark.parametrize("vector", vectors("node_allocatable_reservation"))
def test_reservation(vector):
    node = node_of(vector["input"])
    held, evicted = reserved(node), eviction_reservation(node)
    found = {
        name: Fraction(total(q[name] for q in (held, evicted) if name in q).nano, NANO)
        for name in {**held, **evicted}
    }
    assert found == {name: Fraction(number) for name, number in vector["expected"].items()}


@pytest.mark.parametrize("vector", vectors("node_allocatable_enforcement"))
def test_enforcement(vector):
    found = unevicted(node_of(vector["input"]))
    assert {name: Fraction(amount.nano, NANO) for name, amount in found.items()} == {
        name: Fraction(number) for name, number in vector["expected"].items()
    }


GIVEN = {
    "capacity": {
        "cpu": "4",
        "memory": "8Gi",
        "pid": "1000",
        "hugepages-2Mi": "1Gi",
        "ephemeral-storage": "100Gi",
    },
    "kubeReserved": {"cpu": "500m", "memory": "1Gi"},
    "systemReserved": {"cpu": "5", "pid": "100"},
}


def shown(found):
    return {name: str(amount) for name, amount in found.items()}


def test_allocatable_takes_thresholds_and_hugepages_and_has_no_pids():
    node = node_of(
        {**GIVEN, "hardEviction": {"memory.available": {"quantity": "100Mi"}}},
    )
    assert shown(allocatable(node)) == {
        "cpu": "0",
        "memory": "6044Mi",
        "hugepages-2Mi": "1Gi",
        "ephemeral-storage": "100Gi",
    }


def test_what_kubepods_gets():
    assert shown(enforced(node_of(GIVEN))) == {
        "cpu": "0",
        "memory": "7Gi",
        "pid": "900",
        "hugepages-2Mi": "1Gi",
        "ephemeral-storage": "100Gi",
    }
    not_enforced = node_of(GIVEN, enforce_node_allocatable=("none",))
    assert enforced(not_enforced) == not_enforced.capacity


@pytest.mark.parametrize("text", ["0%", "100%"])
def test_a_threshold_of_nothing_or_all_is_switched_off(text):
    node = node_of({**GIVEN, "hardEviction": {"memory.available": {"quantity": text}}})
    assert eviction_reservation(node) == {}


@pytest.mark.parametrize(
    ("release", "gates", "wanted"),
    [
        ("1.24", {}, False),
        ("1.24", {"SeccompDefault": True}, True),
        ("1.25", {}, True),
        ("1.25", {"SeccompDefault": False}, False),
        ("1.36", {}, True),
    ],
)
def test_seccomp_default_needs_its_gate_where_there_is_one(release, gates, wanted):
    """Source: KEP-2413 graduation (alpha 1.22, beta 1.25, GA 1.27, gate removed 1.29)."""
    node = node_of({"capacity": {}, "kubeReserved": {}, "systemReserved": {}})
    node = replace(node, profile=kubernetes.resolve(release))
    kubelet = replace(node.kubelet, feature_gates=gates, seccomp_default=True)
    assert seccomp_default(replace(node, kubelet=kubelet)) is wanted
    assert not seccomp_default(replace(node, kubelet=replace(kubelet, seccomp_default=False)))
