"""Numbers and lists of a node's documents cost what they are worth, or are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from qoslet.core.managers import topology_hints
from qoslet.core.managers.cpu_assignment import PickOptions
from qoslet.core.managers.cpu_manager import CpuManager
from qoslet.core.managers.memory_manager import MemoryManager, Reusable
from qoslet.core.managers.topology_hints import ANY, NOWHERE, Hint, Merger, NodeSets, bits
from qoslet.core.node.flags import Flags
from qoslet.core.node.lookup import Probed
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import node_from
from qoslet.core.node.topology import NumaNode, Topology
from qoslet.errors import BadInputs

GUEST = Probed(cpu=2, memory=1 << 30, hierarchy="v2")


def read(own: dict[str, Any], kubelet: dict[str, Any] | None = None) -> Node:
    """A node of these documents."""
    documents: list[tuple[str, Any]] = [
        ("own.yaml", {"apiVersion": "qoslet/v1", "kind": "Node", **own})
    ]
    if kubelet is not None:
        head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        documents.append(("kubelet.yaml", {**head, **kubelet}))
    return node_from(documents, Flags(), lambda: GUEST)[0]


def capacity(**more: str) -> dict[str, Any]:
    return {"capacity": {"cpu": "4", "memory": "8Gi", "pid": "1000", **more}}


STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
OFTEN = ",".join(["0-99999"] * 5000)


@pytest.mark.parametrize(
    ("own", "kubelet", "message"),
    [
        (capacity(cpu="4000000000"), {}, "capacity.cpu: is more than 131072 CPUs"),
        (capacity(cpu="10000000"), STATIC, "capacity.cpu: is more than 131072 CPUs"),
        (capacity(cpu="131073"), None, "capacity.cpu: is more than 131072 CPUs"),
        (capacity() | {"host": {"cpus": "0-4000000000"}}, {}, "is not a CPU list"),
        (capacity() | {"host": {"cpus": OFTEN}}, {}, "is not a CPU list"),
        (capacity(), {"reservedSystemCPUs": OFTEN}, "is not a CPU list"),
        (capacity(), {"reservedSystemCPUs": "0-99999"}, "CPU 4 does not exist"),
        (capacity(**{f"hugepages-{n}": "0" for n in range(1, 5000)}), {}, "sizes of hugepages"),
        (
            capacity(),
            {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}] * 50000},
            "reservedMemory: has 50000 entries",
        ),
        (
            capacity(),
            {
                "reservedMemory": [
                    {"numaNode": 0, "limits": {f"hugepages-{n}": "1" for n in range(1, 50000)}}
                ]
            },
            "has 49999 resources, at most 64",
        ),
        (capacity() | {"numa": [{"cpus": "0", "memory": 1}] * 50000}, {}, "has 50000 NUMA nodes"),
        (
            capacity() | {"numa": [{"cpus": "0", "memory": 1, "distances": [1] * 50000}]},
            {},
            "has 50000 numbers",
        ),
        (capacity() | {"topology": {"cores": ["0-99999"] * 50000}}, {}, "occurs in two lists"),
        (capacity(), {"maxPods": 2**31}, "maxPods: is 2147483648, must be between"),
        (capacity(), {"podPidsLimit": 2**63}, "podPidsLimit"),
    ],
)
def test_what_is_beyond_a_machine_is_refused_soon(
    own: dict[str, Any], kubelet: dict[str, Any] | None, message: str
) -> None:
    start = time.process_time()
    with pytest.raises(BadInputs) as raised:
        read(own, kubelet)
    assert time.process_time() - start < 20
    assert any(message in str(fault) for fault in raised.value.faults)


def test_the_largest_machine_is_read() -> None:
    node = read(capacity(cpu="131072"), {"reservedSystemCPUs": "0-3,99999"})
    assert str(node.kubelet.system_reserved["cpu"]) == "5"


NODES = 16


def topology() -> Topology:
    """A machine of 16 NUMA nodes with four CPUs and 8Gi each."""
    numa = [NumaNode(f"{4 * n}-{4 * n + 3}", 8 << 30, n) for n in range(NODES)]
    return Topology(frozenset(range(4 * NODES)), None, numa)


def test_sixteen_numa_nodes_are_done_in_seconds() -> None:
    machine, start = topology(), time.process_time()
    cpu = CpuManager(machine, PickOptions(), frozenset({0}))
    memory = MemoryManager(machine, {0: {"memory": 1 << 30}})
    asked = [cpu.hints(5), *memory.hints({"memory": 9 << 30}, Reusable()).values()]
    assert [len(hints) for hints in asked] == [2**16 - 17, 2**16 - 17]
    for closest in (False, True):
        best, admitted = Merger("best-effort", machine, closest).merged(asked)
        assert (best, admitted) == (Hint(0b11, True), True)
        odd = [[Hint(hint.nodes, False) for hint in hints] for hints in asked]
        best, admitted = Merger("restricted", machine, closest).merged([odd[0], asked[1]])
        assert (best, admitted) == (Hint(0b11, False), False)
    assert time.process_time() - start < 60


def one_by_one(asked: list[list[Hint]], every: int) -> set[tuple[int, bool]]:
    """Every combination of one hint of each resource, as the kubelet permutes them.

    Source: kubelet topologymanager policy.go iterateAllProviderTopologyHints, mergePermutation.
    """
    found: set[tuple[int, int | None, bool]] = {(every, None, True)}
    for hints in asked:
        found = {
            (
                mask if hint.nodes is None else mask & hint.nodes,
                first if hint.nodes is None or first is not None else hint.nodes,
                preferred and hint.preferred and hint.nodes in (None, first or hint.nodes),
            )
            for mask, first, preferred in found
            for hint in hints
        }
    return {(mask, preferred) for mask, _, preferred in found if mask}


@pytest.mark.parametrize("few", [0, 1 << 16])
def test_intersections_are_those_of_every_combination(few: int) -> None:
    every, masks = bits((0, 2, 5)), [bits(one) for one in ((0,), (2,), (0, 5), (2, 5), (0, 2, 5))]
    choices = [[ANY], [NOWHERE], *([Hint(mask, sure)] for mask in masks for sure in (True, False))]
    some = [[*a, *b] for at, a in enumerate(choices) for b in choices[at:]]
    for first in some:
        for second in some[::3]:
            asked = [first, second, [Hint(masks[2], True), ANY]]
            expected = one_by_one(asked, every)
            sure, others = topology_hints.permuted(asked, every, few)
            assert sure == {mask for mask, preferred in expected if preferred}
            if not sure:
                assert others == {mask for mask, preferred in expected if not preferred}


def test_the_sum_of_every_set_of_nodes_is_built_from_its_nodes() -> None:
    sets = NodeSets((4, 1))
    sums = sets.sums({1: 10, 4: 300})
    assert [(mask, sums[index], size) for mask, index, size in sets.all] == [
        (0b10, 10, 1),
        (0b10000, 300, 1),
        (0b10010, 310, 2),
    ]
