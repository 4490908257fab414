"""Fields of a KubeletConfiguration that a release does not know, or no release."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.api.manifest import Options
from qoslet.core.explain.explain import explain
from qoslet.core.node.documents.kubelet_config import READERS
from qoslet.core.node.documents.kubelet_field_names import SINCE
from qoslet.core.node.flags import Flags
from qoslet.core.node.lookup import Probed
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import node_from
from qoslet.core.plan.plan import plan
from qoslet.core.problem import Problem
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load_text

OWN = {
    "apiVersion": "qoslet/v1", "kind": "Node", "swap": 0,
    "capacity": {"cpu": "8", "memory": "32Gi", "pid": "1000"},
    "host": {"hierarchy": "v2", "kernel": "6.12", "pageSize": "4Ki", "hugepageSizes": []},
}  # fmt: skip
POD = b"""{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [
{"name": "app", "image": "x", "resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "1Gi"}}}]}}"""


def read(fields: dict[str, Any], **flags: str) -> tuple[Node, list[Problem]]:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    documents = [("own", OWN), ("k", {**head, **fields})]
    return node_from(documents, Flags(**flags), Probed)


def told(problems: list[Problem], field: str) -> list[tuple[str, str]]:
    return [(row.severity, row.message) for row in problems if row.where == f"k: {field}"]


def test_what_configz_has_is_read_without_its_kind() -> None:
    """``kubectl get --raw /api/v1/nodes/N/proxy/configz | jq .kubeletconfig``."""
    names = [name for name in SINCE if name not in READERS][:40]
    values: dict[str, Any] = {**dict.fromkeys(names), "maxPods": 40, "ofTomorrow": 1}
    node, problems = node_from([("own", OWN), ("k", values)], Flags(), Probed)
    assert (node.kubelet.max_pods, node.kubelet_given) == (40, True)
    assert told(problems, "ofTomorrow")
    for few in ({"maxPods": 40}, {"maxPods": 40, "kind": "X"}, {**values, "kind": "X"}, {}):
        with pytest.raises(BadInputs) as found:
            node_from([("own", OWN), ("k", few)], Flags(), Probed)
        (fault,) = found.value.faults
        assert ("add apiVersion" in fault.hint) is (few == {"maxPods": 40})


def test_a_field_that_no_release_has_is_told() -> None:
    _, problems = read({"bogusField": 1, "memoryThrottlingFactr": 0.5, "memorySwap": {"limit": 1}})
    ends = "is not a KubeletConfiguration field and has no effect"
    rows = [(row.where, row.message, row.hint) for row in problems if ends in row.message]
    assert rows == [
        ("k: bogusField", f"'bogusField' {ends}", "remove it"),
        (
            "k: memoryThrottlingFactr",
            f"'memoryThrottlingFactr' {ends}",
            "did you mean memoryThrottlingFactor?",
        ),
        ("k: memorySwap.limit", f"'limit' {ends}", "remove it"),
    ]
    _, problems = read({f"nothing{at}": 1 for at in range(5000)})
    rows = [(row.where, row.message, row.hint) for row in problems if "field" in row.message]
    assert len(rows) == 20
    assert rows[-1][1] == "4981 more fields are not KubeletConfiguration fields"


@pytest.mark.parametrize(
    ("field", "value", "releases"),
    [
        (
            "memoryReservationPolicy",
            "TieredReservation",
            ("1.18", "1.22", "1.27", "1.35", "design"),
        ),
        ("memoryReservationPolicy", "None", ("1.30",)),
        ("singleProcessOOMKill", True, ("1.21", "1.31")),
        ("failCgroupV1", True, ("1.21", "1.30")),
        ("memoryThrottlingFactor", 0.5, ("1.18", "1.21")),
        ("memoryThrottlingFactor", None, ("1.21",)),
        ("reservedSystemCPUs", "0", ("1.16",)),
        ("topologyManagerPolicy", "restricted", ("1.15",)),
        ("topologyManagerScope", "pod", ("1.19",)),
        ("memoryManagerPolicy", "None", ("1.20",)),
        ("reservedMemory", [], ("1.20",)),
        ("topologyManagerPolicyOptions", {}, ("1.25",)),
        ("mergeDefaultEvictionSettings", True, ("1.32",)),
    ],
)
def test_a_field_of_later_releases_is_told_and_decides_nothing(
    field: str, value: object, releases: tuple[str, ...]
) -> None:
    for release in releases:
        node, problems = read({field: value}, kubernetes=release)
        (row,) = [row for row in problems if f"{release} has no {field}" in row.message]
        assert row.where == f"k: {field}"
        assert field not in node.origins
        if field in READERS:
            usual, _ = read({}, kubernetes=release)
            attribute = READERS[field][0]
            assert getattr(node.kubelet, attribute) == getattr(usual.kubelet, attribute)
            assert row.severity == "warning"


def test_a_field_counts_from_its_first_release_on() -> None:
    values = {
        "memoryReservationPolicy": "None",
        "singleProcessOOMKill": True,
        "failCgroupV1": True,
        "reservedSystemCPUs": "0",
        "topologyManagerScope": "pod",
    }
    for field, value in values.items():
        node, problems = read({field: value}, kubernetes=f"1.{SINCE[field]}")
        assert not [row for row in problems if f"has no {field}" in row.message]
        assert node.origin(field) == f"k: {field}"


def test_a_form_of_memory_qos_brings_its_fields() -> None:
    fields = {
        "memoryReservationPolicy": "TieredReservation",
        "memoryThrottlingFactor": 0.5,
        "featureGates": {"MemoryQoS": True},
    }
    node, problems = read(fields, kubernetes="1.30", memory_qos="1.37")
    assert node.kubelet.memory_reservation_policy == "TieredReservation"
    assert not told(problems, "memoryReservationPolicy")
    assert not told(read(fields)[1], "memoryReservationPolicy")


def test_flags_are_told_as_fields_are() -> None:
    node, problems = read({}, kubernetes="1.16", reserved_cpus="0", memory_throttling_factor="0.5")
    rows = {row.where: row.message for row in problems}
    assert rows["--reserved-cpus"] == "has no effect: 1.16 has no reservedSystemCPUs"
    assert rows["--memory-throttling-factor"].endswith("1.16 has no memoryThrottlingFactor")
    assert node.kubelet.reserved_system_cpus == ""


def test_fields_that_decide_about_no_cgroup_are_one_row() -> None:
    _, problems = read(
        {"crashLoopBackOff": {}, "tracing": {}, "podLogsDir": "/x"}, kubernetes="1.24"
    )
    rows = [(row.severity, row.where, row.message) for row in problems if "has no" in row.message]
    assert rows == [
        ("info", "k: crashLoopBackOff", "1.24 has no crashLoopBackOff, tracing, podLogsDir")
    ]


def test_a_factor_without_memory_qos_is_told() -> None:
    for release in ("1.24", "1.30", "1.36"):
        _, problems = read({"memoryThrottlingFactor": 0.5}, kubernetes=release)
        assert told(problems, "memoryThrottlingFactor") == [
            ("info", "has no effect: the feature gate MemoryQoS is disabled")
        ]
    usual = {"memoryThrottlingFactor": 0.9}
    assert not told(read(usual, kubernetes="1.30")[1], "memoryThrottlingFactor")
    on = {"memoryThrottlingFactor": 0.5, "featureGates": {"MemoryQoS": True}}
    assert not told(read(on, kubernetes="1.36")[1], "memoryThrottlingFactor")
    _, problems = read(on, kubernetes="1.36", memory_qos="off")
    assert told(problems, "memoryThrottlingFactor") == [
        ("info", "has no effect: --memory-qos disables Memory QoS")
    ]


@pytest.mark.parametrize(
    ("release", "listed"), [("1.22", False), ("1.27", False), ("design", False), ("1.36", True)]
)
def test_explain_lists_no_field_that_the_release_does_not_know(release: str, listed: bool) -> None:
    gates: dict[str, Any] = {"featureGates": {"MemoryQoS": True}}
    if listed:
        gates["memoryReservationPolicy"] = "TieredReservation"
    node, _ = read(gates, kubernetes=release)
    made = plan(load_text(POD, Options(), name="pods").pods, node)
    answer = explain(made, "web/app", "memory.low" if listed else "memory.min")
    fields = {fact.field for group in answer.groups for row in group.values for fact in row.facts}
    assert ("memoryReservationPolicy" in fields) is listed
    assert "featureGates.MemoryQoS" in fields


def test_every_field_that_is_read_is_a_field() -> None:
    assert set(READERS) <= set(SINCE)
