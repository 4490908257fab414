"""Keys that occur twice in JSON.

Source: Kubernetes fieldValidation Strict, the default of kubectl, which refuses duplicate fields.
"""

from __future__ import annotations

import pytest

from qoslet.core.api.documents import WRITTEN_MAX, Document, json_documents
from qoslet.errors import BadInput

NESTED = '{"spec": {"containers": [{"limits": {"memory": "1Mi", "memory": "2Mi"}}]}}'


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        ('{"apiVersion": "v1", "kind": "Pod", "kind": "Pod"}', "f.json", "kind"),
        (NESTED, "f.json: spec.containers[0].limits", "memory"),
        (r'{"a": "\"\u0022", "b": ":\"", "b": ""}', "f.json", "b"),
        ('{"a": 1}\n{"b": [0, {"c": 1, "c": 1}]}', "f.json: document 2: b[1]", "c"),
    ],
)
def test_a_key_that_occurs_twice_is_a_fault_as_in_yaml(text: str, place: str, key: str) -> None:
    found = [one for one in json_documents(text.encode(), "f.json") if isinstance(one, BadInput)]
    assert [(one.where, one.message) for one in found] == [(place, f"the key {key!r} occurs twice")]


def test_documents_that_only_programs_write_are_not_searched_for_such_keys() -> None:
    text = '{"a": 1, "a": 2, "b": "' + "x" * WRITTEN_MAX + '"}'
    (found,) = json_documents(text.encode(), "f.json")
    assert isinstance(found, Document)


@pytest.mark.parametrize(
    "text", ['{"a": "\\u0022b\\u0022", "c": {"a": 1}}', '{"a": "\\"a\\":", "b": 1e3}']
)
def test_quotes_in_texts_are_no_keys(text: str) -> None:
    (found,) = json_documents(text.encode(), "f.json")
    assert isinstance(found, Document)
