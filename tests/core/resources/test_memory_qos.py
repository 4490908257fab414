"""Form qoslet keeps what it promises on every level; a pod's annotations have their say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from qoslet.core.api import manifest, memory_annotations
from qoslet.core.api.documents import json_documents
from qoslet.core.api.memory_annotations import NO_POLICY, MemoryPolicy
from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.resources.node_policy import node_policy
from qoslet.core.versions import kubernetes
from tests.core.vectors.fixtures import files, node_of, quantities

MI = 1 << 20
NODE: dict[str, Any] = {"capacity": {"cpu": "8", "memory": "16Gi"}}


def under(form: str | None, release: str = "1.36", **more: Any) -> Node:
    made = node_of(release, **{**NODE, **more})
    return structs.replace(made, profile=kubernetes.resolve(release, memory_qos=form))


def pod(
    name: str, *amounts: tuple[str, str], cpu: str = "", notes: dict[str, str] | None = None
) -> Pod:
    """A pod whose containers c0, c1 … have these memory requests and limits."""
    containers = []
    for at, (asked, most) in enumerate(amounts):
        sides = {"requests": asked, "limits": most}
        block = {side: {"memory": text} for side, text in sides.items() if text}
        if cpu:
            block = {side: {**amounts, "cpu": cpu} for side, amounts in block.items()}
        containers.append({"name": f"c{at}", "resources": block})
    keys = {f"qoslet.dev/{key}": text for key, text in (notes or {}).items()}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, "annotations": keys},
        "spec": {"containers": containers},
    }
    loaded = manifest.pods_from(json_documents(json.dumps(document).encode(), "f.json"), OPTIONS)
    assert not loaded.faults
    (found,) = loaded.pods
    return found


OPTIONS = manifest.Options()
DB = pod("db", ("", "64Mi"), cpu="1")
WEB = pod("web", ("32Mi", "64Mi"), ("16Mi", ""))
BATCH = pod("batch", ("", ""))


def memory(made: Plan) -> dict[str, dict[str, str]]:
    """Group to what is written of Memory QoS there, amounts in Mi."""
    found = {}
    for group in made.cgroups:
        rows = files(group.settings)
        found[group.name] = {
            file.removeprefix("memory."): str(int(text) // MI) if text.isdigit() else text
            for file, text in rows.items()
            if file in ("memory.min", "memory.low", "memory.high")
        }
    return found


def test_every_level_of_form_qoslet() -> None:
    node = under("qoslet", system_reserved=quantities({"memory": "80Mi"}))
    kubelet = structs.replace(
        node.kubelet,
        enforce_node_allocatable=("pods", "system-reserved"),
        system_reserved_cgroup="/system",
    )
    found = memory(plan([DB, WEB, BATCH], structs.replace(node, kubelet=kubelet)))
    assert found == {
        "/system": {"min": "70", "low": "80"},
        "/kubepods": {"min": "56", "low": "112"},
        "/kubepods/burstable": {"min": "0", "low": "48"},
        "/kubepods/besteffort": {"min": "0", "low": "0"},
        "/kubepods/poddb": {"min": "56", "low": "64"},
        "/kubepods/poddb/c0": {"min": "56", "low": "64"},
        "/kubepods/burstable/podweb": {"min": "0", "low": "48"},
        "/kubepods/burstable/podweb/c0": {"min": "0", "low": "32"},
        "/kubepods/burstable/podweb/c1": {"min": "0", "low": "16"},
        "/kubepods/besteffort/podbatch": {"min": "0", "low": "0"},
        "/kubepods/besteffort/podbatch/c0": {"min": "0", "low": "0"},
    }


@pytest.mark.parametrize(("form", "writer"), [("qoslet", "qoslet"), ("1.37", "kubelet")])
def test_what_no_kubelet_writes_is_said_to_be_of_qoslet(form: str, writer: str) -> None:
    made = plan([DB, WEB], under(form))
    own = ("memory.min", "memory.low", "memory.high")
    rows = [
        (row.file in own, row.writer)
        for group in made.cgroups
        if group.level in ("node", "qos", "pod")
        for row in group.settings
    ]
    assert {who for mine, who in rows if mine} == {writer}
    assert {who for mine, who in rows if not mine} == {"kubelet"}


def test_a_factor_throttles_best_effort_too_and_nothing_that_has_its_limit() -> None:
    found = memory(plan([DB, WEB, BATCH], under("qoslet", memory_throttling_factor=0.5)))
    assert "high" not in found["/kubepods/poddb/c0"]
    assert found["/kubepods/burstable/podweb/c0"]["high"] == "48"
    assert found["/kubepods/besteffort/podbatch/c0"]["high"] == str(8 * 1024)
    assert not any("high" in rows for name, rows in found.items() if "/c" not in name)


def test_policy_none_protects_nothing_and_says_so_everywhere() -> None:
    node = structs.replace(under("qoslet"), origins={"memoryReservationPolicy": "k.yaml"})
    found = memory(plan([DB, WEB], node))
    assert {(rows["min"], rows["low"]) for rows in found.values()} == {("0", "0")}


@pytest.mark.parametrize("per_qos", [True, False])
def test_the_group_that_kubepods_stands_in_covers_it(per_qos: bool) -> None:
    node = under("qoslet", cgroup_root="/a/b", cgroups_per_qos=per_qos)
    found = memory(plan([DB, WEB], node))
    assert found.get("/a/b") == ({"min": "56", "low": "112"} if per_qos else None)
    assert "/a" not in found
    other = memory(plan([DB], under("1.37", cgroup_root="/a/b")))
    assert "/a/b" not in other


AMOUNTS = st.integers(0, 600).map(lambda kib: f"{kib}Ki" if kib else "")
PODS = st.lists(
    st.tuples(
        st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=3),
        st.booleans(),
        st.sampled_from([None, "on", "off"]),
    ),
    max_size=6,
)


def made_of(drawn: list[Any]) -> list[Pod]:
    found = []
    for at, (amounts, guaranteed, protection) in enumerate(drawn):
        fixed = []
        for asked, limit in amounts:
            least, most = sorted(int(text[:-2] or "0") if text else 0 for text in (asked, limit))
            text = f"{most}Ki" if most else "1Ki"
            fixed.append((text, text) if guaranteed else (f"{least}Ki" if least else "", text))
        notes = {} if protection is None else {"memory-protection": protection}
        found.append(pod(f"p{at}", *fixed, cpu="1" if guaranteed else "", notes=notes))
    return found


def kept(group: Cgroup, file: str) -> int:
    """A byte value as the kernel keeps it."""
    return next((int(row.applied) for row in group.settings if row.file == file), 0)


@settings(deadline=None, max_examples=60)
@given(PODS, st.sampled_from(["/", "/own"]))
def test_every_ancestor_covers_its_children_and_no_minimum_is_the_limit(
    drawn: list[Any], root: str
) -> None:
    made = plan(made_of(drawn), under("qoslet", cgroup_root=root))
    below: dict[str, list[Cgroup]] = {}
    for group in made.cgroups:
        below.setdefault(group.name.rpartition("/")[0], []).append(group)
        limit = next((row.applied for row in group.settings if row.file == "memory.max"), "max")
        hard = kept(group, "memory.min")
        assert hard == 0 or limit == "max" or hard < int(limit)
        assert hard <= kept(group, "memory.low")
    for group in made.cgroups:
        for file in ("memory.min", "memory.low"):
            claimed = sum(kept(child, file) for child in below.get(group.name, ()))
            assert claimed <= kept(group, file), (group.name, file)
    assert len(below) > 1


@settings(deadline=None, max_examples=30)
@given(PODS, st.sampled_from(["qoslet", "1.36", "1.37", "1.22"]), st.booleans())
def test_a_plan_that_follows_its_pods_has_the_same_sums(
    drawn: list[Any], form: str, tiered: bool
) -> None:
    policy = "TieredReservation" if tiered else "None"
    node = under(form, memory_reservation_policy=policy)
    pods = made_of(drawn)
    live = LivePlan(node)
    for one in pods:
        live.add(structs.replace(one, memory=MemoryPolicy(protection=False)))
    for one in pods:
        live.add(one)
    assert live.plan().cgroups == plan(pods, node).cgroups


# The form that is in force


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
