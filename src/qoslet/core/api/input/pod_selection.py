"""Which pods of the input a user chose, by namespace and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoslet.core.api.schema import Metadata, PodShape, shown
from qoslet.core.problem import Problem
from qoslet.errors import BadInput, BadInputs

if TYPE_CHECKING:
    from qoslet.core.api.input.label_selector import Selector

NAMED_MAX = 5
"""Nodes and namespaces that one message names."""


def _parsed(text: str) -> Selector:
    from qoslet.core.api.input.label_selector import label_selector

    try:
        return label_selector(text)
    except BadInput as fault:
        raise BadInputs([fault]) from None


class Selection:
    """A user's choice at work; None: everything. ``namespace`` leaves out the pods of others;
    ``selector`` (the text of ``-l``) is matched by the labels of a pod, or of a pod template. Raises
    BadInputs for a broken selector."""

    def __init__(self, namespace: str | None, selector: str | None) -> None:
        self._namespace = namespace
        self._selector = _parsed(selector) if selector is not None else None
        self._chosen = self._others = 0
        self._namespaces: set[str] = set()

    def takes(self, owner: Metadata | None, shape: PodShape) -> bool:
        """Whether a pod, or the template of ``owner``, is chosen."""
        namespace = (owner.namespace if owner is not None else None) or "default"
        self._namespaces.add(shown(namespace, 63))
        chosen = self._namespace in (None, namespace) and (
            self._selector is None
            or self._selector.matches((shape.metadata and shape.metadata.labels) or {})
        )
        self._chosen += chosen
        self._others += not chosen
        return chosen

    @property
    def _options(self) -> str:
        """As they were given."""
        parts = [f"-n {shown(self._namespace, 63)}"] if self._namespace is not None else []
        parts += [f"-l {shown(self._selector.text, 60)}"] if self._selector is not None else []
        return " ".join(parts)

    def rows(self) -> list[Problem]:
        """What a reader should know about it."""
        if not self._others:
            return []
        one = self._others == 1
        message = (
            f"{self._others} {'pod' if one else 'pods'} left out: not chosen by {self._options}"
        )
        return [Problem("info", "pods", message, "")]

    def fault(self) -> BadInput | None:
        """The fault of a choice that none of the pods meets."""
        if self._chosen or not self._others:
            return None
        if self._namespace is not None and self._namespace not in self._namespaces:
            message = f"the input has no pod in namespace {shown(self._namespace, 63)}"
            return BadInput(message, where="-n", hint=f"namespaces: {_named(self._namespaces)}")
        message = f"no pod of the input is chosen by {self._options}"
        hint = "labels are those of the pod, or of the pod template"
        return BadInput(message, where="-l", hint=hint)


def several_nodes(nodes: Mapping[str, int]) -> Problem:
    """The row of pods that are on several nodes, and are planned on one that nobody named."""
    message = f"the pods are on {len(nodes)} nodes ({_counted(nodes)}) and are planned as if on one"
    hint = "choose one with --node-name, or describe it with --node"
    return Problem("warning", "pods: spec.nodeName", message, hint)


def _named(names: set[str]) -> str:
    more = len(names) - NAMED_MAX
    some = sorted(names)[:NAMED_MAX]
    return ", ".join([*some, *([f"{more} more"] if more > 0 else [])])


def _counted(nodes: Mapping[str, int]) -> str:
    """``n-a: 12, n-b: 3``: most pods first."""
    ranked: Sequence[tuple[str, int]] = sorted(nodes.items(), key=lambda one: (-one[1], one[0]))
    more = len(ranked) - NAMED_MAX
    some = [f"{shown(name, 63)}: {count}" for name, count in ranked[:NAMED_MAX]]
    return ", ".join([*some, *([f"{more} more"] if more > 0 else [])])
