"""Keys that occur twice in an object of JSON: a decoder takes the last one and says nothing.

Source: RFC 8259, 4; kubernetes.io, API concepts, "Field validation": ``Warn`` names duplicates,
``Strict`` refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import loads
from typing import Any

from qoslet.core.api.schema import child
from qoslet.core.problem import Problem

SHOWN = 5
"""Keys of a document that are named."""


class _Repeating(dict[str, Any]):
    """An object with the keys that it has twice."""

    repeated: tuple[str, ...] = ()


def repeated_keys(data: bytes, where: str) -> list[Problem]:
    """A warning for each key that occurs twice in the JSON text of a document."""
    try:
        value = loads(data, object_pairs_hook=_object, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return []
    found: list[Problem] = []
    for path in _paths(value):
        if len(found) == SHOWN:
            break
        hint = "remove one of them; an API server warns or refuses"
        message = "occurs twice in its object: the last one counts"
        found.append(Problem("warning", f"{where}: {path}", message, hint))
    return found


def _object(pairs: list[tuple[str, Any]]) -> _Repeating:
    made = _Repeating(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        made.repeated = tuple(name for name in made if names.count(name) > 1)
    return made


def _paths(value: Any) -> Iterator[str]:
    """The paths of the keys that occur twice, those above first."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, _Repeating):
            yield from (child(path, name) for name in item.repeated)
            waiting += [(child(path, name), member) for name, member in reversed(item.items())]
        elif isinstance(item, list):
            inner = [(f"{path}[{number}]", member) for number, member in enumerate(item)]
            waiting += reversed(inner)
