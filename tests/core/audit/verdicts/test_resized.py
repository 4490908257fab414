"""What an in-place resize of a pod's own resources leaves in its containers: as a kubelet 1.36.2 did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Options
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan as planned
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from tests.core.audit.trees import look, node_text, plan_of, tree_of, units_of, written
from tests.core.audit.verdicts.setups import folder as folder
from tests.core.audit.verdicts.setups import sole, told


def resized(folder: str, hierarchy: str, generation: int, node: Node | None = None) -> Plan:
    """The plan of a pod after its own resources grew, with a container and an ephemeral one that have
    none."""
    statuses = {name: {"name": name, "containerID": f"containerd://{name * 64}"} for name in "ae"}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lvl", "uid": "0365" * 9, "generation": generation},
        "spec": {
            "resources": {
                "requests": {"cpu": "150m", "memory": "48Mi"},
                "limits": {"cpu": "300m", "memory": "96Mi"},
            },
            "containers": [{"name": "a", "image": "i"}],
            "ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "a"}],
        },
        "status": {
            "containerStatuses": [statuses["a"]],
            "ephemeralContainerStatuses": [statuses["e"]],
        },
    }
    path = Path(folder) / f"resized-{generation}.json"
    path.write_text(json.dumps(document))
    node = node or plan_of(folder, hierarchy).node
    return planned(manifests.load([str(path)], Options()).pods, node)


@pytest.mark.parametrize(
    ("hierarchy", "name", "file", "found"),
    [
        ("v1", "a", "cpu.shares", "2"),
        ("v2", "a", "cpu.weight", "1"),
        ("v1", "e", "cpu.shares", "204"),
        ("v1", "e", "cpu.cfs_quota_us", "20000"),
        ("v1", "e", "memory.limit_in_bytes", "67108864"),
    ],
)
@pytest.mark.parametrize("generation", [1, 3])
def test_it_is_a_note(
    folder: str, hierarchy: str, name: str, file: str, found: str, generation: int
) -> None:
    plan = resized(folder, hierarchy, generation)
    (path,) = [one.path for one in plan.cgroups if one.container and one.container.name == name]
    live = tree_of(plan)
    assert live.cgroups[path or ""].values[file] != found
    (row,) = look(plan, written(live, path or "", file, found)).findings
    expected = ("stale", "info") if generation > 1 else ("drift", "warning")
    assert (row.verdict, row.severity, row.file) == (*expected, file)


@pytest.mark.parametrize(
    ("generation", "found", "expected"),
    [
        (6, "4", ("stale", "info")),
        (6, "5", ("drift", "warning")),
        (6, "2", ("drift", "warning")),
        (1, "4", ("drift", "warning")),
    ],
)
def test_a_weight_that_reads_as_the_shares_of_the_request_is_a_note(
    folder: str, generation: int, found: str, expected: tuple[str, str]
) -> None:
    """As after resizes of a sidecar to 29m beside a container with 50m: 80 shares, whose weight is 3."""
    requests = {"s": "29m", "a": "50m"}
    containers = [
        {"name": name, "image": "i", "resources": {"requests": {"cpu": amount}}}
        for name, amount in requests.items()
    ]
    ids = [{"name": name, "containerID": f"containerd://{name * 64}"} for name in requests]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "side", "uid": "0366" * 9, "generation": generation},
        "spec": {"containers": containers},
        "status": {"containerStatuses": ids},
    }
    file = Path(folder) / "side.json"
    file.write_text(json.dumps(document))
    pods = manifests.load([str(file)], Options()).pods
    plan = planned(pods, plan_of(folder, "v2").node)
    (path,) = [one.path for one in plan.cgroups if one.level == "pod"]
    live = tree_of(plan)
    assert live.cgroups[path or ""].values["cpu.weight"] == "3"
    (row,) = look(plan, written(live, path or "", "cpu.weight", found)).findings
    assert (row.verdict, row.severity) == expected


def test_another_value_is_drift_all_the_same(folder: str) -> None:
    plan = resized(folder, "v1", 3)
    (path,) = [one.path for one in plan.cgroups if one.container and one.container.name == "a"]
    (row,) = look(plan, written(tree_of(plan), path or "", "cpu.shares", "77")).findings
    assert (row.verdict, row.severity) == ("drift", "warning")


@pytest.mark.parametrize("found", ["90595328", "60395520"])
@pytest.mark.parametrize(("gate", "generation"), [("true", 3), ("true", 1), ("false", 3)])
def test_memory_high_of_the_pods_limit_is_a_note(
    folder: str, found: str, gate: str, generation: int
) -> None:
    """With Memory QoS on v2: nine tenths of 96Mi, as asked for now, or of 64Mi, as until the next
    resize is allocated."""
    path = Path(folder) / f"qos-{gate}.yaml"
    path.write_text(f"{node_text()}featureGates: {{MemoryQoS: {gate}}}\n")
    node = node_files.load_node([str(path)], Flags())[0]
    plan = resized(folder, "v2", generation)
    (pod,) = {one.pod.uid: one.pod for one in plan.cgroups if one.pod is not None}.values()
    plan = planned([pod], node)
    (place,) = [one.path for one in plan.cgroups if one.container and one.container.name == "a"]
    live = written(tree_of(plan), place or "", "memory.high", found)
    if found == "60395520":
        live = written(live, place or "", "memory.max", "67108864")
    rows = [one for one in look(plan, live).findings if one.file == "memory.high"]
    severity = "info" if (gate, generation) == ("true", 3) else "warning"
    assert [(one.verdict, one.severity) for one in rows] == [("stale", severity)]
    other = look(plan, written(live, place or "", "memory.high", "33554432"))
    assert [one.severity for one in other.findings if one.file == "memory.high"] == ["warning"]


@pytest.mark.parametrize("file", ["memory.max", "cpu.max"])
@pytest.mark.parametrize(
    ("was_changed", "verdict"), [(True, "stale"), (None, "stale"), (False, "drift")]
)
def test_a_limit_is_left_only_of_a_spec_that_was_changed(
    folder: str, file: str, was_changed: bool | None, verdict: str
) -> None:
    """As beside a kubelet 1.36.2: a quota by hand in a pod that has none and was never resized."""
    plan = told(plan_of(folder, "v2", "cgroupfs"), was_changed)
    pods = [one for one in plan.cgroups if one.level == "pod"]
    pod = next(one for one in pods if file not in {s.file for s in one.settings})
    value = "50000 100000" if file == "cpu.max" else "67108864"
    assert sole(plan, written(tree_of(plan), pod.path or "", file, value)).verdict == verdict


@pytest.mark.parametrize(
    ("generation", "status", "verdict"),
    [
        (2, {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, "stale"),
        (2, {"state": {"running": {}}, "restartCount": 3}, "stale"),
        (2, {"state": {"running": {}}, "restartCount": 0}, "drift"),
        (1, {"state": {"waiting": {}}, "restartCount": 3}, "drift"),
        (2, {"state": {"running": {}}, "restartCount": 0, "after": "init"}, "stale"),
        (1, {"state": {"running": {}}, "restartCount": 0, "after": "init"}, "drift"),
    ],
)
@pytest.mark.parametrize(
    ("hierarchy", "file", "found"),
    [
        ("v1", "memory.limit_in_bytes", "20971520"),
        ("v1", "cpu.cfs_quota_us", "10000"),
        ("v2", "memory.max", "20971520"),
        ("v2", "cpu.weight", "1"),
    ],
)
def test_a_pod_whose_container_did_not_run_keeps_what_it_had(
    folder: str,
    hierarchy: str,
    file: str,
    found: str,
    generation: int,
    status: dict[str, object],
    verdict: str,
) -> None:
    # of a kubelet 1.36.2: RunContainerError from then on, since no container may have more than its pod
    # one that was resized while its init container ran keeps them without a restart
    resources = {"cpu": "200m", "memory": "40Mi"}
    asked = {"image": "i", "resources": {"requests": resources, "limits": resources}}
    before = [{"name": "first"} | asked] if "after" in status else []
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "loop", "uid": "0365" * 9, "generation": generation},
        "spec": {
            "containers": [{"name": "a"} | asked],
            "initContainers": before,
        },
        "status": {
            "containerStatuses": [{"name": "a", "containerID": f"containerd://{'a' * 64}"} | status]
        },
    }
    path = Path(folder) / "loop.json"
    path.write_text(json.dumps(document))
    plan = planned(manifests.load([str(path)], Options()).pods, plan_of(folder, hierarchy).node)
    pod = next(one.path or "" for one in plan.cgroups if one.level == "pod")
    (one,) = [
        one
        for one in look(plan, written(tree_of(plan), pod, file, found)).findings
        if one.path == pod
    ]
    assert (one.verdict, one.severity, one.found) == (verdict, "warning", found)
    assert ("cannot start" in one.message) == (verdict == "stale" and file != "cpu.weight")
    assert f"{pod}/{file}" in (one.fix or "")


@pytest.mark.parametrize(
    ("kubernetes", "generation", "expected"),
    [
        ("1.36", 3, ("stale", "info")),
        ("1.36", 1, ("drift", "warning")),
        ("1.37", 3, ("drift", "warning")),
    ],
)
def test_protection_of_a_pod_is_of_its_creation(
    folder: str, kubernetes: str, generation: int, expected: tuple[str, str]
) -> None:
    node = plan_of(folder, "v2", "cgroupfs", kubernetes, memory_qos=kubernetes).node
    kubelet = replace(node.kubelet, memory_reservation_policy="TieredReservation")
    plan = resized(folder, "v2", generation, replace(node, kubelet=kubelet))
    (pod,) = [one for one in plan.cgroups if one.level == "pod"]
    assert pod.applied["memory.low"] == "50331648"
    live = written(tree_of(plan), pod.path or "", "memory.low", "33554432")
    (row,) = [one for one in look(plan, live).findings if one.verdict != "ineffective"]
    assert (row.verdict, row.severity, row.file) == (*expected, "memory.low")


def test_protection_that_the_unit_does_not_have_was_written_by_hand(folder: str) -> None:
    node = plan_of(folder, "v2", "systemd", "1.36", memory_qos="1.36").node
    kubelet = replace(node.kubelet, memory_reservation_policy="TieredReservation")
    plan = resized(folder, "v2", 3, replace(node, kubelet=kubelet))
    (pod,) = [one for one in plan.cgroups if one.level == "pod"]
    live, units = tree_of(plan), units_of(plan, tree_of(plan))
    live = written(live, pod.path or "", "memory.low", "33554432")
    for text, verdict in (("33554432", "stale"), ("50331648", "drift")):
        units[pod.unit or ""] = {**units[pod.unit or ""], "MemoryLow": text}
        rows = [one for one in look(plan, live, units).findings if one.file == "memory.low"]
        (row,) = [one for one in rows if one.verdict != "ineffective"]
        assert (row.verdict, row.path) == (verdict, pod.path)
