"""The status of the agents of a cluster for people, a node a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qoslet.core.guest.would_end import WouldEnd
from qoslet.core.problem import plural
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
    sums = plural(held, "value"), plural(found, "finding"), plural(wrong, "error")
    yield f"{plural(len(documents), 'node')}: {sums[0]} held, {', '.join(sums[1:])}"


_WOULD = ("WRITES", "EVICTS", "ENDS")


def dry_run_lines(
    documents: Mapping[str, Mapping[str, Any]], terminal: Terminal, verbose: bool
) -> Iterator[str]:
    """Dry runs by node: how many values would be written, how many pods may be evicted, and of how many
    a container may be ended. ``verbose``: all of them, below their node."""
    width = max([4, *(len(name) for name in documents)]) + 2
    yield terminal.paint(f"{'NODE':{width}}{''.join(f'{one:>9}' for one in _WOULD)}", "bold")
    sums = [0, 0, 0]
    for name, one in documents.items():
        ways = [row["way"] for row in one["ends"]]
        numbers = len(one["commands"]), ways.count("evict"), ways.count("end")
        sums = [total + number for total, number in zip(sums, numbers, strict=True)]
        yield f"{printable(name):{width}}{''.join(f'{number:>9}' for number in numbers)}"
        if verbose:
            yield from (f"  {printable(line)}" for line in one["commands"])
            yield from (f"  # {printable(_end(row))}" for row in one["ends"])
    yield (
        f"{plural(len(documents), 'node')}: {plural(sums[0], 'value')} to write, "
        f"{plural(sums[1], 'pod')} that may be evicted, "
        f"{sums[2]} of which a container may be ended"
    )


def _end(row: Mapping[str, Any]) -> str:
    return str(WouldEnd(row["pod"], row["way"], row["why"] or ""))


def _cells(values: tuple[object, ...]) -> str:
    first, *rest = values
    return f"{first!s:8}" + "".join(f"{one!s:>9}" for one in rest)
