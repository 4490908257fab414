"""``qoslet config``: what is in force on a node and where each value came from; checks it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import add_drawing_arguments, add_node_arguments, emit_lines, screen
from qoslet.core.node.flags import flags_of
from qoslet.errors import EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from qoslet.core.explain.node_config import InForce
    from qoslet.core.node.node import Node
    from qoslet.core.problem import Problem
    from qoslet.render.terminal import Terminal

USAGE = "[OPTION]... [FILE]..."

WIDEST = 40
"""Columns of the values; a longer one has its source on the next line."""

EPILOG = """\
examples:
  qoslet config kubelet.yaml --kube-reserved memory=1Gi
  qoslet config --node kubelet.yaml --changed
  qoslet config -o yaml > node.yaml

exit code: 0 it can be run with, 1 a problem is an error, 2 bad input; nothing is started
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("paths", nargs="*", metavar="FILE", help="the same as --node")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "yaml"),
        default="table",
        metavar="FORM",
        help="table, json, or yaml: documents that say it all (table)",
    )
    parser.add_argument("--changed", action="store_true", help="leave out what is a default")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of the output")
    add_node_arguments(parser)
    add_drawing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read, check and print; the exit code. Raises QosletError."""
    if args.schema:
        from qoslet.schema import text

        emit(text("config").encode())
        return EXIT_OK
    from qoslet.app import inspect
    from qoslet.core.explain.node_config import rows
    from qoslet.render.text.problems import tell

    if args.changed and args.output == "yaml":
        raise BadInput("--changed is for the table and json", where="--changed")
    node, problems = inspect.node([*args.node, *args.paths], flags_of(args))
    shown = [row for row in rows(node) if not args.changed or not row.source.startswith("default")]
    if args.output == "table":
        emit_lines(_table(shown, screen(args)), screen(args))
    else:
        _emit(args.output, node, shown, problems)
    if args.output != "json":
        tell(problems)
    return EXIT_NO if any(row.severity == "error" for row in problems) else EXIT_OK


def _emit(form: str, node: Node, shown: Sequence[InForce], problems: Sequence[Problem]) -> None:
    from qoslet.render.documents import plan

    if form == "json":
        emit(plan.encode(document(node, shown, problems)))
        return
    from qoslet.core.explain.node_config import documents

    emit(b"---\n".join(plan.encode_yaml(one).rstrip() + b"\n" for one in documents(node)))


def document(
    node: Node, shown: Sequence[InForce], problems: Sequence[Problem]
) -> dict[str, object]:
    """The answer for programs."""
    from qoslet.render.documents.plan import API_VERSION, problem_row

    return {
        "apiVersion": API_VERSION,
        "kind": "Config",
        "node": node.name,
        "fields": [
            {"field": row.field, "value": row.value, "source": row.source, "flag": row.flag or None}
            for row in shown
        ],
        "problems": [problem_row(row) for row in problems],
    }


def _table(shown: Sequence[InForce], terminal: Terminal) -> list[str]:
    """A line a field: name, value, where it came from; what the owner gave stands out."""
    from qoslet.render.terminal import printable

    cells = [(row.field, _text(row.value), row.source) for row in shown]
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
