"""The static CPU manager policy in a plan: own CPUs, the shared pool, no quota."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.api import manifest
from qoslet.core.api.documents import json_documents
from qoslet.core.node.node import HostFacts, Kubelet, Node
from qoslet.core.node.topology import NumaNode
from qoslet.core.plan.cri_messages import cri
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import parse
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.versions import kubernetes as kubernetes_versions


def _pod(name: str, cpu: str, limit: str | None = None) -> dict[str, Any]:
    limits = {"cpu": limit or cpu, "memory": "64Mi"}
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": limits}
    container = {"name": "c", "image": "x", "resources": resources}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
            "spec": {"containers": [container]}}  # fmt: skip


def _planned(*pods: dict[str, Any], kubernetes: str = "1.36", **kubelet: Any) -> Plan:
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": pods}).encode()
    loaded = manifest.pods_from(json_documents(text, "pods.json"), manifest.Options())
    node = Node(
        name="n",
        capacity={"cpu": parse("8"), "memory": parse("8Gi")},
        swap=0,
        host=HostFacts(),
        kubelet=Kubelet(cpu_manager_policy="static", **kubelet),
        profile=kubernetes_versions.resolve(kubernetes),
    )
    return plan(loaded.pods, node)


def _files(made: Plan, pod: str) -> dict[str, str]:
    (group,) = (g for g in made.cgroups if g.level == "container" and g.pod and g.pod.name == pod)
    return {row.file: row.value for row in group.settings}


def test_whole_cpus_are_their_own_and_the_rest_is_shared() -> None:
    made = _planned(_pod("a", "2"), _pod("b", "1500m"), reserved_system_cpus="0")
    assert _files(made, "a")["cpuset.cpus"] == "1-2"
    assert _files(made, "b")["cpuset.cpus"] == "0,3-7"
    assert _files(made, "a")["cpu.max"] == "max 100000"
    assert _files(made, "b")["cpu.max"] == "150000 100000"


def test_before_1_33_an_exclusive_container_keeps_its_quota() -> None:
    made = _planned(_pod("a", "2"), kubernetes="1.32", reserved_system_cpus="0")
    assert _files(made, "a")["cpu.max"] == "200000 100000"


def test_burstable_pods_share() -> None:
    made = _planned(_pod("a", "2", limit="3"), reserved_system_cpus="0-1")
    assert _files(made, "a")["cpuset.cpus"] == "0-7"


def test_reserved_amounts_are_rounded_up_to_cpus() -> None:
    made = _planned(_pod("a", "1"), kube_reserved={"cpu": parse("1200m")})
    assert _files(made, "a")["cpuset.cpus"] == "2"


def test_the_message_carries_the_cpus() -> None:
    made = _planned(_pod("a", "2"), reserved_system_cpus="0")
    assert cri(made)[0]["containers"][0]["linux"]["resources"]["cpuset_cpus"] == "1-2"


def test_a_numa_node_with_room_comes_first() -> None:
    made = _planned(_pod("a", "3"), _pod("b", "3"), reserved_system_cpus="0")
    assert _files(made, "b")["cpuset.cpus"] == "4-6"
    numa = (NumaNode("0-3", 4 << 30), NumaNode("4-7", 4 << 30, 1))
    node = replace(made.node, host=replace(made.node.host, numa=numa))
    made = plan([p.pod for p in made.pods], node)
    assert [_files(made, name)["cpuset.cpus"] for name in "ab"] == ["1-3", "4-6"]


@pytest.mark.parametrize("policy", ["none", ""])
def test_without_the_policy_containers_have_no_cpuset(policy: str) -> None:
    made = _planned(_pod("a", "2"))
    node = replace(made.node, kubelet=replace(made.node.kubelet, cpu_manager_policy=policy))
    assert "cpuset.cpus" not in _files(plan([p.pod for p in made.pods], node), "a")
