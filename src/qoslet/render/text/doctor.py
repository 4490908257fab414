"""What a machine offers, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qoslet.core.node.doctor.finding import DoctorFinding
    from qoslet.render.terminal import Terminal


_MARKS = {"ok": ("✓", "+", "green"), "missing": ("✗", "x", "red"), "unknown": ("?", "?", "yellow")}


def draw(rows: list[DoctorFinding], terminal: Terminal) -> list[str]:
    """The answer for people: a line a finding, cost and remedy below what is not there."""
    from qoslet.render.terminal import printable, wrap

    wide = max(len(row.topic) for row in rows)
    lines = []
    for row in rows:
        nice, plain, colour = _MARKS[row.state]
        mark = terminal.paint(terminal.mark(nice, plain), colour)
        # beside the longest topic a narrow terminal has no room for sentences
        beside = terminal.width > wide + 44
        indent = " " * (wide + 4 if beside else 4)
        first, *more = wrap(printable(row.value), terminal.width, indent)
        if beside:
            lines += [f"{mark} {row.topic:<{wide}}  {first.lstrip()}", *more]
        else:
            lines += [f"{mark} {row.topic}", first, *more]
        if row.cost:
            lines += [terminal.paint(one, "dim") for one in wrap(row.cost, terminal.width, indent)]
        if row.remedy:
            arrow = terminal.mark("→", "->")
            lines += wrap(f"{arrow} {row.remedy}", terminal.width, indent)
    return lines
