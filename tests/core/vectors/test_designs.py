"""Every number that the five design documents print, under the profile ``design``.

Where a document's number contradicts its own formula, the test names the misprint.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from qoslet.core.api import manifest
from qoslet.core.api.documents import json_documents
from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from qoslet.core.versions import kubernetes
from tests.core.vectors.fixtures import files, node_of, pod_of, policy_for, quantities

MI, GI = 1 << 20, 1 << 30
GATE = {"MemoryQoS": True}
"""KEP-2570: "Set --feature-gates=MemoryQoS=true to enable the feature.\""""


def pod(name: str, *containers: tuple[dict[str, str], dict[str, str]]) -> dict[str, Any]:
    """A manifest with (requests, limits) for each container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name.lower(), "uid": name},
        "spec": {
            "containers": [
                {"name": f"c{at}", "resources": {"requests": asked, "limits": most}}
                for at, (asked, most) in enumerate(containers)
            ]
        },
    }


def read(*documents: dict[str, Any]) -> list[Pod]:
    """Manifests as the reader gives them: requests defaulted from limits."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}).encode()
    loaded = manifest.pods_from(json_documents(text, "doc.json"), manifest.Options())
    assert not loaded.faults
    return loaded.pods


def planned(node: Node, pods: list[Pod]) -> dict[str, dict[str, str]]:
    """Group name below the root to its files."""
    found = {}
    for group in plan(pods, node).cgroups:
        found[group.name.removeprefix("/kubepods") or "/"] = files(group.settings)
    return found


# KEP-2570: Memory QoS


def memory_high(
    request: int, limit: int, factor: float | None = None, form: str | None = None, **node: Any
) -> int | None:
    """``memory.high`` of the one container of a Burstable pod, in Mi; amounts in Mi."""
    # An explicit request of 0 is not defaulted from the limit.
    given = {"requests": {"memory": f"{request}Mi"}}
    if limit:
        given["limits"] = {"memory": f"{limit}Mi"}
    made = node_of(
        "design", host={"page_size": MI}, gates=GATE, memory_throttling_factor=factor, **node
    )
    made = structs.replace(made, profile=kubernetes.resolve("design", memory_qos=form))
    (found,) = read({**pod("P"), "spec": {"containers": [{"name": "c0", "resources": given}]}})
    text = planned(made, [found])
    (container,) = (rows for name, rows in text.items() if name.endswith("/c0"))
    high = container.get("memory.high")
    return None if high is None else int(high) // MI


@pytest.mark.parametrize(
    ("request_mi", "high"),
    [
        (0, 900),
        (100, 910),
        (200, 920),
        (300, 930),
        (400, 940),
        (500, 950),
        (600, 960),
        (700, 970),
        pytest.param(800, 980, id="800: the copy misprints 960"),
        pytest.param(900, 990, id="900: the copy misprints 980"),
        pytest.param(1000, None, id="1000: the copy prints the limit, which no file needs"),
    ],
)
def test_first_table_of_memory_qos(request_mi: int, high: int | None) -> None:
    assert memory_high(request_mi, 1000) == high


@pytest.mark.parametrize(
    ("request_mi", "factor", "first", "second"),
    [
        (500, 0.6, 600, 800),
        (800, 0.6, None, 920),
        pytest.param(1000, 0.6, None, None, id="1000Mi: the copy misprints 1Gi"),
        (500, 0.8, 800, 900),
        (850, 0.8, None, 970),
        pytest.param(500, 0.4, None, 700, id="500Mi: the copy misprints 500Gi and 800 < 400"),
    ],
)
def test_second_table_of_memory_qos(
    request_mi: int, factor: float, first: int | None, second: int | None
) -> None:
    assert memory_high(request_mi, 1000, factor, "1.22") == first
    assert memory_high(request_mi, 1000, factor) == second


def test_prose_examples_of_the_first_formula() -> None:
    assert memory_high(50, 100, 0.8, "1.22") == 80
    assert memory_high(85, 100, 0.8, "1.22") is None
    assert memory_high(500, 1000, 0.6, "1.22") == 600
    default = policy_for("1.22", gates={"MemoryQoS": True})
    assert default.factor == 0.8


