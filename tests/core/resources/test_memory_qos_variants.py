"""Which variant of Memory QoS is in force, and annotations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from qoslet.core.api import manifest, memory_annotations
from qoslet.core.api.documents import json_documents
from qoslet.core.api.memory_annotations import NO_POLICY
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.plan.plan import plan
from qoslet.core.resources.node_policy import node_policy
from tests.core.resources.test_memory_qos import DB, OPTIONS, WEB, memory, pod, under
from tests.core.vectors.fixtures import files


def chosen(*documents: dict[str, Any], **flags: str) -> Node:
    own = {"apiVersion": "qoslet/v1", "kind": "Node", "capacity": {"cpu": "1", "memory": "1Gi"}}
    labelled = [(f"d{at}", one) for at, one in enumerate(({**own, **documents[0]}, *documents[1:]))]
    return node_from(labelled, Flags(**flags), lambda: Probed(hierarchy="v2"))[0]


GATE = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "featureGates": {"MemoryQoS": True},
}
API = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {
        "capacity": {"cpu": "1", "memory": "1Gi"},
        "nodeInfo": {"kubeletVersion": "v1.37.1"},
    },
}


@pytest.mark.parametrize(
    ("documents", "flags", "form"),
    [
        (({},), {}, "off"),
        (({}, GATE), {}, "qoslet"),
        (({},), {"feature_gates": "MemoryQoS=true"}, "qoslet"),
        (({},), {"memory_qos": "qoslet"}, "qoslet"),
        (({}, GATE), {"memory_qos": "off"}, "off"),
        (({}, GATE), {"memory_qos": "1.22"}, "1.22"),
        (({}, GATE), {"kubernetes": "1.36"}, "1.36"),
        (({}, GATE), {"kubernetes": "1.36", "memory_qos": "qoslet"}, "qoslet"),
        (({"kubernetes": "1.27"}, GATE), {}, "1.27"),
        (({"memoryQos": "1.37"},), {}, "1.37"),
        (({"memoryQos": "1.37"}, GATE), {"memory_qos": "off"}, "off"),
        (({}, API, GATE), {}, "1.37"),
    ],
)
def test_form_in_force(documents: Any, flags: dict[str, str], form: str) -> None:
    made = plan([DB], chosen(*documents, **flags))
    assert node_policy(made.node).memory_qos == form
    assert any("min" in rows for rows in memory(made).values()) == (form != "off")


# Annotations


def test_high_of_a_pod_and_of_one_container() -> None:
    notes = {"memory-high": "20Mi", "memory-high.c1": "max", "memory-throttling-factor": "0.5"}
    one = pod("p", ("8Mi", "64Mi"), ("8Mi", "64Mi"), notes=notes)
    for form in ("1.22", "1.27", "1.36", "1.37", "design", "qoslet"):
        found = memory(plan([one], under(form)))
        assert found["/kubepods/burstable/podp/c0"]["high"] == "20", form
        assert found["/kubepods/burstable/podp/c1"]["high"] == "max", form
    assert "high" not in memory(plan([one], under("off")))["/kubepods/burstable/podp/c0"]


@pytest.mark.parametrize(("form", "high"), [("1.22", "32"), ("1.36", "36"), ("qoslet", "36")])
def test_factor_of_a_pod(form: str, high: str) -> None:
    own = pod("p", ("8Mi", "64Mi"), notes={"memory-throttling-factor": "0.5"})
    other = pod("q", ("8Mi", "64Mi"))
    found = memory(plan([own, other], under(form, memory_throttling_factor=1.0)))
    assert found["/kubepods/burstable/podp/c0"]["high"] == high
    assert found["/kubepods/burstable/podq/c0"]["high"] == "64"


@pytest.mark.parametrize("form", ["1.22", "1.27", "1.36", "1.37", "design", "qoslet"])
def test_protection_of_a_pod_and_what_its_ancestors_hold_for_it(form: str) -> None:
    tiered = under(form, memory_reservation_policy="TieredReservation")
    off = pod("p", ("8Mi", "64Mi"), notes={"memory-protection": "off"})
    found = memory(plan([WEB, off], tiered))
    assert found == {
        **memory(plan([WEB], tiered)),
        "/kubepods/burstable/podp": {"min": "0", "low": "0"},
        "/kubepods/burstable/podp/c0": {
            **memory(plan([pod("p", ("8Mi", "64Mi"))], tiered))["/kubepods/burstable/podp/c0"],
            "min": "0",
            "low": "0",
        },
    }


@pytest.mark.parametrize("form", ["1.36", "1.37", "qoslet"])
def test_protection_of_one_pod_where_the_node_protects_none(form: str) -> None:
    node = structs.replace(under(form), origins={"memoryReservationPolicy": "k.yaml"})
    on = pod("p", ("8Mi", "64Mi"), notes={"memory-protection": "on"})
    found = memory(plan([WEB, on], node))
    assert found["/kubepods/burstable/podp/c0"]["low"] == "8"
    assert found["/kubepods/burstable/podweb/c0"]["low"] == "0"
    assert found["/kubepods/burstable"]["low"] == "8"


@pytest.mark.parametrize(("text", "value"), [("true", "1"), ("false", "0"), (None, "1")])
def test_oom_group(text: str | None, value: str) -> None:
    notes = {} if text is None else {"memory-oom-group": text}
    one = pod("p", ("8Mi", "64Mi"), notes=notes)
    made = plan([one], under("off"))
    rows = {group.name: files(group.settings) for group in made.cgroups}
    assert rows["/kubepods/burstable/podp/c0"]["memory.oom.group"] == value
    assert "memory.oom.group" not in rows["/kubepods/burstable/podp"]
    v1 = plan([one], under("off", host={"hierarchy": "v1"}))
    assert not any("memory.oom.group" in files(group.settings) for group in v1.cgroups)


def test_a_pod_without_annotations_of_ours_has_the_one_empty_policy() -> None:
    read, findings = memory_annotations.read({"other.dev/memory-high": "1", "x": "y"}, ["c0"])
    assert read is NO_POLICY
    assert findings == ()
    assert DB.memory is NO_POLICY


@pytest.mark.parametrize(
    ("key", "text", "severity", "message"),
    [
        ("memory-high", "lots", "error", "'lots'"),
        ("memory-high", "-1", "error", "'-1' is out of range for memory.high"),
        ("memory-high", "0", "error", "'0' is out of range"),
        ("memory-high", "100m", "error", "'100m' is out of range"),
        ("memory-high", "1" * 100, "error", "…' is out of range"),
        ("memory-high", "16E", "error", "'16E' is out of range"),
        ("memory-high.c7", "64Mi", "error", "no container 'c7'"),
        ("memory-high.c0", "MAX", "error", "'MAX'"),
        ("memory-throttling-factor", "0", "error", "'0' is not a factor"),
        ("memory-throttling-factor", "1.5", "error", "'1.5' is not a factor"),
        ("memory-throttling-factor", "nan", "error", "'nan' is not a factor"),
        ("memory-throttling-factor", "1e-3", "error", "'1e-3' is not a factor"),
        ("memory-throttling-factor", "²", "error", "'²' is not a factor"),
        ("memory-protection", "yes", "error", "'yes' is unknown"),
        ("memory-oom-group", "1", "error", "'1' is unknown"),
        ("guard", "on", "error", "'on' is unknown"),
        ("memory-hihg", "1", "warning", "is not a qoslet annotation"),
        ("guard.c0", "off", "warning", "is not a qoslet annotation"),
    ],
)
def test_what_cannot_be_meant_is_refused(key: str, text: str, severity: str, message: str) -> None:
    policy, (found,) = memory_annotations.read({f"qoslet.dev/{key}": text}, ["c0"])
    assert policy is NO_POLICY
    assert (found.severity, found.key) == (severity, f"qoslet.dev/{key}")
    assert message in found.message
    assert found.hint


def test_a_refused_annotation_is_a_row_with_its_field() -> None:
    document = {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "d", "annotations": {"qoslet.dev/guard": "nonsense"}},
        "spec": {
            "template": {
                "metadata": {"annotations": {"qoslet.dev/guard": "maybe"}},
                "spec": {"containers": [{"name": "c"}]},
            }
        },
    }
    loaded = manifest.pods_from(json_documents(json.dumps(document).encode(), "f.json"), OPTIONS)
    (row,) = loaded.problems
    place = "f.json: Deployment default/d: spec.template.metadata.annotations[qoslet.dev/guard]"
    assert (row.severity, row.where) == ("error", place)
    policy = loaded.pods[0].memory
    assert policy.given == ()
    assert [one.key for one in policy.findings] == ["qoslet.dev/guard"]


@pytest.mark.parametrize(
    ("kind", "group", "path"),
    [
        ("Deployment", "apps/v1", "spec.template"),
        ("CronJob", "batch/v1", "spec.jobTemplate.spec.template"),
    ],
)
def test_an_annotation_of_a_workload_itself_belongs_to_its_template(
    kind: str, group: str, path: str
) -> None:
    inner: dict[str, Any] = {
        "metadata": {"annotations": {"qoslet.dev/memory-high": "64Mi"}},
        "spec": {
            "containers": [{"name": "c"}],
            "restartPolicy": "Never" if kind == "CronJob" else "Always",
        },
    }
    for step in reversed(path.split(".")):
        inner = {step: inner}
    notes = {"qoslet.dev/guard": "bogus", "qoslet.dev/memory-high": "32Mi", "x/guard": "off"}
    metadata = {"name": "d", "annotations": notes}
    document = {"kind": kind, "apiVersion": group, "metadata": metadata, **inner}
    loaded = manifest.pods_from(json_documents(json.dumps(document).encode(), "f.json"), OPTIONS)
    (row,) = loaded.problems
    assert row.severity == "warning"
    assert row.where == f"f.json: {kind} default/d: metadata.annotations[qoslet.dev/guard]"
    assert row.hint == f"move it to {path}.metadata.annotations"
    assert loaded.pods[0].memory.guard is None


@given(
    st.dictionaries(
        st.sampled_from([*memory_annotations.KEYS, "memory-high.c0", "memory-high."]),
        st.text(),
        max_size=5,
    )
)
def test_any_text_gives_a_policy_or_a_reason(given_: dict[str, str]) -> None:
    policy, findings = memory_annotations.read(
        {f"qoslet.dev/{key}": text for key, text in given_.items()}, ["c0"]
    )
    assert len(policy.given) + len(findings) == len(given_)
