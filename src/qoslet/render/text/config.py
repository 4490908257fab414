"""The configuration in effect on a node, as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoslet.core.explain.node_config import EffectiveField
    from qoslet.render.terminal import Terminal


WIDEST = 40
"""Columns of the values; a longer one has its source on the next line."""


def table(shown: Sequence[EffectiveField], terminal: Terminal) -> list[str]:
    """A line a field: name, value, where it came from; what the owner gave stands out."""
    from qoslet.render.terminal import printable

    cells = [(row.field, _text(row.value), _source(row)) for row in shown]
    first = max((len(field) for field, _, _ in cells), default=0)
    room = max(terminal.width - first - 4, 20)
    second = min(max((len(value) for _, value, _ in cells), default=0), room // 2, WIDEST)
    lines = []
    for field, value, source in cells:
        default = source.startswith("default")
        text = printable(value)
        name = terminal.paint(f"{field:<{first}}", "dim" if default else "bold")
        origin = terminal.paint(printable(source), "dim")
        if len(text) > second:
            lines += [f"{name}  {text}", f"{'':<{first}}  {'':<{second}}  {origin}"]
        else:
            lines.append(f"{name}  {text:<{second}}  {origin}")
    return lines


def _source(row: EffectiveField) -> str:
    """Where a value came from, or each of its entries where that differs."""
    places: dict[str, list[str]] = {}
    for name, source in row.sources.items():
        places.setdefault(source, []).append(name)
    if len(places) > 1:
        return "; ".join(f"{', '.join(names)}: {place}" for place, names in places.items())
    return next(iter(places), row.source)


def _text(value: object) -> str:
    """A value on one line, as YAML's flow style writes it, without its outer brackets."""
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case dict():
            return ", ".join(f"{key}={_text(entry)}" for key, entry in value.items()) or "-"
        case list():
            return ", ".join(map(_text, value)) or "-"
        case _:
            return str(value) or "-"
