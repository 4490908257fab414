"""A figure is a measurement beside its floor, taken in the same run; their ratio is what counts.

A machine's mood changes from second to second, so both sides are run in turns and their medians
compared: what slows one slows the other.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """``ours`` and ``floor`` in ``unit``; ``bound`` is the ratio to keep (the value, if there is
    no floor), None where the figure only informs."""

    name: str
    unit: str
    ours: float
    floor: float | None
    floor_name: str
    bound: float | None

    @property
    def ratio(self) -> float:
        """What is held against the bound."""
        return self.ours if self.floor is None else self.ours / self.floor

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        return self.bound is None or self.ratio <= self.bound


def paired(
    ours: Callable[[], float], floor: Callable[[], float], rounds: int
) -> tuple[float, float]:
    """The medians of both, run in turns after one run of each that is not counted."""
    ours(), floor()
    pairs = [(ours(), floor()) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def show(figures: Iterable[Figure]) -> None:
    """Print figures as a table, or as JSON lines with ``--json`` for the next program."""
    if "--json" in sys.argv:
        for figure in figures:
            print(json.dumps(figure._asdict()), flush=True)
        return
    print(table(figures))


def table(figures: Iterable[Figure]) -> str:
    """The figures as a table of Markdown."""
    rows = [("figure", "qoslet", "floor", "ratio", "at most", "")]
    for figure in figures:
        floor = ""
        if figure.floor is not None:
            floor = f"{figure.floor:.1f} {figure.unit} ({figure.floor_name})"
        ratio = "" if figure.floor is None else f"{figure.ratio:.2f}"
        bound, verdict = "", ""
        if figure.bound is not None:
            unit = f" {figure.unit}" if figure.floor is None else ""
            bound, verdict = f"{figure.bound:g}{unit}", "holds" if figure.holds else "MISSED"
        rows.append((figure.name, f"{figure.ours:.1f} {figure.unit}", floor, ratio, bound, verdict))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
