"""What a policy lets a guest do, and what of a document is refused."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.guest.policy import GuestPolicy, governed, may_not_end, nothing_to_write
from qoslet.core.guest.policy_document import PolicyFlags, policy_of
from qoslet.core.plan.plan import plan
from qoslet.errors import BadInput
from tests.agent.guest.beside import kubelet_pod
from tests.core.vectors.fixtures import node_of

DOCUMENT: dict[str, Any] = {"apiVersion": "qoslet/v1", "kind": "AgentPolicy"}


def test_a_document_says_everything_and_flags_stand_over_it() -> None:
    document = {
        **DOCUMENT,
        "mode": "guard",
        "files": ["memory.low", "memory.high"],
        "memoryQos": 1.36,
        "memoryThrottlingFactor": 0.8,
        "evict": "container",
        "evictCriticalPods": ["kube-system/dns"],
        "namespaces": ["shop", "kube-system"],
        "nodeCondition": True,
    }
    policy = policy_of(document, "policy.yaml")
    assert policy == GuestPolicy(
        "guard",
        frozenset({"memory.low", "memory.high"}),
        "1.36",
        "0.8",
        "container",
        frozenset({"kube-system/dns"}),
        frozenset({"shop", "kube-system"}),
        node_condition=True,
    )
    flags = PolicyFlags("watch", "qoslet", None, "none")
    over = policy_of(document, "policy.yaml", flags)
    assert (over.mode, over.memory_qos, over.throttling_factor, over.ends) == (
        "watch",
        "qoslet",
        "0.8",
        "none",
    )
    assert policy_of(DOCUMENT, "policy.yaml") == GuestPolicy(), "nothing enables nothing"


@pytest.mark.parametrize(
    ("wrong", "where", "message"),
    [
        ({"mode": "gard"}, "p: mode", "gard"),
        ({"files": ["memory.max"]}, "p: files[0]", "memory.max"),
        ({"memoryQos": "1.35"}, "p: memoryQos", "1.35"),
        ({"memoryThrottlingFactor": 2}, "p: memoryThrottlingFactor", "2.0"),
        ({"evict": "node"}, "p: evict", "node"),
        ({"evictCriticalPods": [7]}, "p: evictCriticalPods[0]", "str"),
        ({"evictCriticalPods": ["kube-system/dns", "dns"]}, "p: evictCriticalPods[1]", "dns"),
        ({"evictCriticalPods": ["kube-system/"]}, "p: evictCriticalPods[0]", "kube-system/"),
        ({"namespaces": []}, "p: namespaces", "no namespace"),
        ({"namespaces": ["shop", "Shop/web"]}, "p: namespaces[1]", "Shop/web"),
        ({"modes": "watch"}, "p", "modes"),
        ({"kind": "Policy"}, "p: kind", "is Policy, must be AgentPolicy"),
        ({"apiVersion": "qoslet/v9"}, "p: apiVersion", "is qoslet/v9, must be qoslet/v1"),
        ({"kind": None}, "p: kind", "must be AgentPolicy"),
    ],
)
def test_a_fault_names_its_field(wrong: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        policy_of({**DOCUMENT, **wrong}, "p")
    assert caught.value.where == where
    assert message in caught.value.message
    assert caught.value.hint


def test_the_hint_names_every_field() -> None:
    with pytest.raises(BadInput) as caught:
        policy_of({**DOCUMENT, "modes": "watch"}, "p")
    assert {"memoryThrottlingFactor", "evictCriticalPods", "nodeCondition"} <= set(
        caught.value.hint.replace(",", "").split()
    )


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(BadInput):
        policy_of([DOCUMENT], "p")


def test_no_limit_and_no_reservation_is_governed() -> None:
    node = node_of(
        36,
        capacity={"cpu": "4", "memory": "8Gi"},
        gates={"MemoryQoS": True},
        memory_throttling_factor=0.9,
        memory_reservation_policy="TieredReservation",
    )
    made = plan([kubelet_pod("a")], node)
    found = governed(made, GuestPolicy("protect"), "/kubepods")
    files = {row.file for one in found for row in one.settings}
    assert files == {"memory.min", "memory.low", "memory.high"}
    assert {one.level for one in found} <= {"node", "qos", "pod", "container"}
    assert governed(made, GuestPolicy(), "/kubepods") == ()
    only = governed(made, GuestPolicy("guard", frozenset({"memory.high"})), "/kubepods")
    assert {row.file for one in only for row in one.settings} <= {"memory.high"}


@pytest.mark.parametrize(
    ("hierarchy", "gates", "why"),
    [
        ("v1", {"MemoryQoS": True}, "cgroup v1 has no Memory QoS"),
        ("v2", {}, "Memory QoS is off in this kubelet"),
        ("v2", {"MemoryQoS": True}, "the plan of this node has none"),
    ],
)
def test_why_nothing_is_written(hierarchy: str, gates: dict[str, bool], why: str) -> None:
    node = node_of(36, host={"hierarchy": hierarchy}, gates=gates)
    policy = GuestPolicy("protect")
    assert nothing_to_write(policy, (), node, 3).startswith(why)
    assert nothing_to_write(policy, (), node, 0) == ""
    assert nothing_to_write(GuestPolicy(), (), node, 3) == ""


def test_what_may_be_ended() -> None:
    policy = GuestPolicy("guard", ends="container", named=frozenset({"kube-system/dns"}))
    assert may_not_end(policy, "d/web", critical=False, uid="1") == ""
    assert may_not_end(policy, "kube-system/dns", critical=True, uid="2") == ""
    assert may_not_end(policy, "kube-system/proxy", critical=True, uid="3")
    assert may_not_end(policy, "d/agent", critical=False, uid="4", own={"4"})
    assert may_not_end(GuestPolicy("guard"), "d/web", critical=False, uid="1")
