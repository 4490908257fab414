"""What verbs share: the parser, the options that describe pods and a node, output and notes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from qoslet.errors import BadInput
from qoslet.render.terminal import Terminal, terminal
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    from collections.abc import Sequence


# argparse asks gettext for each of its words, which imports locale; nothing here is translated.
vars(argparse)["_"] = str


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help for this terminal. Asking for its size without ``shutil`` spares each start that
    import: argparse makes a formatter for every argument that is added."""

    width = 0

    def __init__(self, prog: str) -> None:
        if not _Formatter.width:
            _Formatter.width = min(terminal(sys.stdout, os.environ).width, 100) - 2
        super().__init__(prog, max_help_position=30, width=_Formatter.width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FORM``: the value once, older spellings of a flag not at all."""
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = action.option_strings
        shown = names if not names[0].startswith("--") else names[:1]
        value = "" if action.nargs == 0 else f" {self._format_args(action, action.dest.upper())}"
        return f"{', '.join(shown)}{value}"


class Parser(argparse.ArgumentParser):
    """A parser whose faults are ``BadInput`` with a hint; options are never abbreviated."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str | None) -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=_Formatter,
        )

    def print_help(self, file: object = None) -> None:
        """Write the help to standard output, whatever its encoding."""
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        emit(self.format_help().encode(encoding, "replace"))

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        text = message
        hint = f"{self.prog} -h lists the options"
        for word in message.removeprefix("unrecognized arguments: ").split():
            near = self._near(word) if word.startswith("--") else None
            if near:
                hint = f"did you mean {near}?"
                break
        raise BadInput(text, hint=hint)

    def _near(self, word: str) -> str | None:
        from difflib import get_close_matches

        known = [name for name in self._option_string_actions if name.startswith("--")]
        name = word.partition("=")[0]
        found = None if name in known else get_close_matches(name, known, 1, 0.7)
        return found[0] if found else None


def add_document_arguments(parser: argparse.ArgumentParser, positional: bool) -> None:
    """The options that name pods, and how they are read."""
    group = parser.add_argument_group("pods")
    if positional:
        group.add_argument("paths", nargs="*", metavar="FILE", help="the same as -f")
    group.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="manifests: a file, a directory or - (repeatable)",
    )
    group.add_argument(
        "--resources",
        choices=("spec", "allocated"),
        default="spec",
        metavar="FROM",
        help="spec, or allocated: what the status says is actuated",
    )
    group.add_argument(
        "--expand", action="store_true", help="make a pod for each replica of a template"
    )


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that describe the node: documents, and a flag for each row of FLAG_ROWS."""
    from qoslet.core.node.flags import FLAG_ROWS

    group = parser.add_argument_group("node")
    group.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="FILE",
        help="KubeletConfiguration, kubectl get node, or qoslet's Node (repeatable)",
    )
    for row in FLAG_ROWS:
        help = row.help.replace("%", "%%")
        group.add_argument(*row.names, dest=row.field, metavar=row.metavar, help=help)


def add_drawing_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of everything that is drawn for people."""
    group = parser.add_argument_group("drawing")
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        metavar="WHEN",
        help="auto, always or never",
    )
    group.add_argument("--ascii", action="store_true", help="no box characters")
    group.add_argument("--exact", action="store_true", help="every number with all its digits")


def screen(args: argparse.Namespace) -> Terminal:
    """What standard output shows, by the drawing options and the environment."""
    return terminal(sys.stdout, os.environ, args.color, args.ascii)


def emit_lines(lines: Sequence[str], shown: Terminal) -> None:
    """Write text lines; characters that the terminal's encoding lacks are escaped."""
    encoding = "utf-8" if shown.unicode else getattr(sys.stdout, "encoding", None) or "ascii"
    emit("".join(f"{line}\n" for line in lines).encode(encoding, "backslashreplace"))
