"""CPUs and memory as a kubelet's own checkpoint files tell them: a kubelet 1.36.2 with static CPU and memory
managers on two NUMA nodes, whose ``/pods`` names the pods in another order than that of their admission."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from qoslet.core.bundle.fields import keep
from qoslet.core.bundle.kubelet_state import kubelet_state
from qoslet.core.managers.container_manager import Assignments
from qoslet.core.managers.told import fitting, told_assignments
from qoslet.core.node.node import Kubelet
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.plan.kept_plan import KeptPlan
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import parse
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.managers.fixtures import CPU_STATE, MEMORY_STATE, container, node_of, pod

FIRST = "23899577-2c28-4c0d-8405-3480c0fded37"
SECOND = "3b17261e-986a-40c2-be1f-a4feb2f9b19d"
MI = 1 << 20
FILES = {
    CPU_STATE: json.dumps(
        {
            "policyName": "static",
            "defaultCpuSet": "0,3",
            "entries": {FIRST: {"c": "1"}, SECOND: {"c": "2", "in": "2"}},
            "checksum": 2043428314,
        }
    ).encode(),
    # of the init container, which has ended, the kubelet forgot the memory
    MEMORY_STATE: json.dumps(
        {
            "policyName": "Static",
            "machineState": {},
            "entries": {
                FIRST: {"c": [{"numaAffinity": [0], "type": "memory", "size": 64 * MI}]},
                SECOND: {"c": [{"numaAffinity": [1], "type": "memory", "size": 32 * MI}]},
            },
            "checksum": 113086343,
        }
    ).encode(),
}
NODE = node_of(
    cpus="0-3",
    numa=("0-1", "2-3"),
    sizes=(1 << 30, 1 << 30),
    reserved_system_cpus="0",
    memory_manager_policy="Static",
    reserved_memory={0: {"memory": parse("300Mi")}},
    topology_manager_policy="single-numa-node",
)
PODS = [
    pod(SECOND, "1", 32 * MI, container("in", "1", 32 * MI, "init")),
    pod(FIRST, "1", 64 * MI),
    pod("besteffort", "1m", MI),
]


def sets(made: Plan) -> dict[tuple[str, str], tuple[str | None, str | None]]:
    """CPUs and memory nodes by UID and container."""
    found = {}
    for one in made.cgroups:
        if one.container is not None and one.pod is not None:
            values = {setting.file: setting.value for setting in one.settings}
            holder = one.pod.uid, one.container.name
            found[holder] = values.get("cpuset.cpus"), values.get("cpuset.mems")
    return found


@pytest.mark.parametrize("backwards", [False, True])
def test_a_plan_has_what_the_kubelet_handed_out(backwards: bool) -> None:
    kept = fitting(NODE, told_assignments(FILES))
    pods = PODS[::-1] if backwards else PODS
    made = plan(pods, NODE, (), kept, kept_is_actual=True)
    found = sets(made)
    assert found[FIRST, "c"] == ("1", "0")
    assert found[SECOND, "c"] == ("2", "1")
    assert found[SECOND, "in"][0] == "2"
    assert found["besteffort", "c"] == ("0,3", "0")
    assert not any("order" in one.message for one in made.problems)
    assert sets(KeptPlan().plan(pods, NODE, (), kept)) == found
    # the order of the pods decides where nothing is told
    alone = plan(pods, NODE)
    assert (sets(alone)[FIRST, "c"][0] == "1") == backwards
    assert any("in this order of pods" in one.message for one in alone.problems)


def test_a_bundle_tells_it_too() -> None:
    kept = fitting(NODE, told_assignments(FILES))
    state = kubelet_state(KubeletWork(), kept, keep)
    assert state.assigned[SECOND]["in"].cpus == "2"
    assert state.assignments() == kept
    assert kubelet_state(KubeletWork(is_assigning=True), None, keep).work().is_assigning
    renamed = kubelet_state(KubeletWork(), kept, lambda kind, name: f"{kind} {name[:2]}")
    assert set(renamed.assigned) == {"uid 23", "uid 3b"}
    assert set(renamed.assigned["uid 3b"]) == {"container c", "container in"}
    assert kubelet_state(KubeletWork(), None, keep).assignments() == Assignments()


@pytest.mark.parametrize(
    "files",
    [
        {},
        {CPU_STATE: b"{", MEMORY_STATE: b"[]"},
        {CPU_STATE: b'{"entries": {"a": {"c": 7}}}', MEMORY_STATE: b'{"entries": 7}'},
        {CPU_STATE: b'{"policyName": "none", "defaultCpuSet": ""}'},
    ],
)
def test_what_cannot_be_read_tells_nothing(files: dict[str, bytes]) -> None:
    assert fitting(NODE, told_assignments(files)) is None


def test_what_does_not_fit_the_node_is_left_out() -> None:
    told = told_assignments(FILES)
    small = node_of(cpus="0-1", numa=("0-1",), sizes=(1 << 30,), memory=True)
    assert fitting(small, told) == Assignments()
    without = replace(NODE, kubelet=Kubelet())
    assert fitting(without, told) is None
