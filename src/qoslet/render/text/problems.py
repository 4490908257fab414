"""Problem rows on standard error, for the verbs that write to a machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from qoslet.core.problem import plural
from qoslet.render.terminal import printable, terminal, wrap
from qoslet.render.text.streams import complain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qoslet.core.problem import Problem


def print_problems(problems: Iterable[Problem]) -> None:
    """The problem rows, once, on stderr; the same row of several pods is one line."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for row in problems:
        places.setdefault((row.severity, row.message, row.hint), []).append(row.where)
    for (severity, message, hint), where in places.items():
        advice = f" ({hint})" if hint else ""
        place = f"{place_of(where)}: " if where[0] else ""
        wrapped(f"{severity}: {place}{message}{advice}")


def place_of(where: Sequence[str]) -> str:
    """The first of the places that have the same row, and how many more there are."""
    more = len(where) - 1
    return where[0] + (f" (and {plural(more, 'more place')})" if more else "")


def wrapped(text: str) -> None:
    """A note, broken at words where a terminal would break it anywhere."""
    width = terminal(sys.stderr, os.environ).width
    first, *rest = wrap(printable(text), width - len("qoslet: ") - 2)
    complain("".join([f"qoslet: {first}\n", *(f"  {line}\n" for line in rest)]))
