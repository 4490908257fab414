"""The Static memory manager policy: on which NUMA nodes the memory of a container lies.

Memory and hugepages of Guaranteed pods are reserved node by node: on the fewest nodes that have
room, a node being used either alone or in one fixed group. ``reservedMemory`` is never given.
Source: kubelet pkg/kubelet/cm/memorymanager policy_static.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from qoslet.core.managers.cpu_manager import Holder, Refusal
from qoslet.core.managers.topology_hints import Hint, narrower, numbers, sets_of
from qoslet.core.node.topology import Topology
from qoslet.core.quantity import canonical, from_int
from qoslet.core.rules.catalog import rule

POLICY = "kubelet pkg/kubelet/cm/memorymanager/policy_static.go"

Sizes = Mapping[str, int]
"""Resource (``memory``, ``hugepages-2Mi``) to bytes."""


@rule("cpuset.mems", POLICY)
def _mems(nodes: str, asked: int, groups: int) -> str:
    alone = "one NUMA node" if groups == 1 else f"a group of {groups} NUMA nodes"
    return f"Static policy, Guaranteed, memory {asked} -> {alone}: {nodes}"


class Table(Struct):
    """The books of one resource on one node, in bytes."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


class NodeBooks(Struct):
    """One NUMA node: how many reservations it has, the group it is used in, its tables."""

    assignments: int
    tables: dict[str, Table]
    cells: tuple[int, ...]


class Block(Struct, frozen=True):
    """What a container has reserved: bytes of a resource on a group of nodes."""

    nodes: tuple[int, ...]
    resource: str
    size: int


def page_name(size: int) -> str:
    """The resource of a hugepage size in bytes."""
    return f"hugepages-{canonical(from_int(size, 'BinarySI'))}"


def books_of(topology: Topology, reserved: Mapping[int, Sizes]) -> dict[int, NodeBooks]:
    """The books of a machine on which nothing is handed out yet."""
    found = {}
    for node in topology.nodes:
        held = reserved.get(node.id, {})
        tables = {}
        for size, total in node.hugepages.items():
            name = page_name(size)
            tables[name] = _table(total, held.get(name, 0), 0)
        pages = sum(node.hugepages.values())
        tables["memory"] = _table(node.memory, held.get("memory", 0), pages)
        found[node.id] = NodeBooks(0, tables, (node.id,))
    return found


def _table(total: int, held: int, other: int) -> Table:
    left = max(total - held - other, 0)
    return Table(total, held, left, 0, left)


class Reusable:
    """Memory of a pod's init containers that those after them take again, by group of nodes."""

    def __init__(self) -> None:
        self._bytes: dict[tuple[tuple[int, ...], str], int] = {}

    def of(self, nodes: tuple[int, ...], resource: str) -> int:
        """Bytes that can be taken again."""
        return self._bytes.get((nodes, resource), 0)

    def note(self, blocks: Sequence[Block], init: bool) -> None:
        """A container got ``blocks``; an init container leaves them, any other uses them up."""
        for block in blocks:
            key = block.nodes, block.resource
            have = self._bytes.get(key, 0)
            self._bytes[key] = max(have, block.size) if init else max(have - block.size, 0)


