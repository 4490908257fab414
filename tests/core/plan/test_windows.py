"""Windows pods and nodes in a plan: which pod is one, where it is rejected, how it is isolated.

Sources: kubelet lifecycle/predicate.go (spec.os, node selector and affinity), kubernetes
plugin/pkg/admission/runtimeclass, PR 62984 and PR 123137 (validation_windows.go), kubernetes.io
create-hostprocess-pod, containerd's handlers runhcs-wcow-process and runhcs-wcow-hypervisor.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import qoslet
from qoslet.core.api.manifest import Loaded
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import Probed, node_from
from qoslet.core.problem import Problem
from qoslet.errors import BadInputs

Json = dict[str, Any]
LABEL = "kubernetes.io/os"
RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}}
CLASS: Json = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "hv"},
    "handler": "runhcs-wcow-hypervisor",
}


def affinity(*rules: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]} for rule in rules]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def rule(operator: str, *values: str) -> Json:
    return {"key": LABEL, "operator": operator, "values": list(values)}


def pods(*specs: Json, more: tuple[Json, ...] = (), annotations: Json | None = None) -> Loaded:
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{at}", "annotations": annotations or {}},
            "spec": {"containers": [{"name": "c", "image": "x", "resources": RESOURCES}], **spec},
        }
        for at, spec in enumerate(specs)
    ]
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [*items, *more]})
    return qoslet.read_pods(text)


def node(
    os: str = "windows", release: str = "1.33", kubelet: Json | None = None, **flags: str
) -> Node:
    return described(os, release, kubelet, **flags)[0]


def described(
    os: str, release: str, kubelet: Json | None = None, **flags: str
) -> tuple[Node, list[Problem]]:
    host = {"host": {"hierarchy": "v2"}} if os == "linux" else {}
    own = {
        "apiVersion": "qoslet/v1", "kind": "Node", "metadata": {"name": "n"}, "os": os,
        "capacity": {"cpu": "8", "memory": "16Gi"}, **host,
    }  # fmt: skip
    documents = [("node.yaml", own)]
    if kubelet is not None:
        head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        documents.append(("kubelet.yaml", {**head, **kubelet}))
    return node_from(documents, Flags(kubernetes=release, **flags), Probed)


def misfits(loaded: Loaded, node: Node) -> list[tuple[str, str]]:
    rows = qoslet.plan(loaded, node).problems
    return [
        (row.where.rpartition(": ")[2], row.message) for row in rows if " pod on a " in row.message
    ]


@pytest.mark.parametrize(
    ("spec", "field", "system"),
    [
        ({"os": {"name": "windows"}}, "spec.os.name", "windows"),
        ({"nodeSelector": {LABEL: "windows"}}, f"spec.nodeSelector[{LABEL}]", "windows"),
        ({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}, "spec.nodeSelector[beta.kubernetes.io/os]", "windows"),
        ({"affinity": affinity(rule("In", "windows"))}, "spec.affinity", "windows"),
        ({"affinity": affinity(rule("NotIn", "linux"))}, "spec.affinity", "windows"),
        ({"os": {"name": "linux"}}, "spec.os.name", "linux"),
        ({"nodeSelector": {LABEL: "linux"}}, f"spec.nodeSelector[{LABEL}]", "linux"),
        ({"affinity": affinity(rule("In", "linux"))}, "spec.affinity", "linux"),
    ],
)  # fmt: skip
def test_a_pod_that_names_a_system_is_rejected_by_the_other(
    spec: Json, field: str, system: str
) -> None:
    loaded, other = pods(spec), "linux" if system == "windows" else "windows"
    assert loaded.pods[0].os == system
    assert misfits(loaded, node(system)) == []
    [(where, message)] = misfits(loaded, node(other))
    assert where.startswith(field)
    assert message == f"a {system} pod on a {other} node"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": {"disk": "ssd"}},
        {"affinity": affinity(rule("In", "windows", "linux"))},
        {"affinity": affinity(rule("In", "windows"), rule("In", "linux"))},
        {"affinity": affinity({"key": "zone", "operator": "Exists"})},
    ],
)
def test_a_pod_that_names_no_system_is_rejected_nowhere(spec: Json) -> None:
    for system in ("linux", "windows"):
        assert misfits(pods(spec), node(system)) == []


def test_a_rejected_pod_counts_in_no_sum() -> None:
    made = qoslet.plan(pods({"nodeSelector": {LABEL: "windows"}}), node("linux"))
    burstable = next(one for one in made.cgroups if one.name.endswith("burstable"))
    assert {row.file: row.value for row in burstable.settings}["cpu.weight"] == "1"


def test_an_old_release_has_no_os_field() -> None:
    for release, said in (("1.22", True), ("1.23", True), ("1.24", False)):
        rows = qoslet.plan(pods({"os": {"name": "windows"}}), node("linux", release)).problems
        [row] = [row for row in rows if row.where.endswith("spec.os.name")]
        assert ("no spec.os" in row.hint) is said


def test_the_type_of_a_selector_is_checked() -> None:
    with pytest.raises(BadInputs, match="nodeSelector"):
        pods({"nodeSelector": {LABEL: 1}})
    with pytest.raises(BadInputs, match="hostProcess: must be a boolean"):
        pods({"securityContext": {"windowsOptions": {"hostProcess": "yes"}}})


def test_a_runtime_class_names_system_isolation_and_overhead() -> None:
    known = {
        **CLASS,
        "overhead": {"podFixed": {"cpu": "250m", "memory": "512Mi"}},
        "scheduling": {"nodeSelector": {LABEL: "windows"}},
    }
    for first in (True, False):
        head, tail = ((known,), ()) if first else ((), (known,))
        loaded = pods({"runtimeClassName": "hv"}, {}, more=(*head, *tail))
        isolated, plain = loaded.pods
        assert (isolated.os, plain.os) == ("windows", "linux")
        assert {name: str(amount) for name, amount in isolated.overhead.items()} == {
            "cpu": "250m", "memory": "512Mi",
        }  # fmt: skip
        assert not plain.overhead
    document = qoslet.to_dict(qoslet.plan(loaded, node()))
    assert [pod["isolation"] for pod in document["pods"]] == ["hyperv", "process"]
    assert misfits(loaded, node("linux")) == [
        ("spec.runtimeClassName", "a windows pod on a linux node")
    ]


def test_the_overhead_of_a_class_counts_with_the_gate() -> None:
    known = {**CLASS, "handler": "kata", "overhead": {"podFixed": {"cpu": "500m"}}}
    loaded = pods({"runtimeClassName": "hv"}, more=(known,))

    def shares(release: str, **flags: str) -> str:
        made = qoslet.plan(loaded, node("linux", release, None, **flags))
        pod = next(one for one in made.cgroups if one.level == "pod")
        return {row.file: row.value for row in pod.settings}["cpu.weight"]

    assert shares("1.24") == shares("1.36") == "59"  # 1500m: 1536 shares
    assert shares("1.20") == "59"
    assert shares("1.20", feature_gates="PodOverhead=false") == "39"  # 1000m: 1024 shares


def test_v1alpha1_has_its_fields_below_spec() -> None:
    known = {
        **CLASS,
        "apiVersion": "node.k8s.io/v1alpha1",
        "spec": {"runtimeHandler": "runhcs-wcow-process"},
    }
    del known["handler"]
    assert (
        pods({"runtimeClassName": "hv"}, more=(known,)).pods[0].platform.handler
        == "runhcs-wcow-process"
    )


@pytest.mark.parametrize(
    ("known", "spec", "text"),
    [
        ({"handler": None}, {}, "handler: is missing"),
        ({"overhead": {"podFixed": {"cpu": "x"}}}, {}, "podFixed"),
        ({"overhead": {"podFixed": {"cpu": "1"}}}, {"overhead": {"cpu": "2"}}, "is not the overhead of"),
        ({}, {"overhead": {"cpu": "2"}}, "there is none in"),
        (
            {"scheduling": {"nodeSelector": {LABEL: "windows"}}},
            {"nodeSelector": {LABEL: "linux"}},
            "contradicts",
        ),
    ],
)  # fmt: skip
def test_what_admission_rejects(known: Json, spec: Json, text: str) -> None:
    with pytest.raises(BadInputs, match=text):
        pods({"runtimeClassName": "hv", **spec}, more=({**CLASS, **known},))


def test_the_same_overhead_is_no_fault() -> None:
    known = {**CLASS, "overhead": {"podFixed": {"cpu": "1000m"}}}
    pods({"runtimeClassName": "hv", "overhead": {"cpu": "1"}}, more=(known,))
