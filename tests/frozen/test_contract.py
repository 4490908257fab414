"""Flags, metrics, schemas and the library hold what they held: things may come, none may go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frozen import contract

KEPT = contract.kept()


@pytest.mark.parametrize("command", contract.COMMANDS)
def test_flags(command: str) -> None:
    now, wrong = contract.flags(command), []
    for name, was in KEPT["flags"][command].items():
        found = now.get(name) or next(
            (one for one in now.values() if name in one["spellings"]), None
        )
        if found is None:
            wrong.append(f"{name} is gone")
            continue
        lost = {*was["spellings"]} - {*found["spellings"]}
        lost |= {*was["choices"]} - {*found["choices"]} if found["choices"] else set()
        wrong += [f"{name}: {one} is gone" for one in sorted(lost)]
        if found["choices"] and not was["choices"]:
            wrong.append(f"{name} takes no longer everything")
        for part in ("default", "nargs", "repeats"):
            if was[part] != found[part]:
                wrong.append(f"{name}: {part} was {was[part]!r}, now {found[part]!r}")
    assert not wrong, "\n".join(wrong)


def test_metrics() -> None:
    now, was = contract.metrics(), KEPT["metrics"]
    assert {name: now.get(name) for name in was} == was


def test_printed_schemas() -> None:
    assert contract.printed_schemas() == KEPT["printed schemas"]


def test_doctor() -> None:
    now = contract.doctor()
    assert [key for key in KEPT["doctor"]["document"] if key not in now["document"]] == []
    for row in now["findings"]:
        assert [key for key in KEPT["doctor"]["findings"][0] if key not in row] == []


def test_library() -> None:
    now, wrong = contract.library(), []
    for name, parameters in KEPT["library"].items():
        if name not in now:
            wrong.append(f"{name} is gone")
        elif [one for one in now[name] if one in parameters] != parameters:
            wrong.append(f"{name}: {now[name]}")
        else:
            added = [one for one in now[name] if one not in parameters]
            wrong += [f"{name}: {one} has no default" for one in added if one["default"] is None]
    assert not wrong, "\n".join(wrong)


PROSE = frozenset(("description", "title", "$comment", "examples"))
OPEN = frozenset(("enum", "required", "anyOf", "oneOf", "allOf"))
"""Lists to which something may be added."""


def lost(was: Any, now: Any, place: str) -> list[str]:
    """What a schema says no longer."""
    if isinstance(was, dict) and isinstance(now, dict):
        found = []
        for key, value in was.items():
            if key in PROSE and isinstance(value, str | list):
                continue
            if key not in now:
                found.append(f"{place}.{key} is gone")
            elif key in OPEN and isinstance(value, list):
                gone = [one for one in value if not any(not lost(one, new, "") for new in now[key])]
                found += [f"{place}.{key}: {one} is gone" for one in gone]
            else:
                found += lost(value, now[key], f"{place}.{key}")
        return found
    return [] if was == now and type(was) is type(now) else [f"{place}: was {was}, now {now}"]


@pytest.mark.parametrize("name", sorted(KEPT["schemas"]))
def test_schemas(name: str) -> None:
    now = contract.schemas()
    assert name in now
    wrong = lost(KEPT["schemas"][name], now[name], name)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("was", "now", "holds"),
    [
        ({"enum": ["a"]}, {"enum": ["b", "a"]}, True),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, False),
        ({"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "null"}}}, False),
        ({"properties": {"a": {}}}, {"properties": {"a": {}, "b": {}}}, True),
        ({"properties": {"a": {}}}, {"properties": {"b": {}}}, False),
        ({"description": "x"}, {"description": "y"}, True),
        ({"oneOf": [{"type": "null"}]}, {"oneOf": [{"type": "string"}]}, False),
        ({"type": ["string", "null"]}, {"type": ["string"]}, False),
        ({"minimum": 0}, {"minimum": False}, False),
    ],
)
def test_the_comparison_of_schemas_bites(was: Any, now: Any, holds: bool) -> None:
    assert (not lost(was, now, "it")) is holds
