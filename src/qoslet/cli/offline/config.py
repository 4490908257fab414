"""``qoslet config``: the configuration of a node, where each value is set, and whether it is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    add_drawing_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.core.node.flags import flags_of
from qoslet.errors import EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from qoslet.core.explain.node_config import EffectiveField
    from qoslet.core.node.node import Node
    from qoslet.core.problem import Problem

USAGE = "[OPTION]... [FILE]..."


EPILOG = """\
examples:
  qoslet config kubelet.yaml --kube-reserved memory=1Gi
  qoslet config --node kubelet.yaml --changed
  qoslet config -o yaml > node.yaml

exit code: 0 a kubelet would start with it, 1 it has an error, 2 bad input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("paths", nargs="*", metavar="FILE", help="The same as --node FILE")
    add_output_argument(
        parser, ("table", "json", "yaml"), "Print as table, json, or yaml, which --node reads again"
    )
    parser.add_argument(
        "--changed", action="store_true", help="Leave out fields that have their default"
    )
    add_schema_argument(parser, "config")
    add_node_arguments(parser)
    add_drawing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read, check and print; the exit code. Raises QosletError."""
    from qoslet.app import inspect
    from qoslet.core.explain.node_config import rows
    from qoslet.render.text.problems import print_problems

    if args.changed and args.output == "yaml":
        raise BadInput("cannot be used with -o yaml", where="--changed")
    node, problems = inspect.node([*args.node, *args.paths], flags_of(args))
    shown = [row for row in rows(node) if not args.changed or not row.is_default]
    if args.output == "table":
        from qoslet.render.text.config import table

        emit_lines(table(shown, screen(args)), screen(args))
    else:
        _emit(args.output, node, shown, problems)
    if args.output != "json":
        print_problems(problems)
    return EXIT_NO if any(row.severity == "error" for row in problems) else EXIT_OK


def _emit(
    form: str, node: Node, shown: Sequence[EffectiveField], problems: Sequence[Problem]
) -> None:
    from qoslet.render.documents import encode, encode_yaml

    if form == "json":
        from qoslet.render.documents.config import config_document

        emit(encode(config_document(node, shown, problems)))
        return
    from qoslet.core.explain.node_config import documents

    emit(b"---\n".join(encode_yaml(one).rstrip() + b"\n" for one in documents(node)))
