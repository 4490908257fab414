"""``qoslet doctor``: what this machine offers, what is missing, what that costs, how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.app import inspect
from qoslet.cli.parser import add_drawing_arguments, emit_lines, screen
from qoslet.core.node.doctor import Finding, can_write, findings
from qoslet.core.node.machine import Machine
from qoslet.errors import EXIT_CANNOT, EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.render.terminal import Terminal

EPILOG = """\
examples:
  qoslet doctor
  qoslet doctor -o json

exit code: 0 groups can be made here, 3 they cannot; it only reads
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="the form")
    add_drawing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Look, judge and print; the exit code."""
    machine = inspect.machine()
    rows = findings(machine)
    if args.output == "json":
        from msgspec import json

        emit(json.format(json.encode(document(machine, rows)), indent=2) + b"\n")
    else:
        emit_lines(text(rows, screen(args)), screen(args))
    return EXIT_OK if can_write(machine) else EXIT_CANNOT


def document(machine: Machine, rows: list[Finding]) -> dict[str, object]:
    """The answer for programs."""
    return {
        "apiVersion": "qoslet/v1",
        "kind": "Doctor",
        "hierarchy": machine.layout,
        "canWrite": can_write(machine),
        "findings": rows,
    }


_MARKS = {"ok": ("✓", "+", "green"), "missing": ("✗", "x", "red"), "unknown": ("?", "?", "yellow")}


def text(rows: list[Finding], terminal: Terminal) -> list[str]:
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