class MemoryManager:
    """Who has memory on which NUMA nodes."""

    def __init__(self, topology: Topology, reserved: Mapping[int, Sizes]) -> None:
        self._machine = topology, reserved
        self.books = books_of(topology, reserved)
        self._sets = [(mask, numbers(mask)) for mask in sets_of(sorted(self.books))]
        self._blocks: dict[str, dict[str, tuple[Block, ...]]] = {}

    def knows(self, resource: str) -> bool:
        """Whether a resource lies on nodes: memory, and hugepages that are told by node."""
        return any(resource in books.tables for books in self.books.values())

    def of(self, uid: str) -> Mapping[str, tuple[Block, ...]]:
        """What the containers of a pod have, by name."""
        return self._blocks.get(uid, {})

    def kept(self) -> dict[Holder, tuple[Block, ...]]:
        """What every container has."""
        return {(uid, name): own for uid, all in self._blocks.items() for name, own in all.items()}

    def restore(self, kept: Mapping[Holder, tuple[Block, ...]]) -> None:
        """Take up what an earlier run handed out, in place of what is. Raises KeyError for a
        node or a resource that the machine does not have."""
        self.books, self._blocks = books_of(*self._machine), {}
        for (uid, name), own in kept.items():
            for block in own:
                self._book(block.nodes, block.resource, block.size)
            self._blocks.setdefault(uid, {})[name] = own

    def release(self, uid: str) -> bool:
        """Give back what the containers of a pod had; whether there was anything."""
        gone = self._blocks.pop(uid, None)
        for own in (gone or {}).values():
            for block in own:
                self._unbook(block)
        return gone is not None

    def hints(self, asked: Sizes, reuse: Reusable) -> dict[str, list[Hint]]:
        """For each resource the sets of nodes that have room for all that is asked."""
        least, found = len(self.books), []
        room = [self._room(name) for name in asked]
        wanted = list(asked.items())
        for mask, nodes in self._sets:
            for (_, size), (most, _) in zip(wanted, room, strict=True):
                if sum([most[node] for node in nodes]) < size:
                    break
            else:
                least = min(least, len(nodes))
                if self._usable(nodes) and all(
                    sum([free[node] for node in nodes]) + reuse.of(nodes, name) >= size
                    for (name, size), (_, free) in zip(wanted, room, strict=True)
                ):
                    found.append(mask)
        same = [Hint(mask, mask.bit_count() == least) for mask in found]
        return dict.fromkeys(asked, same)

    def _room(self, name: str) -> tuple[dict[int, int], dict[int, int]]:
        """What of a resource could ever be handed out on each node, and what is free."""
        tables = {node: books.tables.get(name) for node, books in self.books.items()}
        most = {node: table.allocatable if table else 0 for node, table in tables.items()}
        return most, {node: table.free if table else 0 for node, table in tables.items()}

    def _usable(self, nodes: tuple[int, ...]) -> bool:
        """A node serves alone or in one group, never both."""
        if len(nodes) == 1:
            return len(self.books[nodes[0]].cells) == 1
        used = [self.books[node] for node in nodes if self.books[node].assignments > 0]
        return all(len(books.cells) > 1 and books.cells == nodes for books in used)

    def allocate(
        self,
        holder: Holder,
        asked: Sizes,
        hint: Hint,
        reuse: Reusable,
        before: Sequence[str] = (),
    ) -> tuple[Block, ...] | Refusal:
        """Reserve what a container asks for on the hint's nodes, or on the best that there are
        if it names none; what it has is kept. ``before`` are the init containers before it,
        whose blocks shrink by what is taken again."""
        uid, name = holder
        if name in self.of(uid):
            return self.of(uid)[name]
        nodes = self._nodes(asked, hint, reuse)
        if isinstance(nodes, Refusal):
            return nodes
        found = tuple(Block(nodes, name, asked[name]) for name in sorted(asked))
        for block in found:
            again = reuse.of(nodes, block.resource)
            self._book(nodes, block.resource, max(block.size - again, 0))
        self._blocks.setdefault(uid, {})[name] = found
        for block in found:
            self._taken_again(uid, block, before)
        return found

    def _taken_again(self, uid: str, block: Block, before: Sequence[str]) -> None:
        """Count memory once: the sum of a pod's blocks is what it has."""
        size = block.size
        for init in before:
            own = []
            for old in self.of(uid).get(init, ()):
                part = 0
                if (old.resource, old.nodes) == (block.resource, block.nodes):
                    part = min(size, old.size)
                size -= part
                own.append(Block(old.nodes, old.resource, old.size - part))
            if own:
                self._blocks[uid][init] = tuple(own)

    def _nodes(self, asked: Sizes, hint: Hint, reuse: Reusable) -> tuple[int, ...] | Refusal:
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
            wider = [one for one in possible if one.nodes is not None and mask & ~one.nodes == 0]
            if not wider:
                return _no_room(asked)
            best = min(wider, key=_best_first)
            if preferred and not best.preferred:
                return _scattered(asked)
            nodes = numbers(best.nodes or 0)
        if len(nodes) > 1 and not self._usable(nodes):
            return _mixed(nodes)
        return nodes

    def _book(self, nodes: tuple[int, ...], name: str, size: int) -> None:
        for node in nodes:
            books = self.books[node]
            books.assignments += 1
            books.cells = nodes
            table = books.tables[name]
            part = min(size, table.free)
            table.reserved += part
            table.free -= part
            size -= part

    def _unbook(self, block: Block) -> None:
        size = block.size
        for node in block.nodes:
            books = self.books[node]
            books.assignments -= 1
            if books.assignments == 0:
                books.cells = (node,)
            table = books.tables[block.resource]
            part = min(size, table.reserved)
            table.reserved -= part
            table.free += part
            size -= part


def _best_first(hint: Hint) -> tuple[bool, tuple[int, int]]:
    return not hint.preferred, narrower(hint.nodes or 0)


def _said(asked: Sizes) -> str:
    return ", ".join(f"{size} bytes of {name}" for name, size in sorted(asked.items()))


def _no_room(asked: Sizes) -> Refusal:
    return Refusal(
        "UnexpectedAdmissionError",
        f"no NUMA nodes have room for {_said(asked)}",
        "request less, reserve less, or move pods",
    )


def _scattered(asked: Sizes) -> Refusal:
    return Refusal(
        "UnexpectedAdmissionError",
        f"{_said(asked)} would fit on the fewest NUMA nodes, but they are in use",
        "request less, or move pods",
    )


def _mixed(nodes: tuple[int, ...]) -> Refusal:
    return Refusal(
        "UnexpectedAdmissionError",
        f"NUMA nodes {','.join(map(str, nodes))} are in use, alone or in another group",
        "request less, or move pods",
    )
