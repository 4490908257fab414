"""What an in-place resize of a pod's own resources leaves in its containers: as a kubelet 1.36.2 did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoslet.core.api.manifest import Options
from qoslet.core.plan.plan import plan as planned
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.files import manifests
from tests.core.audit.trees import look, plan_of, tree_of, written
from tests.core.audit.verdicts.setups import folder as folder


def resized(folder: str, hierarchy: str, generation: int) -> Plan:
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
    return planned(manifests.load([str(path)], Options()).pods, plan_of(folder, hierarchy).node)


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


def test_another_value_is_drift_all_the_same(folder: str) -> None:
    plan = resized(folder, "v1", 3)
    (path,) = [one.path for one in plan.cgroups if one.container and one.container.name == "a"]
    (row,) = look(plan, written(tree_of(plan), path or "", "cpu.shares", "77")).findings
    assert (row.verdict, row.severity) == ("drift", "warning")
