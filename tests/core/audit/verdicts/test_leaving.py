"""Pods that are being deleted: what is missing of them is on its way, what is off in them is not."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from qoslet.core.api.documents import Options, json_documents
from qoslet.core.api.manifest import pods_from
from qoslet.core.audit.live import SUBTREE
from qoslet.core.node.running_kubelet.listed_pods import listed_pods
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.versions.runtime import runtime_of
from tests.core.audit.trees import changed, look, plan_of, tree_of, without, written
from tests.core.audit.verdicts.setups import SETUPS, first, sole
from tests.core.audit.verdicts.setups import folder as folder

_WHEN = "2026-11-29T21:31:06Z"


def _leaving(plan: Plan) -> Plan:
    """The plan with pods whose containers' statuses say that they run, as until all have ended."""
    found = []
    for one in plan.cgroups:
        pod = one.pod and replace(one.pod, is_leaving=True)
        container = one.container and replace(one.container, runs=True)
        found.append(replace(one, pod=pod, container=container))
    return replace(plan, cgroups=tuple(found))


@pytest.mark.parametrize("level", ["pod", "container"])
@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_what_lacks_of_a_pod_that_is_deleted_is_pending(
    folder: str, hierarchy: str, driver: str, level: str
) -> None:
    plan = _leaving(plan_of(folder, hierarchy, driver))
    path = first(plan, level).path or ""
    gone = sole(plan, without(tree_of(plan), path))
    assert (gone.verdict, gone.severity, gone.path) == ("pending", "info", path)
    assert gone.message.endswith(": the pod is being deleted")


def test_a_container_that_is_deleted_may_have_no_process_and_be_gone_in_part(folder: str) -> None:
    plan = _leaving(plan_of(folder, "v1"))
    path = first(plan, "container").path or ""
    for parts in ({"processes": 0, "pids": ()}, {"missing": frozenset({"pids", "memory"})}):
        found = look(plan, changed(tree_of(plan), path, **parts)).findings
        assert [(one.verdict, one.severity) for one in found if one.file is None] == [
            ("pending", "info")
        ]


def test_a_pod_that_is_deleted_needs_no_controllers_for_others(folder: str) -> None:
    plan = _leaving(plan_of(folder, "v2", "systemd"))
    path = first(plan, "pod").path or ""
    assert look(plan, written(tree_of(plan), path, SUBTREE, "cpu memory pids")).findings == ()


def test_values_of_a_pod_that_is_deleted_count(folder: str) -> None:
    plan = _leaving(plan_of(folder, "v2", "cgroupfs"))
    path = first(plan, "pod").path or ""
    assert sole(plan, written(tree_of(plan), path, "cpu.weight", "999")).verdict == "drift"


def test_pods_of_qoslet_leave_with_their_manifests_only(folder: str) -> None:
    plan = _leaving(plan_of(folder))
    profile = replace(plan.node.profile, runtime=runtime_of("process"))
    own = replace(plan, node=replace(plan.node, profile=profile))
    gone = look(own, without(tree_of(plan), first(plan, "pod").path or "")).findings
    assert "missing" in {one.verdict for one in gone}


@pytest.mark.parametrize(
    ("metadata", "is_leaving", "was_changed"),
    [
        ({"generation": 1}, False, False),
        ({"generation": 2}, False, True),
        ({"generation": 2, "deletionTimestamp": _WHEN}, True, False),
        ({"generation": 3, "deletionTimestamp": _WHEN}, True, True),
    ],
)
def test_a_deletion_is_a_generation_and_no_change_of_the_spec(
    metadata: Mapping[str, object], is_leaving: bool, was_changed: bool
) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "uid": "0b1c", **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [document]})
    (pod,) = pods_from(json_documents(text.encode(), "pods.json"), Options()).pods
    assert (pod.is_leaving, pod.was_changed) == (is_leaving, was_changed)
    assert [one.was_changed for one in listed_pods(text.encode())] == [was_changed]
