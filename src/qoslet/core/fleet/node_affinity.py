"""Which nodes the required node affinity of a pod selects.

Source: component-helpers nodeaffinity.go (terms are alternatives; an empty one selects no node).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert

from qoslet.core.api.input.label_selector import Operator, Requirement
from qoslet.errors import BadInput

_OPERATORS: Mapping[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "absent",
    "Gt": "above",
    "Lt": "below",
}


class _Rule(Struct, frozen=True, gc=False):
    """core/v1 NodeSelectorRequirement."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels are as the rule says."""
        return Requirement(self.key, _OPERATORS[self.operator], self.values or ()).holds(labels)


class _Term(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 NodeSelectorTerm; fields are those of the node's metadata, of which there is the name."""

    match_expressions: tuple[_Rule, ...] | None = None
    match_fields: tuple[_Rule, ...] | None = None

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether all of its rules hold."""
        held = [one.holds(labels) for one in self.match_expressions or ()]
        held += [one.holds({"metadata.name": name}) for one in self.match_fields or ()]
        return bool(held) and all(held)


class NodeAffinity(Struct, frozen=True):
    """core/v1 NodeSelector: at least one of its terms selects the node."""

    terms: tuple[_Term, ...]

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the pod may run on the node of that name with these labels."""
        return any(term.selects(name, labels) for term in self.terms)


class _Selector(Struct, rename="camel"):
    node_selector_terms: tuple[_Term, ...]


class _Required(Struct, rename={"selector": "requiredDuringSchedulingIgnoredDuringExecution"}):
    selector: _Selector | None = None


class _Affinity(Struct, rename="camel"):
    node_affinity: _Required | None = None


def node_affinity(affinity: Any, where: str) -> NodeAffinity | None:
    """What ``spec.affinity`` of a pod requires of its node; None: nothing. ``where`` names the pod.
    Raises BadInput."""
    try:
        found = convert(affinity or {}, _Affinity).node_affinity
    except ValidationError as error:
        hint = "nodeSelectorTerms is a list of {matchExpressions: [{key: zone, operator: In, values: [a]}]}"
        raise BadInput(
            f"cannot be read: {error}", where=f"{where}: spec.affinity", hint=hint
        ) from None
    if found is None or found.selector is None:
        return None
    return NodeAffinity(found.selector.node_selector_terms)
