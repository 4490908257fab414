"""Nodes with the static policies, and pods for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoslet.core.api.pod import Container, Pod, Resources, Role
from qoslet.core.managers.container_manager import Managers, managers_of
from qoslet.core.node.node import HostFacts, Kubelet, Node
from qoslet.core.node.topology import Layout, NumaNode
from qoslet.core.quantity import from_int, parse
from qoslet.core.resources.node_policy import node_policy
from qoslet.core.versions.kubernetes import resolve

CPU_STATE, MEMORY_STATE = "cpu_manager_state", "memory_manager_state"


def gib(count: int) -> int:
    """Bytes."""
    return count << 30


def node_of(
    *,
    cpus: str = "0-7",
    numa: tuple[str, ...] = ("0-3", "4-7"),
    sizes: tuple[int, ...] = (4 << 30, 4 << 30),
    layout: Layout | None = None,
    memory: bool = False,
    release: str = "1.36",
    **kubelet: Any,
) -> Node:
    """A node of two NUMA nodes with four CPUs and 4 GiB each unless told otherwise; with
    ``memory`` half a gibibyte of each is reserved."""
    kubelet.setdefault("reserved_system_cpus", "0")
    if memory:
        held = {"memory": parse("512Mi")}
        kubelet.setdefault("memory_manager_policy", "Static")
        kubelet.setdefault("reserved_memory", dict.fromkeys(range(len(numa)), held))
    count = 1 + max(int(part) for part in cpus.replace("-", ",").split(","))
    return Node(
        name="n",
        capacity={"cpu": from_int(count), "memory": from_int(sum(sizes), "BinarySI")},
        swap=0,
        host=HostFacts(
            cpus=cpus,
            layout=layout,
            numa=tuple(
                NumaNode(text, size, at)
                for at, (text, size) in enumerate(zip(numa, sizes, strict=True))
            ),
        ),
        kubelet=Kubelet(cpu_manager_policy="static", **kubelet),
        profile=resolve(release),
    )


def managers(**given: Any) -> Managers:
    """The managers of such a node."""
    found = managers_of(node_policy(node_of(**given)))
    assert found is not None
    return found


def container(
    name: str,
    cpu: str,
    memory: int,
    role: Role = "regular",
    pages: Mapping[str, int] | None = None,
) -> Container:
    """A container whose requests are its limits; ``pages`` are hugepages by size, in bytes."""
    amounts = {"cpu": parse(cpu), "memory": from_int(memory, "BinarySI")}
    amounts |= {
        f"hugepages-{size}": from_int(many, "BinarySI") for size, many in (pages or {}).items()
    }
    return Container(name, role, "spec", Resources(amounts, amounts))


def pod(uid: str, cpu: str, memory: int, *more: Container) -> Pod:
    """A pod of one container, ``more`` before it."""
    return Pod("default", uid, uid, f"{uid}.yaml", (*more, container("c", cpu, memory)))
