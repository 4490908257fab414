"""``qoslet diff``: two plans, and what the change means for the pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    add_bundle_argument,
    add_document_arguments,
    add_drawing_arguments,
    add_kubelet_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    add_what_if_arguments,
    emit_lines,
    screen,
)
from qoslet.errors import EXIT_NO, EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

FORMS = ("text", "json", "yaml")
USAGE = "[OPTION]... [FILE]..."
EPILOG = """\
examples:
  qoslet diff pods.yaml --node node.yaml --to kubernetes=1.37
  qoslet diff pods.yaml --node node.yaml --rehearse v1-to-v2
  qoslet diff before/ --node node.yaml --to filename=after/ --allow info
  qoslet diff --live --kubelet-token token --to kubernetes=1.37
  kubectl get pods -A -o json | qoslet diff -f - --node kubelet.yaml --to node=new-kubelet.yaml

exit code: 0 done, 1 a change is above what --allow says, 2 bad input, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_what_if_arguments(parser)
    parser.add_argument(
        "--allow",
        choices=("none", "info", "warning"),
        metavar="SEVERITY",
        help="Exit with 1 if a change is above: none, info or warning",
    )
    add_output_argument(parser, FORMS)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Show every file with the rules of both sides"
    )
    add_schema_argument(parser, "diff")
    add_bundle_argument(parser)
    add_kubelet_arguments(parser, live=True)
    add_document_arguments(parser, positional=True)
    add_node_arguments(parser)
    add_drawing_arguments(parser, exact=False)


def run(args: argparse.Namespace) -> int:
    """Plan both sides, compare and print; the exit code. Raises QosletError."""
    from qoslet.app.sides import two_plans
    from qoslet.cli.commands import parser_of
    from qoslet.core.diff.diff import diff

    found = diff(*two_plans(args, parser_of("diff")))
    if args.output == "text":
        from qoslet.render.text.diff import draw

        shown = screen(args)
        emit_lines(draw(found, shown, args.verbose), shown)
    else:
        from qoslet.render.documents import encoded
        from qoslet.render.documents.diff import diff_document

        document = diff_document(found)
        emit(encoded(document, args.output))
    return EXIT_NO if args.allow and found.above(args.allow) else EXIT_OK
