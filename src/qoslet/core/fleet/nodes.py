"""The nodes of a cluster: each with its configuration, equal ones worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Struct, json
from msgspec.structs import replace

from qoslet.core.api.input.label_selector import Selector
from qoslet.core.fleet.read import NodeRow
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import name_fault, node_from
from qoslet.core.problem import Problem
from qoslet.errors import BadInputs

Documents = Sequence[tuple[str, Any]]
"""Decoded documents, each with its place."""


class Configuration(Struct, frozen=True):
    """Documents that configure nodes, those with the labels of ``selector``; None: all."""

    documents: Documents
    selector: Selector | None = None


class FoundNode(Struct, frozen=True):
    """A node with what is to be said of its documents. ``kind`` is the same for equal nodes."""

    node: Node
    kind: int
    problems: tuple[Problem, ...]


class NodeFactory:
    """Nodes of one side: ``flags`` and ``configurations`` over what the input says of each."""

    def __init__(self, flags: Flags, configurations: Sequence[Configuration] = ()) -> None:
        self._flags = replace(flags, probe="never", node_name=None)
        self._configurations = configurations
        self.is_for_all = all(one.selector is None for one in configurations)
        """Whether nodes of one body are equal whatever their labels."""
        self._all = tuple(range(len(configurations)))
        self._known: dict[tuple[bytes, tuple[int, ...]], tuple[FoundNode, str]] = {}

    def of(self, row: NodeRow) -> FoundNode:
        """The node of a row. Raises BadInputs."""
        found, where = self._equal(row)
        if where == row.where and found.node.name == row.name:
            return found
        wrong = name_fault(f"{row.where}: metadata.name", row.name)
        if wrong is not None:
            raise BadInputs([wrong])
        problems = tuple(
            replace(one, where=one.where.replace(where, row.where, 1)) for one in found.problems
        )
        return FoundNode(replace(found.node, name=row.name), found.kind, problems)

    def equal(self, row: NodeRow) -> FoundNode:
        """The first node that is equal to that of a row but for its name. Raises BadInputs."""
        return self._equal(row)[0]

    def _equal(self, row: NodeRow) -> tuple[FoundNode, str]:
        chosen = self._all
        if not self.is_for_all:
            chosen = tuple(
                at
                for at, one in enumerate(self._configurations)
                if one.selector is None or one.selector.matches(row.labels)
            )
        known = self._known.get((row.body, chosen))
        if known is None:
            known = self._known[row.body, chosen] = self._resolve(row, chosen), row.where
        return known

    def _resolve(self, row: NodeRow, chosen: tuple[int, ...]) -> FoundNode:
        given = [one for at in chosen for one in self._configurations[at].documents]
        value = json.decode(row.body)
        own = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": row.name}, **value}
        node, problems = node_from([*given, (row.where, own)], self._flags, _no_machine)
        return FoundNode(node, len(self._known), tuple(problems))


def _no_machine() -> NoReturn:
    raise AssertionError("a fleet's nodes are other machines")
