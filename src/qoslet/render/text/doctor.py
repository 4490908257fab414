"""What a machine offers, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qoslet.core.node.doctor.finding import DoctorFinding
    from qoslet.render.terminal import Terminal


_MARKS = {"ok": ("✓", "+", "green"), "missing": ("✗", "x", "red"), "unknown": ("?", "?", "yellow")}


def draw(rows: list[DoctorFinding], terminal: Terminal) -> list[str]:
    """The answer for people: a line a finding, cost and remedy below what is not there."""
    from qoslet.render.terminal import printable

    wide = max(len(row.topic) for row in rows)
    lines = []
    for row in rows:
        nice, plain, colour = _MARKS[row.state]
        mark = terminal.paint(terminal.mark(nice, plain), colour)
        lines.append(f"{mark} {row.topic:<{wide}}  {printable(row.value)}")
        if row.cost:
            lines.append(f"  {'':<{wide}}  {terminal.paint(row.cost, 'dim')}")
        if row.remedy:
            arrow = terminal.mark("→", "->")
            lines.append(f"  {'':<{wide}}  {arrow} {row.remedy}")
    return lines
