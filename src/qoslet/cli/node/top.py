"""``qoslet top``: what the cgroups of a node use, against what they asked for and may have."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    Parser,
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
from qoslet.cli.times import check_interval, point, span
from qoslet.core.status.node_top import SORT_KEYS, arranged
from qoslet.errors import EXIT_OK, BadInput, CannotDo
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import ModuleType

    from qoslet.app.top.top import NodeTop
    from qoslet.core.status.node_top import TopRow

FORMS = ("table", "json")
USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet top
  qoslet top --once --sort memory
  qoslet top -f pods.yaml --cgroup-root /qoslet
  qoslet top --bundle node1.tar.gz --once
  qoslet top --replay node1.rec --at -5m

On a terminal it follows the node: s sorts, / filters, space folds, enter says why, q quits;
with --replay p pauses, left and right move 10 seconds, with shift 5 minutes.

exit code: 0 done, 2 bad input, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_output_argument(parser, FORMS)
    parser.add_argument("--once", action="store_true", help="Look twice, print and end")
    parser.add_argument(
        "--interval",
        type=span,
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
    _add_replay_arguments(parser)
    add_schema_argument(parser, "top")
    add_bundle_argument(parser)
    add_document_arguments(parser, positional=False)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)
    add_drawing_arguments(parser, exact=False)


def _add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("replay")
    group.add_argument(
        "--replay",
        metavar="FILE",
        help="Look at a recording of qoslet record instead of this machine",
    )
    group.add_argument(
        "--at",
        type=point,
        metavar="TIME",
        help="Begin at -30s before its end, +5m after its start, 14:05:00 or 2026-03-01T14:05:00Z; "
        "times are UTC",
    )
    group.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="NUMBER",
        help="Play so many times as fast (default: 1)",
    )
    if isinstance(parser, Parser):
        parser.backwards = ("--at",)


def run(args: argparse.Namespace) -> int:
    """Follow the node on a terminal; elsewhere print it once. Raises QosletError."""
    check_interval(args, 0.1)
    from qoslet.render.terminal import is_terminal

    terminal = is_terminal(sys.stdout) and is_terminal(sys.stdin)
    interactive = terminal and not args.once and args.output == "table"
    if args.replay is not None:
        _replay(args, interactive)
        return EXIT_OK
    if args.at is not None:
        raise BadInput("needs --replay", where="--at")
    from qoslet.app.top.top import NodeTop

    top = NodeTop(args)
    if interactive:
        _follow(top, args)
    else:
        _once(top, args)
    return EXIT_OK


def _replay(args: argparse.Namespace, interactive: bool) -> None:
    """Play a recording on a terminal; elsewhere print one moment of it, the last one by default."""
    if args.bundle is not None or args.filename or args.live:
        hint = "the pods and the node are in the recording"
        raise BadInput("cannot be given with --bundle, -f or --live", where="--replay", hint=hint)
    if not 0.001 <= args.speed <= 100_000:
        raise BadInput("must be 0.001 to 100000", where="--speed")
    from qoslet.app.top.replayed_top import ReplayedTop
    from qoslet.render.text.streams import note

    top = ReplayedTop(args.replay, args.interval * args.speed, note)
    top.go_to(args.at or (("start", 0.0) if interactive else ("end", 0.0)))
    if interactive:
        app = _screens("replay").ReplayApp
        app(top.look, top.heading, top.why, args.interval, args.sort, top.seek).run()
        return
    rows = arranged(top.look(), args.sort, (), args.filter)
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.top import recorded_document

        emit(encode(recorded_document(top.node, rows, top.seconds, top.wall)))
        return
    _print(rows, top.heading(), args)


def _print(rows: Sequence[TopRow], heading: str, args: argparse.Namespace) -> None:
    from qoslet.render.text.live.top import draw, summary

    shown = screen(args)
    emit_lines([summary(rows, heading), *draw(rows, shown)], shown)


def _once(top: NodeTop, args: argparse.Namespace) -> None:
    rows = top.look()
    if args.bundle is None:
        time.sleep(min(args.interval, 1.0))
        rows = top.look()
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.top import top_document

        emit(
            encode(top_document(top.plan, arranged(rows, args.sort, (), args.filter), top.seconds))
        )
        return
    _print(arranged(rows, args.sort, (), args.filter), _heading(top), args)


def _heading(top: NodeTop) -> str:
    node = top.plan.node
    parts = (
        node.name or "this node",
        f"cgroup {node.hierarchy}",
        f"Kubernetes {node.profile.kubernetes}",
    )
    return " · ".join(parts) + (f" · {top.trouble}" if top.trouble else "")


def _follow(top: NodeTop, args: argparse.Namespace) -> None:
    def why(row: TopRow) -> Sequence[str]:
        from qoslet.core.explain.explain import explain
        from qoslet.render.terminal import Terminal
        from qoslet.render.text.explanation import draw

        terminal = Terminal(unicode=True, width=100)
        return draw(explain(top.plan, row.name), terminal, full=False, exact=False)

    app = _screens("top").TopApp
    app(top.look, lambda: _heading(top), why, args.interval, args.sort).run()


def _screens(name: str) -> ModuleType:
    """The module of a screen. Raises CannotDo without the package that draws it."""
    from importlib import import_module

    try:
        return import_module(f"qoslet.cli.screens.{name}")
    except ImportError:
        hint = "pip install 'qoslet[top]', or --once"
        raise CannotDo("the screen needs the package textual", hint=hint) from None
