"""Form qoslet keeps what it promises on every level; a pod's annotations have their say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from qoslet.core.api import manifest
from qoslet.core.api.documents import json_documents
from qoslet.core.api.memory_annotations import MemoryPolicy
from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
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
