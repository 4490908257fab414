"""Nodes that a required node affinity selects, against the rules that the API documents."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.fleet.node_affinity import node_affinity
from qoslet.errors import BadInput

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LABELS = {"zone": "a", "cores": "16", "empty": "", "odd": "1_6"}


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": [*values]} if values else {})}


def selects(*terms: dict[str, Any]) -> bool:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}
    found = node_affinity(affinity, "Pod d/p")
    assert found is not None
    return found.selects("n-1", LABELS)


@pytest.mark.parametrize(
    ("wanted", "one"),
    [
        (True, rule("zone", "In", "a", "b")),
        (False, rule("zone", "In", "b")),
        (False, rule("lacks", "In", "")),
        (True, rule("empty", "In", "")),
        (False, rule("zone", "NotIn", "a")),
        (True, rule("zone", "NotIn", "b")),
        (True, rule("lacks", "NotIn", "b")),
        (True, rule("empty", "Exists")),
        (False, rule("lacks", "Exists")),
        (True, rule("lacks", "DoesNotExist")),
        (False, rule("empty", "DoesNotExist")),
        (True, rule("cores", "Gt", "8")),
        (False, rule("cores", "Gt", "16")),
        (True, rule("cores", "Lt", "17")),
        (False, rule("zone", "Gt", "8")),
        (False, rule("lacks", "Lt", "8")),
        (False, rule("cores", "Gt", "8", "9")),
        (False, rule("cores", "Gt", "x")),
        (False, rule("odd", "Gt", "1")),
    ],
)
def test_a_rule_holds_as_the_api_says(wanted: bool, one: dict[str, Any]) -> None:
    assert selects({"matchExpressions": [one]}) == wanted


@pytest.mark.parametrize(
    ("wanted", "terms"),
    [
        (False, []),
        (False, [{}]),
        (False, [{"matchExpressions": [], "matchFields": None}]),
        (True, [{}, {"matchExpressions": [rule("zone", "Exists")]}]),
        (False, [{"matchExpressions": [rule("zone", "Exists"), rule("cores", "Lt", "8")]}]),
        (True, [{"matchFields": [rule("metadata.name", "In", "n-1")]}]),
        (False, [{"matchFields": [rule("metadata.name", "NotIn", "n-1")]}]),
        (
            False,
            [
                {
                    "matchFields": [rule("metadata.name", "In", "n-1")],
                    "matchExpressions": [rule("zone", "In", "b")],
                }
            ],
        ),
    ],
)
def test_terms_are_alternatives_and_an_empty_one_selects_nothing(
    wanted: bool, terms: list[dict[str, Any]]
) -> None:
    assert selects(*terms) == wanted


@pytest.mark.parametrize(
    "affinity",
    [
        None,
        {},
        {"nodeAffinity": None},
        {"nodeAffinity": {REQUIRED: None}},
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
        {"podAffinity": {REQUIRED: [{}]}},
    ],
)
def test_what_requires_no_node_is_none(affinity: Any) -> None:
    assert node_affinity(affinity, "Pod d/p") is None


@pytest.mark.parametrize(
    "affinity",
    [
        "x",
        {"nodeAffinity": []},
        {"nodeAffinity": {REQUIRED: {}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {}}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a"}]}]}}},
        {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [rule("a", "Is")]}]}
            }
        },
    ],
)
def test_what_is_none_is_bad_input(affinity: Any) -> None:
    with pytest.raises(BadInput, match=r"Pod d/p: spec\.affinity: cannot be read"):
        node_affinity(affinity, "Pod d/p")
