"""``qoslet convert``: a resource block as the cgroup files that a runtime would write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    add_choice_arguments,
    add_drawing_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.errors import EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse

    from qoslet.core.convert.convert import Conversion

USAGE = "[OPTION]... FILE --to TARGET"
RUNTIME = "runc-1.4"
"""The runtime where none is named."""

EPILOG = """\
examples:
  qoslet convert config.json --to v2 --runtime crun-1.23
  crictl inspect ID | jq .info.config | qoslet convert - --to v2 --runtime containerd-1.7
  qoslet convert pod.yaml --node node.yaml --to systemd
  qoslet convert block.json --to v1 --runtime runc-1.1.5 -o shell

exit code: 0 done, 1 the runtime or the kernel rejects it, 2 bad input, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "path", metavar="FILE", nargs="?", help="A document, or - for standard input"
    )
    parser.add_argument(
        "--from", dest="source", choices=("oci", "cri", "pod", "dockershim"), metavar="KIND",
        help="Kind of the document: oci, cri, pod or dockershim (default: recognized)",
    )  # fmt: skip
    parser.add_argument(
        "--to", choices=("v1", "v2", "systemd", "oci", "cri", "windows", "docker"), metavar="TARGET",
        help="Convert to v1 or v2 files, systemd properties, an oci block, a cri message, windows or docker",
    )  # fmt: skip
    add_output_argument(parser, ("text", "json", "files", "shell"))
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Show every rule with its source"
    )
    add_schema_argument(parser, "conversion")
    parser.add_argument(
        "--update", nargs="?", const="", metavar="FILE",
        help="Convert an update of a container that has the block in FILE, or no block",
    )  # fmt: skip
    parser.add_argument(
        "--usage", metavar="BYTES[,SWAP]",
        help="memory.current and memory.swap.current of the container to update",
    )  # fmt: skip
    parser.add_argument(
        "--hierarchy",
        choices=("v1", "v2"),
        metavar="VERSION",
        help="cgroup version of --to systemd: v1 or v2 (default: v2)",
    )
    parser.add_argument(
        "--without", default="", metavar="FEATURE,...",
        help="Kernel features to leave out: bfq, iocost, rsvd, swap",
    )  # fmt: skip
    parser.add_argument(
        "--kernel",
        metavar="VERSION",
        help="Linux version that takes the files (default: the newest)",
    )
    parser.add_argument(
        "--processors", metavar="NUMBER", help="Processors of the Windows machine, for --to windows"
    )
    add_choice_arguments(parser.add_argument_group("pods"))
    add_node_arguments(parser)
    add_drawing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read, convert and print; the exit code. Raises QosletError."""
    if args.path is None:
        raise BadInput("no document given", hint="qoslet convert FILE, or - for standard input")
    if args.to is None:
        raise BadInput(
            "is missing", where="--to", hint="v1, v2, systemd, oci, cri, windows or docker"
        )
    from qoslet.app.convert_inputs import answer

    made = answer(args, RUNTIME)
    _print(made, args)
    if args.output != "json":
        from qoslet.render.text.problems import print_problems

        print_problems(made.problems)
    if args.output in ("files", "shell") and not made.is_valid:
        from qoslet.render.text.conversion import refusals

        for line in refusals(made):
            note(line)
    return EXIT_OK if made.is_valid else EXIT_NO


def _print(made: Conversion, args: argparse.Namespace) -> None:
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.conversion import conversion_document

        emit(encode(conversion_document(made)))
        return
    from qoslet.render.text import conversion

    shown = screen(args)
    if args.output != "text" and args.to in ("oci", "cri", "windows", "docker"):
        raise BadInput(f"cannot be used with --to {args.to}", where=f"-o {args.output}")
    match args.output:
        case "files":
            lines = conversion.pairs(made)
        case "shell":
            lines = conversion.shell(made)
        case _:
            lines = conversion.draw(made, shown, args.verbose)
    emit_lines(lines, shown)
