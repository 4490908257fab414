"""What a plan says of its memory values: nothing that holds, everything that is a trap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from qoslet.core.api.pod import Pod, Resources
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from qoslet.core.resources.memory_qos import HARD_ONLY
from tests.core.resources.test_memory_qos import BATCH, DB, WEB, pod, under
from tests.core.resources.test_memory_qos_variants import GATE, chosen
from tests.core.vectors.fixtures import quantities

TIERED = {"memory_reservation_policy": "TieredReservation"}
RECURSIVE: dict[str, Any] = {
    "host": {"mounts": {"rw": "", "nsdelegate": "", "memory_recursiveprot": ""}}
}
FORMS = ["1.22", "1.27", "1.36", "1.37", "design", "qoslet"]
QUIRKS = (
    "writes cpu.weight with a linear curve",
    "BestEffort containers get no",
    "the OCI runtime of",
)


def said(node: Node, *pods: Pod) -> list[tuple[str, str, str]]:
    rows: Iterable[Any] = plan(list(pods), node).problems
    return [
        (row.severity, row.where, row.message)
        for row in rows
        if not any(quirk in row.message for quirk in QUIRKS)
    ]


def test_form_qoslet_has_nothing_to_warn_of() -> None:
    for root in ("/", "/own"):
        node = under("qoslet", cgroup_root=root, **RECURSIVE)
        assert said(node, DB, WEB, BATCH) == []


def test_protection_below_groups_that_hold_none() -> None:
    found = said(under("1.37", cgroup_root="/own", **TIERED), DB, WEB)
    assert [(severity, where) for severity, where, _ in found][:2] == [
        ("warning", "/own: memory.min"),
        ("warning", "/own: memory.low"),
    ]
    assert found[0][2] == "is not set: 112Mi claimed below /own has no effect"
    found = said(under("qoslet", cgroup_root="/a/own"), DB, WEB)
    assert [where for _, where, _ in found] == ["/a: memory.min", "/a: memory.low"]


@pytest.mark.parametrize("form", ["1.22", "1.27", "1.36", "1.37", "design"])
def test_memory_min_at_memory_max(form: str) -> None:
    full = "1 container with memory.min equal to memory.max"
    assert any(full in message for _, _, message in said(under(form, **TIERED), DB))
    assert not any("memory.min is their" in message for _, _, message in said(under(form), BATCH))


@pytest.mark.parametrize(("form", "count"), [("1.36", 1), ("1.37", 1), ("1.22", 0), ("qoslet", 0)])
def test_a_surplus_that_is_handed_to_everybody(form: str, count: int) -> None:
    found = said(under(form, **TIERED, **RECURSIVE), WEB)
    assert sum("48Mi more than" in message for _, _, message in found) == count
    without = said(under(form, **TIERED), WEB)
    assert not any("more than" in message for _, _, message in without)


def test_policy_none_under_form_qoslet() -> None:
    node = structs.replace(under("qoslet"), origins={"memoryReservationPolicy": "k.yaml"})
    (row,) = said(node, WEB)
    assert row == (
        "info",
        "node n1",
        "memoryReservationPolicy None: variant qoslet protects no request",
    )


@pytest.mark.parametrize(
    ("high", "severity", "message"),
    [
        ("24Mi", "warning", "24Mi is below the request 32Mi"),
        ("64Mi", "info", "64Mi is never reached, because memory.max is 64Mi"),
        ("80Mi", "info", "80Mi is never reached"),
        ("63Mi", "info", "63Mi leaves 1Mi below memory.max 64Mi"),
    ],
)
def test_memory_high_beside_request_and_limit(high: str, severity: str, message: str) -> None:
    one = pod("p", ("32Mi", "64Mi"), notes={"memory-high": high})
    rows = said(under("qoslet"), one)
    (found,) = (row for row in rows if "memory.high" in row[1])
    assert found[0] == severity
    assert found[1] == "f.json: Pod default/p: spec.containers[0]: memory.high"
    assert found[2].startswith(message)


@pytest.mark.parametrize("high", ["48Mi", "max"])
def test_a_memory_high_between_them_is_no_trap(high: str) -> None:
    one = pod("p", ("32Mi", "64Mi"), notes={"memory-high": high})
    assert not any("memory.high" in where for _, where, _ in said(under("qoslet"), one))


@pytest.mark.parametrize(
    ("form", "notes", "more", "expected"),
    [
        ("off", {"memory-high": "48Mi"}, {}, ("warning", "memory-high", "Memory QoS is disabled")),
        ("off", {"memory-protection": "on"}, {}, ("warning", "memory-protection", "disabled on this")),
        ("qoslet", {"memory-high": "48Mi"}, {"host": {"hierarchy": "v1"}},
         ("warning", "memory-high", "Memory QoS is disabled")),
        ("qoslet", {"memory-high": "48Mi", "memory-throttling-factor": "0.5"}, {},
         ("info", "memory-throttling-factor", "memory-high sets the value itself")),
        ("1.22", {"memory-protection": "on"}, {},
         ("info", "memory-protection", "variant 1.22 protects every pod")),
        ("qoslet", {"memory-oom-group": "true"}, {"host": {"hierarchy": "v1"}},
         ("warning", "memory-oom-group", "cgroup v1 has no memory.oom.group")),
    ],
)  # fmt: skip
def test_annotations_without_effect(
    form: str, notes: dict[str, str], more: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    found = said(under(form, **more), pod("p", ("32Mi", "64Mi"), notes=notes))
    (row,) = (row for row in found if "annotations" in row[1])
    assert row[0] == expected[0]
    assert row[1] == f"f.json: Pod default/p: metadata.annotations[qoslet.dev/{expected[1]}]"
    assert expected[2] in row[2]


@pytest.mark.parametrize("form", FORMS)
def test_protection_on_without_a_request(form: str) -> None:
    one = pod("p", ("", "64Mi"), ("", ""), notes={"memory-protection": "on"})
    bare = pod("q", ("", ""), notes={"memory-protection": "on"})
    found = [row for row in said(under(form), one, bare) if "annotations" in row[1]]
    (row,) = (row for row in found if row[0] == "warning")
    assert row[1] == "f.json: Pod default/q: metadata.annotations[qoslet.dev/memory-protection]"
    assert "the pod requests no memory" in row[2]
    assert len(found) == (2 if form in HARD_ONLY else 1)


@pytest.mark.parametrize("form", FORMS)
def test_a_factor_that_makes_no_memory_high(form: str) -> None:
    notes = {"memory-throttling-factor": "0.5"}
    equal, other = ("64Mi", "64Mi"), ("32Mi", "96Mi")
    (row,) = (row for row in said(under(form), pod("p", equal, notes=notes)) if "annot" in row[1])
    assert row[0] == "warning"
    assert row[1].endswith("annotations[qoslet.dev/memory-throttling-factor]")
    assert "the memory request equals the limit" in row[2]
    for mixed in (pod("p", other, notes=notes), pod("p", equal, other, notes=notes)):
        assert not any("annot" in where for _, where, _ in said(under(form), mixed))


def test_annotations_on_windows() -> None:
    one = pod("p", ("32Mi", "64Mi"), notes={"guard": "off", "memory-high": "48Mi"})
    for pods, node in (
        (structs.replace(one, os="windows"), under("qoslet")),
        (one, structs.replace(under("qoslet"), os="windows")),
    ):
        found = [row for row in said(node, pods) if "annotations" in row[1]]
        assert [severity for severity, _, _ in found] == ["warning", "warning"]
        assert all("Windows containers" in message for _, _, message in found)


def test_a_stall_counts_only_what_is_met_before_the_limit() -> None:
    pods = [
        pod(name, ("32Mi", "64Mi"), notes={"memory-high": high})
        for name, high in (("a", "48Mi"), ("b", "64Mi"), ("c", "96Mi"), ("d", "max"))
    ]
    rows = [
        row for row in plan(pods, under("qoslet")).problems if " with memory.high: " in row.message
    ]
    (row,) = (row for row in rows if row.where == "node n1")
    assert row.message.startswith("1 container with memory.high: ")
    assert "qoslet run resolves such a stall" in row.hint
    pods[0] = structs.replace(pods[0], resources=Resources({}, quantities({"memory": "40Mi"})))
    rows = [row for row in plan(pods, under("qoslet")).problems if row.where == "node n1"]
    assert not any(" with memory.high: " in row.message for row in rows)


@pytest.mark.parametrize("form", ["1.22", "1.27", "1.36", "1.37", "design"])
def test_what_helps_against_a_stall_names_the_guard(form: str) -> None:
    node = under(form, memory_throttling_factor=0.5)
    (row,) = (row for row in plan([WEB], node).problems if "stalls instead" in row.message)
    assert row.hint.startswith("use qoslet run --guard act; with a kubelet, ")


def test_annotations_that_need_no_memory_qos_are_not_said_to_be_without_effect() -> None:
    one = pod("p", ("32Mi", "64Mi"), notes={"guard": "off", "memory-oom-group": "false"})
    assert said(under("off"), one) == []


def test_a_kubelet_does_not_read_them() -> None:
    one = pod("p", ("32Mi", "64Mi"), notes={"guard": "off"})
    node = structs.replace(under("qoslet"), kubelet_given=True)
    assert [message for _, _, message in said(node, one)] == [
        "a kubelet ignores qoslet annotations and writes other values"
    ]


def test_a_kubelet_whose_release_nobody_named() -> None:
    text = "Memory QoS is variant qoslet, because no Kubernetes release is given"
    assert [row for row in said(chosen({}, GATE), DB) if text in row[2]]
    for flags in ({"kubernetes": "1.36"}, {"memory_qos": "qoslet"}):
        assert not [row for row in said(chosen({}, GATE, **flags), DB) if text in row[2]]
    assert not [row for row in said(chosen({}, feature_gates="MemoryQoS=true")) if text in row[2]]
