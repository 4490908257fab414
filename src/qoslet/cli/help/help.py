"""``qoslet help``: the overview, the help of a command, the node options, the man page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.commands import COMMANDS, TOPICS, overview, parser_of
from qoslet.errors import EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.cli.parser import Parser

USAGE = "[OPTION]... [COMMAND|TOPIC]"
EPILOG = """\
examples:
  qoslet help plan
  qoslet help node
  qoslet help --man | man -l -
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "topic",
        metavar="COMMAND|TOPIC",
        nargs="?",
        choices=(*COMMANDS, *TOPICS),
        help=f"A command, or a topic: {', '.join(TOPICS)}",
    )
    parser.add_argument("--all", action="store_true", help="Show the node options of a command too")
    parser.add_argument("--man", action="store_true", help="Print the man page, in roff")


def node_parser() -> Parser:
    """A parser of the node options alone."""
    from qoslet.cli.parser import Parser, add_node_arguments

    parser = Parser("qoslet COMMAND", "--node FILE [NODE OPTION]...", TOPICS["node"], None)
    add_node_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print what is named, else the overview; the exit code."""
    if args.man:
        from qoslet.cli.help.man_page import page

        emit(page().encode())
    elif args.topic is None:
        emit(overview().encode())
    else:
        topic = args.topic
        parser = node_parser() if topic in TOPICS else parser_of(topic)
        parser.shows_all = args.all or topic in TOPICS
        parser.print_help()
    return EXIT_OK
