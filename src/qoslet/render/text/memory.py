"""What happened to memory, as lines and graphs for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from qoslet.core.cgroup.names import is_below
from qoslet.core.problem import plural
from qoslet.render.terminal import Terminal, cut, pad, printable, wrap
from qoslet.render.units import rounded, size

if TYPE_CHECKING:
    from qoslet.core.memory.rows import MemoryEvent, MemoryRow
    from qoslet.core.status.memory_view import MemoryView


ZONES = {
    "below_request": "below request",
    "above_request": "above request",
    "above_high": "above high",
}
"""Where pages were taken, as people read it."""

_STYLE = {"below_request": "red", "above_request": "yellow", "above_high": "blue"}

_NICE, _PLAIN = "▁▂▃▄▅▆▇█", "_.-=+*%#"

MOST = 8
"""Lines of graphs on a screen."""


def spark(values: Sequence[int], terminal: Terminal) -> str:
    """A graph of one line: each value by its share of the largest; nothing is a blank."""
    marks = terminal.mark(_NICE, _PLAIN)
    most = max(values, default=0)
    return "".join(
        " " if value <= 0 else marks[(value * len(marks) - 1) // most] for value in values
    )


def screen_lines(view: MemoryView, terminal: Terminal, width: int) -> list[str]:
    """What was taken from whom in the last minute, and the last thing that happened; empty where
    nothing was."""
    drawn = [
        (row, zone, spans)
        for row in view.groups
        if row.level == "container" or not row.uid
        for zone, spans in row.recent.items()
        if row.level == "container" or not _below(row, view.groups)
    ]
    drawn.sort(key=lambda one: -sum(one[2]))
    lines: list[str] = []
    label = max(12, width - 56)
    room = max(width - label - 25, 3)
    if width < label + 28:
        drawn = []
    if drawn:
        head = f"memory reclaimed, last {2 * min(len(drawn[0][2]), room)} s"
        lines = ["", terminal.paint(head, "dim")]
    for row, zone, spans in drawn[:MOST]:
        spans = spans[-room:]
        name = pad(cut(printable(row.title), label, terminal.mark("…", "~")), label)
        graph = terminal.paint(spark(spans, terminal), _STYLE[zone])
        amount = size(rounded(sum(spans) * view.page)).lstrip("~")
        lines.append(f"{name} {pad(ZONES[zone], 13)} {graph} {pad(amount, 9, right=True)}")
    if view.events:
        last = wrap(printable(last_line(view.events[-1])), width)
        lines += ["", *(terminal.paint(line, "dim") for line in last)]
    return lines


def _below(row: MemoryRow, rows: Iterable[MemoryRow]) -> bool:
    """Whether a group below has a graph of its own."""
    return any(is_below(one.path, row.path) and one.recent for one in rows)


def last_line(one: MemoryEvent) -> str:
    """The event in a line."""
    from qoslet.core.memory.event_log import sentence

    return f"{one.title}: {sentence(one, one.count)}"


def remarks(rows: Iterable[Mapping[str, object]], page: int, terminal: Terminal) -> Iterator[str]:
    """What happened to the containers of a ``PodStates`` document, what was taken from them, and
    which of their values are worth less than they say."""
    for row in rows:
        name = row.get("container")
        counts, taken = list(_counts(row, terminal)), list(_reclaimed_rows(row, page, terminal))
        if name and counts:
            yield f"{name}: {', '.join(counts)}"
        if name and taken:
            yield f"{name}: memory reclaimed {', '.join(taken)}"
        if name:
            yield from (f"{name}: {line}" for line in _worthless(row))


def _counts(row: Mapping[str, object], terminal: Terminal) -> Iterator[str]:
    found = row.get("events")
    events = found if isinstance(found, dict) else {}
    kills, high = events.get("oom_kill", 0), events.get("high", 0)
    breaches = events.get("below_low", 0) + events.get("below_min", 0)
    if kills:
        yield plural(kills, "OOM kill")
    if high:
        yield f"throttled {high}{terminal.mark('×', 'x')} at memory.high"
    waits = events.get("pressure", 0)
    if waits:
        yield f"waited for memory {waits}{terminal.mark('×', 'x')}"
    if breaches:
        yield f"{plural(breaches, 'breach', 'es')} of its protection"


def _worthless(row: Mapping[str, object]) -> Iterator[str]:
    found = row.get("worthLess")
    for one in found if isinstance(found, list) else []:
        if not isinstance(one, dict):
            continue
        value, used, kept = (
            _amount(one.get(name)) for name in ("bytes", "usedBytes", "worthBytes")
        )
        why, cut = "", one.get("because")
        if isinstance(cut, dict):
            held, claimed = _amount(cut.get("heldBytes")), _amount(cut.get("claimedBytes"))
            holds = f"holds {held} of {claimed} that its children claim and use"
            if not cut.get("heldBytes"):
                holds = f"has no {one.get('file')}"
            why = f": {cut.get('cgroup')} {holds}"
        yield f"{one.get('file')} {value} protects only {kept} of {used} used{why}"


def _amount(value: object) -> str:
    return size(rounded(value)).lstrip("~") if isinstance(value, int) else "?"


def _reclaimed_rows(row: Mapping[str, object], page: int, terminal: Terminal) -> Iterator[str]:
    found, recent = row.get("reclaim"), row.get("recent")
    if not isinstance(found, dict) or not isinstance(recent, dict):
        return
    for zone, words in ZONES.items():
        amounts = found.get(zone)
        taken = amounts.get("taken", 0) if isinstance(amounts, dict) else 0
        if not taken:
            continue
        spans = recent.get(zone)
        graph = f" {spark(spans, terminal).strip()}" if isinstance(spans, list) else ""
        yield f"{words} {size(rounded(taken * page)).lstrip('~')}{graph}"


def held_lines(document: object, cgroups: Mapping[str, str]) -> Iterator[str]:
    """A line for each hold of a guard's document on these groups, which are given with the
    names of their containers."""
    rows = document.get("held") if isinstance(document, dict) else None
    for row in rows if isinstance(rows, list) else []:
        name = cgroups.get(str(row.get("cgroup"))) if isinstance(row, dict) else None
        if name is None:
            continue
        high, planned = row.get("highBytes"), row.get("plannedHighBytes")
        value = size(high) if isinstance(high, int) else "max"
        instead = size(planned) if isinstance(planned, int) else "?"
        yield f"{name}: memory.high {value} instead of {instead}, by the guard: {row.get('because')}"
