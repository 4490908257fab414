"""What a running kubelet has handed out, as its own checkpoint files tell.

It assigns CPUs and memory in the order in which it admitted pods, which neither ``/pods`` nor an API server has. Of
the files only the assignments count: the kubelet that wrote them has checked them, and a later release adds fields.
Source: kubelet cm/cpumanager/state/checkpoint.go, cm/memorymanager/state/checkpoint.go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from qoslet.core.managers.container_manager import Assignments, managers_of
from qoslet.core.managers.cpu_manager import Holder
from qoslet.core.managers.memory_manager import MemoryBlock
from qoslet.core.managers.state_files import CPU_STATE, MEMORY_STATE
from qoslet.core.node.fields import cpus as cpus_of
from qoslet.core.node.node import Node
from qoslet.core.node.topology import Cpus
from qoslet.core.resources.node_policy import node_policy


class _Cpus(Struct):
    entries: dict[str, dict[str, str]] = {}


class _Memory(Struct):
    entries: dict[str, dict[str, list[MemoryBlock]]] = {}


def told_assignments(files: Mapping[str, bytes]) -> Assignments:
    """The assignments in checkpoint files, by their names; none of a file that cannot be read."""
    cpus: dict[Holder, Cpus] = {}
    memory: dict[Holder, tuple[MemoryBlock, ...]] = {}
    try:
        for uid, texts in msgspec.json.decode(
            files.get(CPU_STATE, b"{}"), type=_Cpus
        ).entries.items():
            cpus |= {(uid, name): frozenset(cpus_of(text) or ()) for name, text in texts.items()}
    except msgspec.DecodeError:
        cpus.clear()
    try:
        told = msgspec.json.decode(files.get(MEMORY_STATE, b"{}"), type=_Memory)
    except msgspec.DecodeError:
        told = _Memory()
    for uid, rows in told.entries.items():
        memory |= {(uid, name): tuple(blocks) for name, blocks in rows.items()}
    return Assignments(cpus, memory)


def fitting(node: Node, told: Assignments) -> Assignments | None:
    """What of ``told`` fits a node: its policies, its CPUs and its NUMA nodes; None where its managers hand out
    nothing, or nothing is told."""
    managers = managers_of(node_policy(node))
    if managers is None or not (told.cpus or told.memory):
        return None
    cpus, memory = told.cpus, told.memory
    if managers.cpu is None or not frozenset[int]().union(*cpus.values()) <= managers.topology.cpus:
        cpus = {}
    try:
        managers.restore(Assignments({}, memory))
    except KeyError:
        memory = {}
    return Assignments(cpus, memory if managers.memory is not None else {})
