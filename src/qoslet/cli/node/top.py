"""``qoslet top``: what the cgroups of a node use, against what they asked for and may have."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    add_bundle_argument,
    add_document_arguments,
    add_drawing_arguments,
    add_kubelet_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.core.status.node_top import SORT_KEYS, arranged
from qoslet.errors import EXIT_OK, BadInput, CannotDo
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from qoslet.app.top import NodeTop
    from qoslet.core.status.node_top import TopRow

FORMS = ("table", "json")
USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet top
  qoslet top --once --sort memory
  qoslet top -f pods.yaml --cgroup-root /qoslet
  qoslet top --bundle node1.tar.gz --once

On a terminal it follows the node: s sorts, / filters, space folds, enter says why, q quits.

exit code: 0 done, 2 bad input, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_output_argument(parser, FORMS)
    parser.add_argument("--once", action="store_true", help="Look twice, print and end")
    parser.add_argument(
        "--interval",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="Time between two looks (default: 2)",
    )
    parser.add_argument(
        "--sort",
        choices=SORT_KEYS,
        default="tree",
        metavar="KEY",
        help=f"Sort siblings by {', '.join(SORT_KEYS[:-1])} or {SORT_KEYS[-1]} (default: tree)",
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="Show what has this in its name"
    )
    add_schema_argument(parser)
    add_bundle_argument(parser)
    add_document_arguments(parser, positional=False)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)
    add_drawing_arguments(parser, exact=False)


def run(args: argparse.Namespace) -> int:
    """Follow the node on a terminal; elsewhere print it once. Raises QosletError."""
    if args.schema:
        from qoslet.schema import text

        emit(text("top").encode())
        return EXIT_OK
    if not 0.1 <= args.interval <= 3600:
        raise BadInput("must be 0.1 to 3600 seconds", where="--interval")
    from qoslet.app.top import NodeTop

    top = NodeTop(args)
    interactive = sys.stdout is not None and sys.stdout.isatty() and sys.stdin.isatty()
    if interactive and not args.once and args.output == "table":
        _follow(top, args)
    else:
        _once(top, args)
    return EXIT_OK


def _once(top: NodeTop, args: argparse.Namespace) -> None:
    rows = top.look()
    if args.bundle is None:
        time.sleep(min(args.interval, 1.0))
        rows = top.look()
    if args.output == "json":
        from qoslet.render.documents.plan import encode
        from qoslet.render.documents.top import top_document

        emit(
            encode(top_document(top.plan, arranged(rows, args.sort, (), args.filter), top.seconds))
        )
        return
    from qoslet.render.text.live.top import draw, summary

    shown = screen(args)
    chosen = arranged(rows, args.sort, (), args.filter)
    emit_lines([summary(rows, _heading(top)), *draw(chosen, shown)], shown)


def _heading(top: NodeTop) -> str:
    node = top.plan.node
    parts = (
        node.name or "this node",
        f"cgroup {node.hierarchy}",
        f"Kubernetes {node.profile.kubernetes}",
    )
    return " · ".join(parts) + (f" · {top.trouble}" if top.trouble else "")


def _follow(top: NodeTop, args: argparse.Namespace) -> None:
    try:
        from qoslet.cli.screens.top import TopApp
    except ImportError:
        hint = "pip install 'qoslet[top]', or --once"
        raise CannotDo("the screen needs the package textual", hint=hint) from None

    def why(row: TopRow) -> Sequence[str]:
        from qoslet.core.explain.explain import explain
        from qoslet.render.terminal import Terminal
        from qoslet.render.text.explanation import draw

        terminal = Terminal(unicode=True, width=100)
        return draw(explain(top.plan, row.name), terminal, full=False, exact=False)

    TopApp(top.look, lambda: _heading(top), why, args.interval, args.sort).run()
