"""Unknown names and values of a wrong type in a document that the decoder refused.

The decoder reports only the first, and not the key of a map.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from qoslet.core.api.schema import child, nearest, shown, type_name
from qoslet.core.problem import Problem

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def without_unknown(given: Any, shape: Any, where: str) -> tuple[Any, list[Problem]]:
    """The value without names that ``shape`` lacks, and a problem for each of them."""
    problems: list[Problem] = []
    return _known(given, inspect.type_info(shape), where, "", problems), problems


def unknown(where: str, place: str, of: str, known: tuple[str, ...]) -> Problem:
    """The row of a name that is not read; ``of`` is what lacks it."""
    name = re.split(r"[.\[]", place)[-1].rstrip("]")
    hint = nearest(name, known) or "qoslet does not convert it"
    message = f"is not a field of {of}"
    return Problem("warning", f"{where}: {place}" if where else place, message, hint)


def _known(value: Any, kind: Any, where: str, path: str, problems: list[Problem]) -> Any:
    if isinstance(kind, inspect.UnionType):
        kind = next(
            alternative
            for alternative in kind.types
            if not isinstance(alternative, inspect.NoneType)
        )
    if isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [
            _known(item, kind.item_type, where, f"{path}[{number}]", problems)
            for number, item in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    if isinstance(kind, inspect.DictType):
        return {
            key: _known(item, kind.value_type, where, child(path, str(key)), problems)
            for key, item in value.items()
        }
    if not isinstance(kind, inspect.StructType):
        return value
    fields = {field.encode_name: field.type for field in kind.fields}
    members = {}
    for key, item in value.items():
        place = child(path, str(key))
        if key in fields:
            members[key] = _known(item, fields[key], where, place, problems)
        else:
            of = path or "linux.resources"
            problems.append(unknown(where, place, of, tuple(fields)))
    return members


def complaint(error: msgspec.ValidationError, given: Any, shape: Any) -> tuple[str, str]:
    """The decoder's message for ``given``, and the path of the field with the keys of maps."""
    message, _, path = str(error).partition(" - at `")
    key, separator, within = path.partition("key` in `")
    if separator and not key:
        message, path = "has a key that is not text", within
    value, kind, place = given, inspect.type_info(shape), ""
    for name, index in _STEP.findall(path.rstrip("`")):
        if isinstance(kind, inspect.UnionType):
            kind = next(
                alternative
                for alternative in kind.types
                if not isinstance(alternative, inspect.NoneType)
            )
        if isinstance(kind, inspect.StructType):
            kind = {field.encode_name: field.type for field in kind.fields}.get(name, kind)
            value, place = value.get(name), child(place, name)
        elif isinstance(kind, inspect.ListType):
            kind, value, place = kind.item_type, value[int(index)], f"{place}[{index}]"
        elif isinstance(kind, inspect.DictType):
            key = _culprit(value, kind)
            kind, value, place = kind.value_type, value[key], child(place, str(key))
    return _worded(message, value), place


def _culprit(values: Mapping[Any, Any], kind: inspect.DictType) -> Any:
    """The key of the first value that is none."""
    takes = _TYPES[type(kind.value_type)](kind.value_type)
    for key, value in values.items():
        try:
            msgspec.convert({key: value}, dict[str, takes])  # type: ignore[valid-type]
        except msgspec.ValidationError:
            return key
    return next(iter(values))


_TYPES: dict[type, Any] = {
    inspect.StrType: lambda kind: str,
    inspect.StructType: lambda kind: kind.cls,
}
"""The types of the values of maps."""


def _worded(message: str, value: Any) -> str:
    """``expected `int`, got "NaN"`` instead of ``Expected `int | null`, got `str` ``."""
    text = message[:1].lower() + message[1:].replace(" | null`", "`")
    head, separator, _ = text.partition(", got `")
    return f"{head}, got {literal(value)}" if separator else text


def literal(value: Any) -> str:
    """A value as JSON spells it, bounded in length, or what kind it is."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{shown(value, 40)}"'
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**70):
        return str(value)
    return type_name(value)
