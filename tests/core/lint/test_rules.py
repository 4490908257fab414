"""Rules beside their examples: what a node or a pod as a whole says about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qoslet.core.lint.examples import Example
from tests.core.lint.test_examples import findings

_CHECK: dict[str, Any] = {"exec": {"command": ["check"]}}
_KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def pod(container: dict[str, Any], **spec: Any) -> str:
    whole = {"containers": [{"name": "app", "image": "x", **container}], **spec}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": whole}
    )


def messages(text: str, id: str, **flags: str) -> list[str]:
    example = Example("", "", {"kubernetes": "1.36", **flags})
    return [one.message for one in findings(example, text, fires=True) if one.id == id]


@pytest.mark.parametrize(
    ("flags", "floor", "tiny"),
    [
        ({}, [], ["50m is 5 ms of CPU in each 100 ms"]),
        ({"cpu_cfs_quota_period": "10ms"}, ["the limit 50m becomes 100m"], []),
        ({"cpu_cfs_quota_period": "30ms"}, [], ["50m is 1.5 ms of CPU in each 30 ms"]),
        ({"cpu_cfs_quota": "false"}, [], []),
    ],
)
def test_a_limit_is_what_the_nodes_period_makes_of_it(
    flags: dict[str, str], floor: list[str], tiny: list[str]
) -> None:
    if "cpu_cfs_quota_period" in flags:
        flags = {**flags, "feature_gates": "CustomCPUCFSQuotaPeriod=true"}
    text = pod({"resources": {"limits": {"cpu": "50m"}}})
    assert messages(text, "QL001", **flags) == floor
    assert messages(text, "QL003", **flags) == tiny


def test_a_probe_has_the_cpu_of_its_pod() -> None:
    """Of a container without a request only where no neighbour in the pod has one."""
    alone = pod({"livenessProbe": _CHECK}, resources={"requests": {"cpu": "2"}})
    assert messages(alone, "QL043") == []
    spec = json.loads(alone)
    spec["spec"]["containers"].append(
        {"name": "mesh", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    )
    assert messages(json.dumps(spec), "QL043") == ["has 1 s, and the container requests no CPU"]
    limited = pod({"livenessProbe": _CHECK}, resources={"limits": {"cpu": "60m"}})
    assert messages(limited, "QL043") == ["has 1 s, and the container at most 60m CPU"]
    assert messages(limited, "QL043", cpu_cfs_quota="false") == []


@pytest.mark.parametrize(
    ("mount", "spec", "fires"),
    [
        ({}, {}, True),
        ({"readOnly": True}, {}, False),
        ({}, {"resources": {"limits": {"memory": "1Gi"}}}, False),
    ],
)
def test_a_memory_volume_counts_where_it_is_written(
    mount: dict[str, Any], spec: dict[str, Any], fires: bool
) -> None:
    volumes = [{"name": "cache", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "cache", "mountPath": "/cache", **mount}]
    assert bool(messages(pod({"volumeMounts": mounts}, volumes=volumes, **spec), "QL060")) == fires


def test_a_finding_about_a_node_names_the_document_that_says_it() -> None:
    example = Example("", "", {"kubernetes": "1.36"}, is_node=True)
    text = f"{_KUBELET}podPidsLimit: -1\n"
    where = {one.id: one.where for one in findings(example, text, fires=True) if one.pod is None}
    assert where["QL120"] == "kubelet.yaml: podPidsLimit"
    assert where["QL123"] == "node.yaml: systemReserved"


def test_an_amount_in_the_wrong_unit_is_found_where_it_is_written() -> None:
    """Once: a limit alone is the request as well, which is not in the manifest."""
    example = Example("", "", {"kubernetes": "1.36"})
    text = pod({"resources": {"limits": {"cpu": "500", "memory": "128m"}}})
    found = findings(example, text, fires=True)
    units = [(one.id, one.field, one.message) for one in found if one.id in ("QL005", "QL020")]
    assert units == [
        (
            "QL005",
            "spec.containers[0].resources.limits.cpu",
            "requests 500 CPUs: 500m is 500 thousandths of one",
        ),
        ("QL020", "spec.containers[0].resources.limits.memory", "128m is at most 1 byte"),
    ]
    both = pod({"resources": {"requests": {"memory": "64"}, "limits": {"memory": "64"}}})
    assert messages(both, "QL020") == ["64 is at most 64 bytes"] * 2


@pytest.mark.parametrize(
    ("hard", "said"),
    [
        ("{nodefs.available: 10%}", ["memory.available is not set"]),
        ("{memory.available: 0%}", ["memory.available is 0%, which a kubelet ignores"]),
        ("{memory.available: 0.0%}", ["memory.available is 0.0%, which a kubelet ignores"]),
        ("{memory.available: 100%}", ["memory.available is 100%, which a kubelet ignores"]),
        ("{memory.available: 10%}", []),
        ("{memory.available: 0.05%}", []),
        ("{memory.available: 100Mi}", []),
    ],
)
def test_a_threshold_that_a_kubelet_ignores_is_none(hard: str, said: list[str]) -> None:
    example = Example("", "", {"kubernetes": "1.36"}, is_node=True)
    found = findings(example, f"{_KUBELET}evictionHard: {hard}\n", fires=True)
    assert [one.message for one in found if one.id == "QL124"] == said
