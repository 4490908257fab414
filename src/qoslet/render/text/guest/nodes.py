"""The status of the agents of a cluster for people, a node a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qoslet.render.terminal import Terminal, printable

_TITLES = ("MODE", "PODS", "HELD", "RESET", "FINDINGS", "ERRORS")


def nodes_lines(documents: Mapping[str, Mapping[str, Any]], terminal: Terminal) -> Iterator[str]:
    """``AgentStatus`` documents by node; the last line sums them up."""
    width = max([4, *(len(name) for name in documents)]) + 2
    yield terminal.paint(f"{'NODE':{width}}{_cells(_TITLES)}", "bold")
    held = found = wrong = 0
    for name, one in documents.items():
        findings = [row for row in one["findings"] if row["severity"] in ("warning", "error")]
        numbers = (len(one["held"]), len(one["contested"]), len(findings), len(one["errors"]))
        cells = _cells((one["mode"], one["pods"], *numbers))
        style = "red" if one["errors"] else "yellow" if findings else ""
        yield terminal.paint(f"{printable(name):{width}}{cells}", style)
        held, found, wrong = held + numbers[0], found + numbers[2], wrong + numbers[3]
    yield f"{len(documents)} nodes: {held} values held, {found} findings, {wrong} errors"


def _cells(values: tuple[object, ...]) -> str:
    first, *rest = values
    return f"{first!s:8}" + "".join(f"{one!s:>9}" for one in rest)
