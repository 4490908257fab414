"""What is wrong with a configuration of the managers: faults of the input, and what a kubelet
would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.node.lookup import Probed
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import NO_FLAGS, Flags, node_from
from qoslet.core.node.topology import Layout, NumaNode
from qoslet.core.plan.plan import plan
from qoslet.core.problem import Problem
from qoslet.errors import BadInputs
from tests.core.managers.fixtures import pod

OWN = {
    "apiVersion": "qoslet/v1",
    "kind": "Node",
    "capacity": {"cpu": "8", "memory": "8Gi", "pid": "1000"},
    "host": {"hierarchy": "v2", "kernel": "6.12.0"},
    "swap": "0",
    "numa": [{"cpus": "0-3", "memory": "4Gi"}, {"cpus": "4-7", "memory": "4Gi"}],
    "topology": {"cores": ["0,1", "2,3", "4,5", "6,7"], "sockets": ["0-3", "4-7"]},
    "os": "linux",
}
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "evictionHard": {"memory.available": "100Mi"},
}


def read(
    own: dict[str, Any] | None = None, flags: Flags = NO_FLAGS, **kubelet: Any
) -> tuple[Node, list[Problem]]:
    documents = [("own.yaml", {**OWN, **(own or {})}), ("k.yaml", {**KUBELET, **kubelet})]
    return node_from(documents, flags, Probed)


def reserved(*amounts: str) -> list[dict[str, Any]]:
    return [{"numaNode": at, "limits": {"memory": text}} for at, text in enumerate(amounts)]


def errors(problems: list[Problem]) -> list[str]:
    return [f"{row.where}: {row.message}" for row in problems if row.severity == "error"]


def test_everything_that_fits_is_accepted() -> None:
    node, problems = read(
        cpuManagerPolicyOptions={"full-pcpus-only": "true", "align-by-socket": "false"},
        featureGates={"CPUManagerPolicyAlphaOptions": True},
        memoryManagerPolicy="Static",
        kubeReserved={"memory": "924Mi"},
        reservedMemory=reserved("512Mi", "512Mi"),
        topologyManagerPolicy="restricted",
        topologyManagerScope="pod",
        topologyManagerPolicyOptions={"prefer-closest-numa-nodes": "true"},
    )
    assert errors(problems) == []
    assert node.host.layout == Layout(("0-3", "4-7"), ("0,1", "2,3", "4,5", "6,7"))
    assert node.host.numa == (NumaNode("0-3", 4 << 30), NumaNode("4-7", 4 << 30, 1))
    assert node.kubelet.cpu_manager_options == {"full-pcpus-only": True, "align-by-socket": False}
    assert {at: held["memory"].value for at, held in node.kubelet.reserved_memory.items()} == {
        0: 512 << 20,
        1: 512 << 20,
    }


def test_the_kubelets_flags_say_the_same() -> None:
    flags = Flags(
        cpu_manager_policy_options="full-pcpus-only=true",
        memory_manager_policy="Static",
        reserved_memory="0:memory=60Mi;1:memory=40Mi",
        topology_manager_policy="best-effort",
        topology_manager_scope="pod",
    )
    node, problems = read(flags=flags)
    assert errors(problems) == []
    kubelet = node.kubelet
    assert kubelet.cpu_manager_options == {"full-pcpus-only": True}
    assert kubelet.reserved_memory[1]["memory"].value == 40 << 20
    assert (kubelet.topology_manager_policy, kubelet.topology_manager_scope) == (
        "best-effort",
        "pod",
    )


@pytest.mark.parametrize(
    ("own", "kubelet", "where"),
    [
        ({}, {"cpuManagerPolicyOptions": {"full-pcpu-only": "true"}}, "full-pcpu-only"),
        ({}, {"cpuManagerPolicyOptions": {"full-pcpus-only": "yes"}}, "full-pcpus-only"),
        ({}, {"cpuManagerPolicyOptions": ["full-pcpus-only"]}, "cpuManagerPolicyOptions"),
        ({}, {"memoryManagerPolicy": "static"}, "memoryManagerPolicy"),
        ({}, {"topologyManagerPolicy": "single"}, "topologyManagerPolicy"),
        ({}, {"topologyManagerScope": "node"}, "topologyManagerScope"),
        ({}, {"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "7"}}, "max-allowable"),
        ({}, {"topologyManagerPolicyOptions": {"closest": "true"}}, "closest"),
        ({}, {"reservedMemory": {}}, "reservedMemory"),
        ({}, {"reservedMemory": [{"numaNode": -1, "limits": {"memory": "1Gi"}}]}, "numaNode"),
        ({}, {"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1"}}]}, "limits.cpu"),
        ({}, {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "0"}}]}, "limits.memory"),
        ({}, {"reservedMemory": reserved("1Gi") * 2}, "reservedMemory[1].limits.memory"),
        ({"topology": {"cores": ["0-1", "1-2"]}}, {}, "topology.cores[1]"),
        ({"topology": {"cores": ["0-6"]}}, {}, "topology"),
        ({"topology": {"sockets": ["0-8"]}}, {}, "topology"),
        ({"topology": {"socket": []}}, {}, "topology.socket"),
        ({"topology": {"sockets": "0-7"}}, {}, "topology.sockets"),
        ({"topology": 7}, {}, "topology"),
        ({"numa": [{"cpus": "0-9", "memory": "8Gi"}]}, {}, "numa"),
        ({"numa": [{"id": 64, "cpus": "0-7", "memory": "8Gi"}]}, {}, "numa[0].id"),
        ({"numa": [{"id": 1, "cpus": "0", "memory": "1Gi"}, {"cpus": "1", "memory": "1Gi"}]}, {},
         "numa[1].id"),
        ({"numa": [{"cpus": "0-7", "memory": "8Gi", "hugepages": {"3Mi": "6Mi"}}]}, {}, "3Mi"),
    ],
)  # fmt: skip
def test_faults_have_their_place(own: Any, kubelet: Any, where: str) -> None:
    with pytest.raises(BadInputs) as error:
        read(own, **kubelet)
    assert any(where in fault.where for fault in error.value.faults), error.value


@pytest.mark.parametrize(
    ("kubelet", "said"),
    [
        ({"reservedSystemCPUs": ""}, "needs CPU in kubeReserved"),
        ({"memoryManagerPolicy": "Static"}, "reserve 100Mi"),
        (
            {"memoryManagerPolicy": "Static", "reservedMemory": reserved("60Mi", "60Mi")},
            "120Mi of memory is reserved on NUMA nodes",
        ),
        (
            {
                "memoryManagerPolicy": "Static",
                "evictionHard": {"memory.available": "0%"},
            },
            "needs reserved memory",
        ),
        (
            {
                "memoryManagerPolicy": "Static",
                "reservedMemory": [{"numaNode": 2, "limits": {"memory": "100Mi"}}],
            },
            "NUMA node 2 does not exist",
        ),
        (
            {
                "memoryManagerPolicy": "Static",
                "reservedMemory": [
                    {"numaNode": 0, "limits": {"memory": "100Mi", "hugepages-2Mi": "2Mi"}}
                ],
            },
            "2Mi of hugepages-2Mi",
        ),
        ({"cpuManagerPolicyOptions": {"align-by-socket": "true"}}, "CPUManagerPolicyAlphaOptions"),
        (
            {
                "cpuManagerPolicyOptions": {
                    "distribute-cpus-across-numa": "true",
                    "prefer-align-cpus-by-uncorecache": "true",
                }
            },
            "excludes distribute-cpus-across-numa",
        ),
        (
            {
                "cpuManagerPolicyOptions": {"align-by-socket": "true"},
                "featureGates": {"CPUManagerPolicyAlphaOptions": True},
                "topologyManagerPolicy": "single-numa-node",
            },
            "excludes topologyManagerPolicy single-numa-node",
        ),
    ],
)
def test_what_a_kubelet_refuses_at_its_start(kubelet: Any, said: str) -> None:
    _, problems = read(**kubelet)
    assert any(said in error for error in errors(problems)), problems


@pytest.mark.parametrize(
    ("release", "option", "said"),
    [
        ("1.36", "distribute-cpus-across-numa", ""),
        ("1.36", "prefer-align-cpus-by-uncorecache", ""),
        ("1.36", "distribute-cpus-across-cores", "CPUManagerPolicyAlphaOptions"),
        ("1.32", "strict-cpu-reservation", "CPUManagerPolicyAlphaOptions"),
        ("1.33", "strict-cpu-reservation", ""),
        ("1.25", "full-pcpus-only", ""),
        ("1.22", "full-pcpus-only", "CPUManagerPolicyOptions"),
        ("1.21", "full-pcpus-only", "requires Kubernetes 1.22"),
    ],
)
def test_options_ripen(release: str, option: str, said: str) -> None:
    _, problems = read(
        flags=Flags(kubernetes=release),
        cpuManagerPolicyOptions={option: "true"},
        failCgroupV1=False,
    )
    found = [error for error in errors(problems) if option in error]
    assert bool(found) == bool(said), problems
    assert said in "".join(found)


def test_an_option_of_a_later_release_is_refused() -> None:
    _, problems = read(
        flags=Flags(kubernetes="1.30"),
        cpuManagerPolicyOptions={"strict-cpu-reservation": "true"},
    )
    assert any("requires Kubernetes 1.32" in error for error in errors(problems))


def test_many_nodes_need_a_word() -> None:
    numa = [{"cpus": str(at), "memory": "1Gi"} for at in range(8)]
    capacity = {"cpu": "9", "memory": "9Gi", "pid": "1"}
    own = {
        "numa": [*numa, {"cpus": "8", "memory": "1Gi"}],
        "capacity": capacity,
        "topology": {"cores": [str(at) for at in range(9)]},
    }
    _, problems = read(own, topologyManagerPolicy="best-effort")
    assert any("9 NUMA nodes exceed the 8" in error for error in errors(problems))
    options = {"max-allowable-numa-nodes": "16"}
    _, problems = read(
        own, topologyManagerPolicy="best-effort", topologyManagerPolicyOptions=options
    )
    assert errors(problems) == []


def test_more_nodes_than_can_be_tried_are_a_fault() -> None:
    numa = [{"cpus": str(at), "memory": "1Gi"} for at in range(64)]
    own = {
        "numa": numa,
        "capacity": {"cpu": "64", "memory": "64Gi", "pid": "1"},
        "topology": {"cores": [str(at) for at in range(64)]},
    }
    with pytest.raises(BadInputs, match="64 NUMA nodes exceed the 16"):
        read(own, memoryManagerPolicy="Static")
    with pytest.raises(BadInputs, match="64 NUMA nodes exceed the 16"):
        read(own, topologyManagerPolicy="best-effort")
    node, _ = read(own)
    assert len(plan([pod("a", "2", 1)], node).cgroups) > 0


def test_the_layout_is_probed_only_where_it_is_asked_for() -> None:
    machine = Probed(
        cpu=4, memory=1 << 30, pid=1000, hierarchy="v2", cpus="0-3", layout=Layout((), ("0-3",))
    )
    documents = [("k.yaml", {**KUBELET, "failSwapOn": False})]
    node, _ = node_from(documents, Flags(), lambda: machine)
    assert node.host.layout == Layout((), ("0-3",))
    assert "topology" in node.probed
    node, _ = node_from(
        [("k.yaml", {**KUBELET, "cpuManagerPolicy": "none"})], Flags(), lambda: machine
    )
    assert node.host.layout is None
    assert "topology" not in node.probed
    declared = {"apiVersion": "qoslet/v1", "kind": "Node", "capacity": {"cpu": "8"}}
    node, _ = node_from([("o.yaml", declared), *documents], Flags(), lambda: machine)
    assert node.host.layout is None
