"""A node's cgroups as lines of ``top``: usage against request, throttle and limit in one bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.problem import plural
from qoslet.render.terminal import Terminal, cut, display_width, pad, printable
from qoslet.render.units import size

if TYPE_CHECKING:
    from qoslet.core.status.node_top import TopRow

_BAR = 16
_BETWEEN = " · "
_LEAST_NAME, _MOST_NAME = 20, 48


class Column(Struct, frozen=True):
    """A column of numbers: its head, its width, its cell, and the terminal's width from which on it is
    shown."""

    title: str
    width: int
    cell: Callable[[TopRow], str]
    least: int = 0


class Layout(Struct, frozen=True):
    """What fits: columns for names, those of numbers, and the bar."""

    name: int
    columns: tuple[Column, ...]
    bar: bool


def _cores(amount: float | None) -> str:
    if amount is None:
        return "-"
    return f"{amount:.2f}" if amount < 100 else f"{amount:.0f}"


def _seconds(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.1f}s"


def _size(amount: int | None) -> str:
    if amount is None:
        return "-"
    text = size(amount)
    return text if display_width(text) <= 8 else size(amount // 1048576 * 1048576)


def _percent(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.0f}%"


def _count(amount: int | None) -> str:
    return "-" if amount is None else str(amount)


COLUMNS: tuple[Column, ...] = (
    Column("CPU", 7, lambda row: _cores(row.cpu)),
    Column("asked", 7, lambda row: _cores(row.cpu_request), 72),
    Column("limit", 7, lambda row: _cores(row.cpu_limit), 72),
    Column("thrott", 7, lambda row: _seconds(row.throttled), 76),
    Column("memory", 9, lambda row: _size(row.memory)),
    Column("asked", 9, lambda row: _size(row.memory_request), 100),
    Column("high", 9, lambda row: _size(row.memory_high), 100),
    Column("limit", 9, lambda row: _size(row.memory_limit), 45),
    Column("PSI", 5, lambda row: _percent(row.pressure), 76),
    Column("OOM", 5, lambda row: _count(row.oom_kills), 76),
)
_WITH_BAR = 118
LEAST_WIDTH = 36
"""So narrow a terminal still shows what each cgroup uses."""


def layout(terminal: Terminal) -> Layout:
    """What fits the terminal."""
    columns = tuple(one for one in COLUMNS if terminal.width >= one.least)
    bar = terminal.width >= _WITH_BAR
    left = terminal.width - sum(one.width for one in columns) - (_BAR + 4 if bar else 0)
    return Layout(max(_LEAST_NAME, min(_MOST_NAME, left)), columns, bar)


def draw(rows: Sequence[TopRow], terminal: Terminal) -> Iterator[str]:
    """A head and a line for each row, as wide as the terminal."""
    fits = layout(terminal)
    yield terminal.paint(head(fits), "bold")
    for row in rows:
        text, style = line(row, terminal, fits), style_of(row)
        yield terminal.paint(text, style) if style else text


def head(fits: Layout) -> str:
    """The titles of the columns."""
    titles = "".join(pad(one.title, one.width, right=True) for one in fits.columns)
    return f"{pad('NAME', fits.name)}{titles}{'  memory of limit' if fits.bar else ''}"


def line(row: TopRow, terminal: Terminal, fits: Layout, mark: str = "") -> str:
    """One cgroup; ``mark`` stands before its name."""
    name = "  " * row.depth + mark + printable(row.title)
    shown = pad(cut(name, fits.name - 1, terminal.mark("…", "~")), fits.name)
    if not row.exists:
        state = pad("ended" if row.has_ended else "absent", 7, right=True)
        room = max(0, terminal.width - fits.name - 9)
        how = cut(printable(row.how_ended), room, terminal.mark("…", "~"))
        return f"{shown}{state}  {how}".rstrip()
    text = shown + "".join(pad(one.cell(row), one.width, right=True) for one in fits.columns)
    return f"{text}  {memory_bar(row, _BAR, terminal)}" if fits.bar else text


def style_of(row: TopRow) -> str:
    """How a row that is near its limit looks; empty for others."""
    if not row.exists:
        return "dim"
    if (row.memory_share or 0) > 0.95 or (row.pressure or 0) > 20:
        return "red"
    if (row.memory_share or 0) > 0.85 or (row.throttled or 0) > 0.1 or (row.pressure or 0) > 5:
        return "yellow"
    return ""


def memory_bar(row: TopRow, width: int, terminal: Terminal) -> str:
    """Usage up to the limit: filled is used, ``r`` the request, ``h`` memory.high; without a limit
    empty."""
    limit = row.memory_limit
    if row.memory is None or not limit:
        return " " * (width + 2)
    full, empty = terminal.mark("█", "#"), terminal.mark("·", ".")
    filled = min(width, round(width * row.memory / limit))
    marks = [full] * filled + [empty] * (width - filled)
    for amount, letter in ((row.memory_request, "r"), (row.memory_high, "h")):
        if amount and amount < limit:
            marks[min(width - 1, round(width * amount / limit))] = letter
    return f"{terminal.mark('▕', '|')}{''.join(marks)}{terminal.mark('▏', '|')}"


def numbers(row: TopRow) -> list[str]:
    """Every number of a row with its head."""
    return [f"{one.title} {one.cell(row)}" for one in COLUMNS]


def summary(rows: Sequence[TopRow], what: str) -> str:
    """The line above: how many cgroups and pods, and who the node is."""
    pods = sum(row.level == "pod" for row in rows)
    absent = sum(not row.exists and not row.has_ended for row in rows)
    counts = [plural(pods, "pod"), plural(len(rows), "cgroup")]
    counts += [f"{absent} absent"] if absent else []
    return printable(f"{what}  {', '.join(counts)}")


def headline(rows: Sequence[TopRow], what: str, state: str, width: int) -> str:
    """The summary with the ``state`` of the screen, at most ``width`` wide: of what the node is, ``·``
    between its parts, those behind the first are left out as needed."""
    parts = what.split(_BETWEEN)
    text = f"{summary(rows, what)}  ({printable(state)})"
    while len(parts) > 1 and display_width(text) > width:
        del parts[1]
        text = f"{summary(rows, _BETWEEN.join(parts))}  ({printable(state)})"
    return cut(text, width, "…")
