"""What was read of a cluster: its nodes, and on each of them how many pods of which shape."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.api.schema import shown
from qoslet.core.fleet.outcome import ShapeGroup
from qoslet.core.fleet.problems import ProblemTable
from qoslet.core.fleet.read import ENDED, NodeRow, Rows
from qoslet.core.fleet.shapes import Member, Shapes
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem, ProblemCode


class BundledNode(Struct, frozen=True):
    """A node that came with its own configuration, on each side, or why there is none."""

    row: NodeRow
    nodes: tuple[Node, ...]
    problems: tuple[Problem, ...]


class Cluster:
    """Filled batch by batch, in the order of the input, and then finished. ``exact`` keeps every pod,
    where pods of a node depend on each other."""

    def __init__(self, exact: bool = False) -> None:
        self._exact = exact
        self.shapes = Shapes()
        self.nodes: dict[str, NodeRow] = {}
        self.bundled: dict[str, BundledNode] = {}
        self.problems = ProblemTable()
        self.pods = 0
        self.unscheduled = 0
        self.ended = 0
        self.skipped: dict[str, int] = {}
        self.used: set[int] = set()
        """The shapes that pods have; those of pods that come twice are known, too."""
        self._groups: dict[str, dict[int, ShapeGroup]] = {}
        self._seen: set[int] = set()
        self._numbers: dict[tuple[int, int], int] = {}

    def add(self, rows: Rows, reader: int = 0) -> None:
        """What a batch holds, as the reader of that number read it."""
        numbers = self._numbers
        for own, key, shape in rows.new:
            numbers[reader, own] = self.shapes.number(key, shape)
        for problem in rows.problems:
            self.problems.add(problem)
        for kind, count in rows.skipped.items():
            self.skipped[kind] = self.skipped.get(kind, 0) + count
        for machine in rows.machines:
            self._node(machine)
        columns = zip(rows.keys, rows.uids, rows.nodes, rows.shapes, strict=True)
        for key, uid, node, own in columns:
            if not self._is_new(key, rows.file):
                continue
            if own == ENDED:
                self.ended += 1
            else:
                self._place(node, numbers[reader, own], key, uid, rows.file)

    def add_bundle(self, bundle: BundledNode, pods: Iterable[Pod]) -> None:
        """A node with its pods."""
        if not self._node(bundle.row):
            return
        self.bundled[bundle.row.name] = bundle
        for number, one in self.shapes.add_all(pods):
            if self._is_new(f"{bundle.row.name}\0{one.key}", one.file):
                self._place(bundle.row.name, number, one.key, one.uid, one.file, exact=True)

    def finish(self) -> None:
        """Forget what only adding needs: as much as all else, with many pods."""
        self._seen.clear()
        self._numbers.clear()

    def groups(self, node: str) -> list[ShapeGroup]:
        """The pods of a node, in the order in which they came."""
        return list(self._groups.get(node, {}).values())

    def homeless(self) -> dict[str, int]:
        """Nodes of pods that the input does not hold, with the number of their pods."""
        return {
            name: sum(one.count for one in groups.values())
            for name, groups in self._groups.items()
            if name not in self.nodes
        }

    def _node(self, row: NodeRow) -> bool:
        known = self.nodes.get(row.name)
        if known is None:
            self.nodes[row.name] = row
            return True
        message = "occurs twice in the input"
        problem = Problem("error", row.where, message, "the first is taken", ProblemCode.UNREAD)
        self.problems.add(problem, row.name)
        return False

    def _is_new(self, key: str, file: str) -> bool:
        """Whether a pod comes for the first time; else a row says that it does not."""
        count = len(self._seen)
        self._seen.add(hash(key))
        if len(self._seen) > count:
            return True
        where = f"{file}: Pod {shown(key.rpartition(chr(0))[2])}"
        message = "occurs twice in the input"
        self.problems.add(
            Problem("error", where, message, "the first is taken", ProblemCode.UNREAD)
        )
        return False

    def _place(
        self, node: str, shape: int, key: str, uid: str, file: str, exact: bool = False
    ) -> None:
        self.pods += 1
        if not node:
            self.unscheduled += 1
            self.used.add(shape)
            return
        groups = self._groups.get(node)
        if groups is None:
            groups = self._groups[node] = {}
        number = self.pods if self._exact or exact else shape
        found = groups.get(number)
        if found is None:
            self.used.add(shape)
            groups[number] = ShapeGroup(shape, 1, Member(self.pods, key, uid, file))
        else:
            found.count += 1
