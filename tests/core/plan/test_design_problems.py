"""Where the design documents count otherwise than any release, and that it is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qoslet.core.api import manifest
from qoslet.core.api.documents import json_documents
from qoslet.core.api.pod import Pod
from qoslet.core.explain.explain import explain
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.vectors.fixtures import node_of, policy_for

MI = 1 << 20
GATE = {"MemoryQoS": True}


def container(name: str, **resources: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": resources}


LIMIT_ALONE = container("a", limits={"memory": "1000Mi"})
REQUEST = container("b", requests={"memory": "150Mi", "cpu": "100m"})
INIT = container("i", requests={"memory": "300Mi", "cpu": "1"})


def read(**spec: Any) -> Pod:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u"},
        "spec": spec,
    }
    loaded = manifest.pods_from(
        json_documents(json.dumps(document).encode(), "doc.json"), manifest.Options()
    )
    assert not loaded.faults
    return loaded.pods[0]


def planned(pod: Pod, release: str = "design", **kubelet: Any) -> Plan:
    given: dict[str, Any] = {"gates": GATE, "capacity": {"cpu": "4", "memory": "16Gi"}}
    return plan([pod], node_of(release, **given | kubelet))


def value(made: Plan, group: str, file: str) -> str | None:
    for cgroup in made.cgroups:
        if cgroup.name == f"/kubepods{group}":
            return next((row.value for row in cgroup.settings if row.file == file), None)
    raise AssertionError(group)


def rows(made: Plan) -> dict[str, str]:
    """The rows about places in the document, by place."""
    return {
        row.where.removeprefix("doc.json: Pod default/p: "): row.message
        for row in made.problems
        if "KEP-2570" in row.message or "documents" in row.message
    }


def test_case_three_is_reachable_from_a_manifest() -> None:
    made = planned(read(containers=[LIMIT_ALONE]))
    assert value(made, "/burstable/podu/a", "memory.high") == str(900 * MI)
    assert value(made, "/burstable/podu/a", "memory.min") is None
    assert value(made, "/burstable/podu/a", "memory.max") == str(1000 * MI)
    assert value(made, "/burstable/podu", "memory.min") is None
    (where,) = rows(made)
    assert where == "spec.containers[0].resources.requests.memory"
    hint = next(row.hint for row in made.problems if where in row.where)
    assert "API server" in hint
    assert not any("below the request" in row.message for row in made.problems)


@pytest.mark.parametrize("release", ["1.22", "1.27", "1.30", "1.36", "1.37"])
def test_a_release_gets_the_defaulted_request(release: str) -> None:
    made = planned(read(containers=[LIMIT_ALONE]), release)
    assert value(made, "/burstable/podu/a", "memory.high") is None
    assert rows(made) == {}


def test_limits_alone_stay_guaranteed_as_in_the_example() -> None:
    """pod-resource-management: Pod1 has only limits, is Guaranteed and counts 3Gi of memory."""
    made = planned(read(containers=[container("a", limits={"cpu": "10m", "memory": "1Gi"})]))
    assert made.pods[0].qos == "Guaranteed"
    assert value(made, "/podu/a", "memory.min") == str(1 << 30)
    assert rows(made) == {}


def test_an_explicit_request_is_no_copied_one() -> None:
    both = container("a", requests={"memory": "1000Mi"}, limits={"memory": "1000Mi"})
    made = planned(read(containers=[both]))
    assert value(made, "/burstable/podu/a", "memory.min") == str(1000 * MI)
    assert rows(made) == {}


def test_sums_are_of_the_containers_alone() -> None:
    sidecar = {**INIT, "name": "s", "restartPolicy": "Always"}
    pod = read(
        initContainers=[INIT, sidecar], containers=[REQUEST], overhead={"memory": "1Gi", "cpu": "2"}
    )
    made = planned(pod)
    for group in ("", "/burstable", "/burstable/podu"):
        assert value(made, group, "memory.min") == str(150 * MI)
    assert value(made, "/burstable/podu", "cpu.weight") == "4"
    assert value(made, "/burstable/podu/i", "memory.min") == str(300 * MI)
    assert set(rows(made)) == {"spec.initContainers", "spec.overhead"}
    newest = planned(pod, "1.35", gates={})
    assert value(newest, "/burstable/podu", "cpu.weight") != "4"
    assert rows(newest) == {}


@pytest.mark.parametrize(
    ("enforced", "expected"),
    [(("pods",), str(150 * MI)), (("none",), None), ((), None), (("kube-reserved",), None)],
)
def test_kubepods_is_protected_only_where_pods_are_enforced(
    enforced: tuple[str, ...], expected: str | None
) -> None:
    pod = read(containers=[REQUEST])
    made = planned(
        pod, enforce_node_allocatable=enforced, kube_reserved_cgroup="/k", kube_reserved={}
    )
    assert value(made, "", "memory.min") == expected
    assert value(made, "/burstable", "memory.min") == str(150 * MI)
    (why,) = [group.values[0] for group in explain(made, "/kubepods", "memory.min").groups]
    assert ("enforceNodeAllocatable has no pods" in why.because) == (expected is None)
    assert "enforceNodeAllocatable" in {fact.field for fact in why.facts}


def test_the_gate_is_off_unless_it_is_set() -> None:
    pod = read(containers=[REQUEST])
    made = planned(pod, gates={})
    assert not any(row.file == "memory.min" for group in made.cgroups for row in group.settings)
    assert policy_for("design").memory_qos == "off"
    assert policy_for("design", gates=GATE).memory_qos == "design"
    assert policy_for("1.37").memory_qos == "1.37"


def test_explain_says_where_the_request_went_and_names_no_release() -> None:
    made = planned(read(containers=[LIMIT_ALONE, REQUEST]))
    (group,) = explain(made, "p/a", "memory.high").groups
    high = group.values[0]
    assert "request 0" in high.because
    assert "since" not in high.profile
    fields = {fact.field.partition(" (")[0]: fact.given for fact in high.facts}
    assert fields["spec.containers[0].resources.requests.memory"] == "0"
    others = {row.profiles: row.value for row in high.alternatives if row.axis == "kubernetes"}
    assert others == {"1.6-1.37": None, "design": str(900 * MI)}


def test_sums_in_explain_are_those_of_the_plan() -> None:
    pod = read(initContainers=[INIT], containers=[LIMIT_ALONE, REQUEST])
    made = planned(pod)
    (group,) = explain(made, "/kubepods/burstable", "memory.min").groups
    assert group.values[0].value == str(150 * MI)
    (fact,) = [one for one in group.values[0].facts if one.field.startswith("requests.memory")]
    assert fact.value == str(150 * MI)


@pytest.mark.parametrize("file", ["memory.min", "memory.high", "windows", "cpu.weight"])
def test_nothing_of_the_documents_is_since_a_release(file: str) -> None:
    made = planned(read(containers=[REQUEST]))
    for group in explain(made, "p/b", None if file == "windows" else file).groups:
        assert all("since 1.37" not in one.profile for one in group.values)


def test_pods_of_one_template_share_their_plan_and_are_forgotten() -> None:
    from qoslet.core.plan.live_plan import LivePlan

    live = LivePlan(node_of("design", gates=GATE))
    for _ in range(3):
        live.add(read(containers=[LIMIT_ALONE]))
        live.remove("u")
    assert live.planner.templates.count == 0