def test_prose_example_that_writes_nothing() -> None:
    """ "early throttling at 800Mi" with request 800Mi: high is to be above the request."""
    assert memory_high(800, 1000, 0.8, "1.22") is None


def test_second_formula_has_the_factor_of_its_text() -> None:
    assert policy_for("design", gates=GATE).factor == 0.9


def test_cases_of_burstable_and_besteffort() -> None:
    node: dict[str, Any] = {"capacity": {"memory": f"{10_000 * MI}"}}
    assert memory_high(500, 1000, **node) == 500 + (1000 - 500) * 9 // 10  # case I
    assert memory_high(500, 0, **node) == 500 + (10_000 - 500) * 9 // 10  # case II
    assert memory_high(0, 1000, **node) == 1000 * 9 // 10  # case III
    assert memory_high(0, 0, **node) == 10_000 * 9 // 10  # BestEffort


def test_case_of_guaranteed_and_of_a_limit_alone() -> None:
    memory = {"memory": "1000Mi"}
    both = {"memory": "1000Mi", "cpu": "1"}
    node = node_of("design", capacity={"memory": "10Gi"}, host={"page_size": MI}, gates=GATE)
    equal = pod_of({"uid": "g", "containers": [{"name": "c", "requests": both, "limits": both}]})
    only = pod_of({"uid": "b", "containers": [{"name": "c", "limits": memory}]})
    found = planned(node, [equal, only])
    assert "memory.high" not in found["/podg/c"]
    assert found["/burstable/podb/c"]["memory.high"] == str(900 * MI)
    assert "memory.min" not in found["/burstable/podb/c"]


def test_mapping_of_container_pod_and_node() -> None:
    """Both mapping tables; the second's node row has its columns shifted (min, not high)."""
    node = node_of(
        "design",
        gates=GATE,
        capacity={"cpu": "8", "memory": "64Gi"},
        kube_reserved=quantities({"memory": "2Gi"}),
        system_reserved=quantities({"memory": "1Gi"}),
        kube_reserved_cgroup="/kube",
        system_reserved_cgroup="/system",
        enforce_node_allocatable=("pods", "kube-reserved", "system-reserved"),
    )
    one, two = {"cpu": "1", "memory": "1Gi"}, {"memory": "2Gi"}
    found = planned(
        node,
        read(
            pod("G", (one, one), (one, one)), pod("B", (two, {"memory": "4Gi"})), pod("E", ({}, {}))
        ),
    )
    assert found["/podG/c0"]["memory.min"] == found["/podG/c1"]["memory.min"] == str(GI)
    assert found["/podG"]["memory.min"] == str(2 * GI)
    assert found["/burstable/podB"]["memory.min"] == str(2 * GI)
    assert found["/burstable"]["memory.min"] == str(2 * GI)
    assert found["/"]["memory.min"] == str(4 * GI)
    assert found["/kube"]["memory.min"] == str(2 * GI)
    assert found["/system"]["memory.min"] == str(GI)
    assert found["/burstable/podB/c0"]["memory.max"] == str(4 * GI)
    above = [rows for name, rows in found.items() if not name.endswith(("/c0", "/c1"))]
    assert not any("memory.high" in rows for rows in above)
    assert found["/besteffort/podE/c0"]["memory.high"] == str(61 * GI * 9 // 10 // 4096 * 4096)


# pod-resource-management

POD1 = pod("1", ({}, {"cpu": "10m", "memory": "1Gi"}), ({}, {"cpu": "100m", "memory": "2Gi"}))
POD2 = pod("2", ({}, {"cpu": "20m", "memory": "2Gi"}))  # the document misspells 2Gii
POD3 = pod(
    "3",
    ({"cpu": "20m", "memory": "1Gi"}, {"cpu": "50m", "memory": "2Gi"}),
    ({}, {"cpu": "100m", "memory": "1Gi"}),
)
POD4 = pod("4", ({"cpu": "10m", "memory": "1Gi"}, {"cpu": "20m", "memory": "2Gi"}))
POD5 = pod("5", ({}, {}), ({}, {}))
ALLOCATABLE = 64 * GI
