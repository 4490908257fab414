"""The state files and messages of an earlier version (``data/state-0f4d162``), and what they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from tests import paths

DATA = paths.DATA / "state-0f4d162"
BOOT = "176d186d-970f-4d63-970f-3af07906e800"
Tell = Callable[[str, object], None]


def lost(before: Any, after: Any, at: str = "") -> list[str]:
    """What of a JSON document is not in another."""
    if isinstance(before, dict) and isinstance(after, dict):
        rows = [f"{at}.{key}" for key in before.keys() - after.keys()]
        return rows + [
            row
            for key in before.keys() & after.keys()
            for row in lost(before[key], after[key], f"{at}.{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        if at.endswith(".capabilities"):
            before, after = sorted(before), sorted(after)
        return [
            row
            for number, (one, other) in enumerate(zip(before, after, strict=True))
            for row in lost(one, other, f"{at}[{number}]")
        ]
    return [] if before == after else [f"{at}: {before!r} before, {after!r} now"]


def values(document: Any) -> int:
    """How many plain values a document has."""
    if isinstance(document, dict):
        return sum(map(values, document.values()))
    return sum(map(values, document)) if isinstance(document, list) else 1


def same_again(text: bytes, made: Any) -> int:
    """How many values of a document were read, all of which are written again."""
    before = json.loads(text)
    assert lost(before, json.loads(msgspec.json.encode(made))) == []
    return values(before)
