"""The Static memory manager policy: the NUMA nodes of containers' memory.

Memory and hugepages of Guaranteed pods are reserved on the fewest NUMA nodes with enough free. A
node is used either alone or in one fixed group of nodes. ``reservedMemory`` is never assigned.
Source: kubelet pkg/kubelet/cm/memorymanager policy_static.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from msgspec import Struct

from qoslet.core.managers.cpu_manager import CpuRefusal, Holder
from qoslet.core.managers.topology_hints import Hint, NodeSets, bits, narrower, numbers
from qoslet.core.node.topology import Topology
from qoslet.core.quantity import binary
from qoslet.core.rules.catalog import rule

POLICY = "kubelet pkg/kubelet/cm/memorymanager/policy_static.go"

Sizes = Mapping[str, int]
"""Resource (``memory``, ``hugepages-2Mi``) to bytes."""


@rule("cpuset.mems", POLICY)
def _mems(nodes: str, asked: int, groups: int) -> str:
    alone = "one NUMA node" if groups == 1 else f"a group of {groups} NUMA nodes"
    return f"Static policy, Guaranteed, memory {asked} -> {alone}: {nodes}"


class Table(Struct, rename="camel"):
    """One resource on one NUMA node, in bytes; the kubelet's MemoryTable, stored as such."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


class NumaNodeState(Struct, rename={"assignments": "numberOfAssignments", "tables": "memoryMap"}):
    """One NUMA node: the number of its reservations, its tables by resource, and the nodes of its
    group (``cells``); the kubelet's NUMANodeState."""

    assignments: int
    tables: dict[str, Table]
    cells: tuple[int, ...]


class MemoryBlock(Struct, frozen=True, rename={"nodes": "numaAffinity", "resource": "type"}):
    """A container's reservation: bytes of a resource on a group of nodes."""

    nodes: tuple[int, ...]
    resource: str
    size: int


def page_name(size: int) -> str:
    """The resource of a hugepage size in bytes."""
    return f"hugepages-{binary(size)}"


def node_states(topology: Topology, reserved: Mapping[int, Sizes]) -> dict[int, NumaNodeState]:
    """The NUMA nodes of a machine without reservations."""
    states = {}
    for node in topology.nodes:
        reserved_bytes = reserved.get(node.id, {})
        tables = {}
        for size, total in node.hugepages.items():
            name = page_name(size)
            tables[name] = _table(total, reserved_bytes.get(name, 0), 0)
        pages = sum(node.hugepages.values())
        tables["memory"] = _table(node.memory, reserved_bytes.get("memory", 0), pages)
        states[node.id] = NumaNodeState(0, dict(sorted(tables.items())), (node.id,))
    return states


def _table(total: int, reserved: int, other: int) -> Table:
    free = max(total - reserved - other, 0)
    return Table(total, reserved, free, 0, free)


class Reusable:
    """Memory of a pod's init containers that later containers reuse, by group of nodes."""

    def __init__(self) -> None:
        self._bytes: dict[tuple[tuple[int, ...], str], int] = {}

    def of(self, nodes: tuple[int, ...], resource: str) -> int:
        """Bytes that can be reused."""
        return self._bytes.get((nodes, resource), 0)

    def by_set(self, resource: str) -> dict[int, int]:
        """Bytes that can be reused by set of nodes."""
        return {
            bits(nodes): size for (nodes, name), size in self._bytes.items() if name == resource
        }

    def note(self, blocks: Sequence[MemoryBlock], init: bool) -> None:
        """Record the blocks of a container: those of an init container can be reused, those of
        others use them up."""
        for block in blocks:
            key = block.nodes, block.resource
            have = self._bytes.get(key, 0)
            self._bytes[key] = max(have, block.size) if init else max(have - block.size, 0)


