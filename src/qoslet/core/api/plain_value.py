"""JSON text to plain values, with the place of a number that no document may hold."""

from __future__ import annotations

from typing import Any

import msgspec

from qoslet.core.api.documents import TOO_DEEP, Text
from qoslet.core.api.schema import DECODE_ERRORS, child, shown
from qoslet.errors import BadInput


def plain_value(data: Text | str, where: str) -> Any:
    """The value of JSON text that is called ``where`` in messages. Raises BadInput."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise BadInput(TOO_DEEP, where=where) from None
    except msgspec.ValidationError:
        raise _unreadable(data, where) from None
    except DECODE_ERRORS as error:
        raise BadInput(f"broken JSON: {shown(str(error))}", where=where) from None


class _Huge:
    """A number that no decoder keeps."""


def _number(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return _Huge


def _unreadable(data: Text | str, where: str) -> BadInput:
    """The fault of a number that is out of range, at its place."""
    from json import loads

    text = data if isinstance(data, str) else bytes(data)
    hint = "64-bit integers, and floating point below 1.8e308, are read"
    try:
        found = loads(text, parse_int=_number, parse_float=_number)
    except (ValueError, RecursionError):
        return BadInput("holds a number out of range", where=where, hint=hint)
    place = _place(found)
    return BadInput(
        "is a number out of range", where=f"{where}: {place}" if place else where, hint=hint
    )


def _place(value: Any) -> str:
    """The path of the first number out of range."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, one = waiting.pop()
        if one is _Huge:
            return path
        inner: list[tuple[str, Any]] = []
        if isinstance(one, dict):
            inner = [(child(path, key), each) for key, each in one.items()]
        elif isinstance(one, list):
            inner = [(f"{path}[{number}]", each) for number, each in enumerate(one)]
        waiting += reversed(inner)
    return ""
