"""``qoslet fleet``: every node of a cluster with its pods, in numbers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from qoslet.cli.cluster_options import add_cluster_arguments, is_plugin
from qoslet.cli.parser import (
    add_drawing_arguments,
    add_node_arguments,
    add_output_argument,
    add_recursive_argument,
    add_resources_argument,
    add_schema_argument,
    add_what_if_arguments,
    emit_lines,
    jobs_of,
    screen,
)
from qoslet.errors import EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.core.fleet.plan import Fleet

FORMS = ("table", "json", "yaml", "html", "parquet", "arrow")
USAGE = "[OPTION]... [FILE]..."
EPILOG = """\
examples:
  kubectl get nodes,pods -A -o json | qoslet fleet -
  qoslet fleet cluster.json.gz --node kubelet.yaml --to kubernetes=1.37
  qoslet fleet cluster/ --node-with pool=gpu gpu-kubelet.yaml -o html > fleet.html
  qoslet fleet cluster.json --fit web.yaml
  qoslet fleet --context production --to kubernetes=1.37

exit code: 0 done, 1 a plan cannot stand or a document is broken, 2 bad input, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_what_if_arguments(parser)
    parser.add_argument(
        "--fit", metavar="FILE", help="Count how many more of the pod in this manifest fit"
    )
    add_output_argument(parser, FORMS)
    parser.add_argument("-v", "--verbose", action="store_true", help="List every node and problem")
    parser.add_argument(
        "--jobs", type=jobs_of, metavar="COUNT", help="Processes to use (default: one a processor)"
    )
    add_schema_argument(parser, "fleet")
    group = parser.add_argument_group("cluster")
    group.add_argument("paths", nargs="*", metavar="FILE", help="The same as -f FILE")
    group.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="Read nodes and pods from a file (also .gz, .zst), a bundle, a directory, or - for "
        "standard input (repeatable)",
    )
    add_recursive_argument(group)
    add_resources_argument(group)
    group.add_argument(
        "--node-with",
        action="append",
        nargs=2,
        default=[],
        metavar=("SELECTOR", "FILE"),
        help="Read a KubeletConfiguration for the nodes with these labels only (repeatable)",
    )
    add_cluster_arguments(parser)
    add_node_arguments(parser)
    add_drawing_arguments(parser, exact=False)


def run(args: argparse.Namespace) -> int:
    """Read, plan and print; the exit code. Raises QosletError."""
    if args.output in ("parquet", "arrow"):
        from qoslet.render.documents.fleet.arrow import check
        from qoslet.render.terminal import is_terminal

        check(args.output)
        if is_terminal(sys.stdout):
            hint = f"qoslet fleet ... -o {args.output} > fleet.{args.output}"
            raise BadInput("is not for a terminal", where=f"-o {args.output}", hint=hint)
    if is_plugin() and not (args.filename or args.paths):
        args.cluster = True
    from qoslet.app.fleet.fleet import plan_fleet
    from qoslet.app.sides import node_sides
    from qoslet.cli.commands import parser_of
    from qoslet.render.text.live.progress import Progress

    with Progress(sys.stderr) as progress:
        found = plan_fleet(args, node_sides(args, parser_of("fleet")), progress)
    _print(found, args)
    return EXIT_OK if found.is_valid else EXIT_NO


def _print(found: Fleet, args: argparse.Namespace) -> None:
    match args.output:
        case "table":
            from qoslet.render.text.fleet import draw

            shown = screen(args)
            emit_lines(draw(found, shown, args.verbose), shown)
        case "html":
            from qoslet.render.documents.fleet.page import page

            other = " ".join(
                f"--{option} {value}"
                for option, values in (("rehearse", args.rehearse), ("to", args.to))
                for value in values
            )
            emit(page(found, other).encode(errors="backslashreplace"))
        case "parquet" | "arrow":
            from qoslet.render.documents.fleet.arrow import table

            emit(table(found, args.output))
        case _:
            from qoslet.render.documents import encoded
            from qoslet.render.documents.fleet.fleet import fleet_document

            document = fleet_document(found)
            emit(encoded(document, args.output))