class MemoryManager:
    """The memory reservations of containers on NUMA nodes."""

    def __init__(self, topology: Topology, reserved: Mapping[int, Sizes]) -> None:
        self._machine = topology, reserved
        self.nodes = node_states(topology, reserved)
        self._sets = NodeSets(self.nodes)
        self._blocks: dict[str, dict[str, tuple[MemoryBlock, ...]]] = {}

    def knows(self, resource: str) -> bool:
        """Whether the amounts of a resource by NUMA node are known."""
        return any(resource in state.tables for state in self.nodes.values())

    def of(self, uid: str) -> Mapping[str, tuple[MemoryBlock, ...]]:
        """The blocks of a pod's containers, by name."""
        return self._blocks.get(uid, {})

    def kept(self) -> dict[Holder, tuple[MemoryBlock, ...]]:
        """The blocks of every container."""
        return {
            (uid, name): blocks
            for uid, containers in self._blocks.items()
            for name, blocks in containers.items()
        }

    def restore(self, kept: Mapping[Holder, tuple[MemoryBlock, ...]]) -> None:
        """Replace all reservations by those of an earlier run. Raises KeyError for a node or
        resource that the machine does not have."""
        self.nodes, self._blocks = node_states(*self._machine), {}
        for (uid, name), blocks in kept.items():
            for block in blocks:
                self._reserve(block.nodes, block.resource, block.size)
            self._blocks.setdefault(uid, {})[name] = blocks

    def release(self, uid: str) -> bool:
        """Release the blocks of a pod; whether it had any."""
        released = self._blocks.pop(uid, None)
        for blocks in (released or {}).values():
            for block in blocks:
                self._unreserve(block)
        return released is not None

    def hints(self, asked: Sizes, reuse: Reusable) -> dict[str, list[Hint]]:
        """For each resource the sets of nodes with enough free of all requested resources."""
        fewest, masks = len(self.nodes), []
        room, rows = {name: self._room(name) for name in asked}, []
        for name, size in asked.items():
            most, free = (self._sets.sums(amounts) for amounts in room[name])
            rows.append((size, most, free, reuse.by_set(name)))
        groups = {mask for mask in self._groups() if mask}
        used = bits(node for node, state in self.nodes.items() if state.assignments > 0)
        for mask, index, count in self._sets.all:
            if any(most[index] < size for size, most, _, _ in rows):
                continue
            fewest = min(fewest, count)
            if all(free[index] + again.get(mask, 0) >= size for size, _, free, again in rows) and (
                self._usable(mask, used, groups)
            ):
                masks.append(mask)
        same = [Hint(mask, mask.bit_count() == fewest) for mask in masks]
        return dict.fromkeys(asked, same)

    def _groups(self) -> Iterator[int]:
        """The sets of nodes that are used as groups by every one of their nodes that is used."""
        for cells in {state.cells for state in self.nodes.values() if len(state.cells) > 1}:
            used = [self.nodes[node] for node in cells if self.nodes[node].assignments > 0]
            yield bits(cells) if all(state.cells == cells for state in used) else 0

    def _room(self, name: str) -> tuple[dict[int, int], dict[int, int]]:
        """The allocatable and the free bytes of a resource on each node."""
        tables = {node: state.tables.get(name) for node, state in self.nodes.items()}
        most = {node: table.allocatable if table else 0 for node, table in tables.items()}
        return most, {node: table.free if table else 0 for node, table in tables.items()}

    def _usable(self, mask: int, used: int, groups: Container[int]) -> bool:
        """Whether the nodes are unused, or used as this very group; a single node, too, if it is
        used alone."""
        if mask.bit_count() == 1:
            return len(self.nodes[mask.bit_length() - 1].cells) == 1
        return not mask & used or mask in groups

    def allocate(
        self, holder: Holder, asked: Sizes, hint: Hint, reuse: Reusable, before: Sequence[str] = ()
    ) -> tuple[MemoryBlock, ...] | CpuRefusal:
        """Reserve the requested bytes on the hint's nodes, or on the best nodes if it names none.
        A container that has blocks keeps them. ``before`` are the init containers before it, whose
        blocks shrink by what is reused."""
        uid, name = holder
        if name in self.of(uid):
            return self.of(uid)[name]
        nodes = self._nodes(asked, hint, reuse)
        if isinstance(nodes, CpuRefusal):
            return nodes
        blocks = tuple(MemoryBlock(nodes, name, asked[name]) for name in sorted(asked))
        for block in blocks:
            reused = reuse.of(nodes, block.resource)
            self._reserve(nodes, block.resource, max(block.size - reused, 0))
        self._blocks.setdefault(uid, {})[name] = blocks
        for block in blocks:
            self._taken_again(uid, block, before)
        return blocks

    def _taken_again(self, uid: str, block: MemoryBlock, before: Sequence[str]) -> None:
        """Shrink the blocks of init containers by the reused bytes, so that none count twice."""
        size = block.size
        for init in before:
            blocks = []
            for old in self.of(uid).get(init, ()):
                part = 0
                if (old.resource, old.nodes) == (block.resource, block.nodes):
                    part = min(size, old.size)
                size -= part
                blocks.append(MemoryBlock(old.nodes, old.resource, old.size - part))
            if blocks:
                self._blocks[uid][init] = tuple(blocks)

    def _nodes(self, asked: Sizes, hint: Hint, reuse: Reusable) -> tuple[int, ...] | CpuRefusal:
        mask, preferred = hint.nodes, hint.preferred
        possible = next(iter(self.hints(asked, reuse).values()), [])
        if mask is None:
            if not possible:
                return _no_room(asked)
            best = min(possible, key=_best_first)
            if preferred and not best.preferred:
                return _scattered(asked)
            mask, preferred = best.nodes or 0, best.preferred
        nodes = numbers(mask)
        free = {name: self._room(name)[1] for name in asked}
        if any(sum(free[name][node] for node in nodes) < size for name, size in asked.items()):
            wider = [
                candidate
                for candidate in possible
                if candidate.nodes is not None and mask & ~candidate.nodes == 0
            ]
            if not wider:
                return _no_room(asked)
            best = min(wider, key=_best_first)
            if preferred and not best.preferred:
                return _scattered(asked)
            nodes = numbers(best.nodes or 0)
        used = bits(node for node, state in self.nodes.items() if state.assignments > 0)
        if len(nodes) > 1 and not self._usable(bits(nodes), used, set(self._groups())):
            return _mixed(nodes)
        return nodes

    def _reserve(self, nodes: tuple[int, ...], name: str, size: int) -> None:
        for node in nodes:
            state = self.nodes[node]
            state.assignments += 1
            state.cells = nodes
            table = state.tables[name]
            part = min(size, table.free)
            table.reserved += part
            table.free -= part
            size -= part

    def _unreserve(self, block: MemoryBlock) -> None:
        size = block.size
        for node in block.nodes:
            state = self.nodes[node]
            state.assignments -= 1
            if state.assignments == 0:
                state.cells = (node,)
            table = state.tables[block.resource]
            part = min(size, table.reserved)
            table.reserved -= part
            table.free += part
            size -= part


def _best_first(hint: Hint) -> tuple[bool, tuple[int, int]]:
    return not hint.preferred, narrower(hint.nodes or 0)


def _sizes_text(asked: Sizes) -> str:
    return ", ".join(f"{size} bytes of {name}" for name, size in sorted(asked.items()))


def _no_room(asked: Sizes) -> CpuRefusal:
    return CpuRefusal(
        "UnexpectedAdmissionError",
        f"no NUMA nodes have room for {_sizes_text(asked)}",
        "request less, reserve less, or move pods",
    )


def _scattered(asked: Sizes) -> CpuRefusal:
    return CpuRefusal(
        "UnexpectedAdmissionError",
        f"{_sizes_text(asked)} would fit on the fewest NUMA nodes, but they are in use",
        "request less, or move pods",
    )


def _mixed(nodes: tuple[int, ...]) -> CpuRefusal:
    return CpuRefusal(
        "UnexpectedAdmissionError",
        f"NUMA nodes {','.join(map(str, nodes))} are in use, alone or in another group",
        "request less, or move pods",
    )
