"""What commands share: the parser, the options that describe pods and a node, output and notes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from qoslet.errors import BadInput
from qoslet.render.terminal import Terminal, terminal
from qoslet.render.text.streams import emit, spelled

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help for this terminal. Asking for its size without ``shutil`` spares each start that
    import: argparse makes a formatter for every argument that is added."""

    width = 0

    def __init__(self, prog: str) -> None:
        if not _Formatter.width:
            _Formatter.width = min(terminal(sys.stdout, os.environ).width, 100) - 2
        super().__init__(prog, max_help_position=30, width=_Formatter.width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FORMAT``: the value once, older spellings of a flag not at all."""
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = action.option_strings
        shown = names if not names[0].startswith("--") else names[:1]
        value = "" if action.nargs == 0 else f" {self._format_args(action, action.dest.upper())}"
        return f"{', '.join(shown)}{value}"


class Parser(argparse.ArgumentParser):
    """A parser whose faults are ``BadInput`` with a hint; options are never abbreviated.

    ``folded`` actions are counted in the help instead of listed, unless its text names them;
    ``shows_all`` lists them. ``backwards`` are options whose values may begin with a minus.
    """

    def __init__(self, prog: str, usage: str, description: str, epilog: str | None) -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}".rstrip(),
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            add_help=False,
            formatter_class=_Formatter,
        )
        self._positionals.title = "arguments"
        self.folded: list[argparse.Action] = []
        self.shows_all = False
        self.backwards: tuple[str, ...] = ()
        self.add_argument("-h", "--help", action="help", help="Show this help")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """As argparse does; arguments may stand on both sides of an option, as kubectl's may."""
        found: argparse.Namespace
        found, rest = self.parse_known_args(args, namespace)  # type: ignore[no-untyped-call]
        if not rest:
            return found
        options = [at for at, word in enumerate(rest) if word.startswith("-") and word != "-"]
        if options and rest[options[0]] != "--":
            self.error(f"unrecognized arguments: {' '.join(rest[options[0] :])}")
        return super().parse_intermixed_args(args, namespace)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """As argparse does; ``--all`` beside ``-h`` unfolds the help."""
        self.shows_all = self.shows_all or "--all" in (args or ())
        if self.backwards and args:
            from qoslet.cli.times import joined

            for option in self.backwards:
                args = joined(args, option)
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """The help without folded options."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        folded = () if self.shows_all else self._unnamed()
        for group in self._action_groups:
            actions = group._group_actions
            shown = [one for one in actions if one not in folded]
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(shown)
            if len(shown) < len(actions):
                count = len(actions) - len(shown)
                formatter.add_text(f"{count} more {group.title}: qoslet help node, or -h --all")
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _unnamed(self) -> list[argparse.Action]:
        """The folded options that neither an example nor the help of another option names."""
        import re

        helps = [one.help or "" for one in self._actions if one not in self.folded]
        words = set(re.findall(r"--[a-z-]+", " ".join([self.epilog or "", *helps])))
        return [one for one in self.folded if words.isdisjoint(one.option_strings)]

    def print_help(self, file: object = None) -> None:
        """Write the help to standard output, whatever its encoding."""
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        emit(self.format_help().encode(encoding, "replace"))

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        hint = f"{self.prog} -h lists the options"
        unknown = "unrecognized arguments: "
        words = message.removeprefix(unknown).split() if message.startswith(unknown) else []
        for word in words:
            near = self._near(word) if word.startswith("--") else None
            if near:
                hint = f"did you mean {near}?"
                break
        where, colon, rest = message.removeprefix("argument ").partition(": ")
        if message.startswith("argument ") and colon:
            raise BadInput(rest, where=where, hint=hint)
        raise BadInput(message, hint=hint)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Raise BadInput for a value that is not a choice, with the choice that is meant."""
        if action.choices is None or value in action.choices:
            return
        from difflib import get_close_matches

        near = get_close_matches(str(value), list(map(str, action.choices)), 1, 0.6)
        hint = f"choose from {', '.join(map(str, action.choices))}"
        name = "/".join(action.option_strings) or str(action.metavar or action.dest)
        raise BadInput(
            f"invalid choice: {value!r}",
            where=name,
            hint=f"did you mean {near[0]}?" if near else hint,
        )

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        """As argparse does, without a pattern for an option of one value."""
        if action.nargs is None and action.option_strings and arg_strings_pattern[:1] == "A":
            return 1
        return super()._match_argument(action, arg_strings_pattern)

    def _match_arguments_partial(
        self, actions: Sequence[argparse.Action], arg_strings_pattern: str
    ) -> list[int]:
        """As argparse does, without a pattern for one argument that takes any number."""
        if len(actions) == 1 and actions[0].nargs == "*":
            return [len(arg_strings_pattern) - len(arg_strings_pattern.lstrip("A-"))]
        return super()._match_arguments_partial(actions, arg_strings_pattern)

    def _near(self, word: str) -> str | None:
        from difflib import get_close_matches

        known = [name for name in self._option_string_actions if name.startswith("--")]
        name = word.partition("=")[0]
        ends = [one for one in known if one.endswith(name[1:])]
        if len(ends) == 1 and name not in known:
            return ends[0]
        if name in known:
            return None
        found = get_close_matches(name[2:], [one[2:] for one in known], 1, 0.7)
        return f"--{found[0]}" if found else None


def add_output_argument(
    parser: argparse._ActionsContainer, choices: Sequence[str], what: str = ""
) -> None:
    """The option for the format of what is printed; the first choice is the default. ``what`` is
    the help, where a list of the choices does not do."""
    what = what or f"Print as {', '.join(choices[:-1])} or {choices[-1]}"
    parser.add_argument(
        "-o",
        "--output",
        choices=choices,
        default=choices[0],
        metavar="FORMAT",
        help=f"{what} (default: {choices[0]})",
    )


def add_schema_argument(parser: argparse.ArgumentParser, kind: str, **by_output: str) -> None:
    """The option of every command that prints a document: of that ``kind``, or of another for some
    values of ``--output``."""
    parser.add_argument(
        "--schema",
        action="store_const",
        const=(kind, by_output),
        default=False,
        help="Print the JSON Schema of the output",
    )


def add_shrink_argument(parser: argparse._ActionsContainer) -> None:
    """The option about memory limits below the usage."""
    parser.add_argument(
        "--shrink",
        choices=("converge", "refuse", "force"),
        default="converge",
        metavar="HOW",
        help="How to apply a memory limit below the current usage: converge (lower it gradually), "
        "refuse or force (default: converge)",
    )


def add_document_arguments(
    parser: argparse.ArgumentParser, positional: bool, *, namespace: bool = True
) -> None:
    """The options that name pods, and how they are read; ``namespace`` tells that ``-n`` chooses
    among them."""
    group = parser.add_argument_group("pods")
    if positional:
        group.add_argument("paths", nargs="*", metavar="FILE", help="The same as -f FILE")
    group.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="Read manifests from a file, a directory, or - for standard input (repeatable)",
    )
    add_recursive_argument(group)
    add_choice_arguments(group, namespace=namespace)
    add_resources_argument(group)
    group.add_argument(
        "--expand", action="store_true", help="Make one pod for each replica of a template"
    )


def add_recursive_argument(group: argparse._ActionsContainer) -> None:
    """``--recursive``."""
    group.add_argument(
        "-R", "--recursive", action="store_true", help="Read directories recursively"
    )


def add_resources_argument(group: argparse._ActionsContainer) -> None:
    """``--resources``."""
    group.add_argument(
        "--resources",
        choices=("spec", "allocated"),
        default="spec",
        metavar="FROM",
        help="Take resources from the spec, or as allocated in the status (default: spec)",
    )


def add_choice_arguments(group: argparse._ActionsContainer, *, namespace: bool = True) -> None:
    """The options that choose among the pods that are read, named as kubectl's."""
    if namespace:
        group.add_argument(
            "-n", "--namespace", metavar="NAME", help="Take the pods of this namespace only"
        )
    group.add_argument(
        "-l",
        "--selector",
        metavar="SELECTOR",
        help="Take the pods with these labels only, such as app=web,tier!=db or 'app in (a, b)'",
    )


def add_node_arguments(parser: argparse.ArgumentParser, root: str = "") -> None:
    """The options that describe the node: documents, and a flag for each row of FLAG_ROWS.
    ``root`` is what ``--cgroup-root`` means to a command that writes there."""
    from qoslet.core.node.flags import FLAG_ROWS

    group = parser.add_argument_group("node options")
    group.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="FILE",
        help="Read a KubeletConfiguration, kubectl's Node or qoslet's Node (repeatable)",
    )
    for row in FLAG_ROWS:
        if row.names[0] in parser._option_string_actions:
            continue  # the command's own option of this name decides about the node, too
        own = root if row.field == "cgroup_root" else ""
        help = (own or row.help).replace("%", "%%")
        action = group.add_argument(*row.names, dest=row.field, metavar=row.metavar, help=help)
        if isinstance(parser, Parser) and not own:
            parser.folded.append(action)


def add_live_argument(parser: argparse._ActionsContainer) -> None:
    """The option of commands that plan: documents from a running kubelet."""
    parser.add_argument(
        "--live",
        action="store_true",
        help="Take the configuration, and the pods where no -f is given, from the kubelet or agent that runs here",
    )


def add_what_if_arguments(parser: argparse._ActionsContainer) -> None:
    """The options that say what the other side of a comparison has."""
    from qoslet.core.diff.rehearsals import names

    parser.add_argument(
        "--to",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="What the other side has instead: KEY is a long option of qoslet plan, an empty VALUE "
        "unsets it (repeatable)",
    )
    parser.add_argument(
        "--rehearse",
        action="append",
        default=[],
        metavar="NAME",
        help=f"Compare as a name says: {names()} (repeatable)",
    )


def add_kubelet_arguments(parser: argparse.ArgumentParser, *, live: bool = False) -> None:
    """The options of whoever asks a kubelet, in a group of their own; with ``--live`` where it is to be asked for."""
    group = parser.add_argument_group("kubelet of this machine")
    if live:
        add_live_argument(group)
    group.add_argument(
        "--kubelet-pid", metavar="PID", type=int, help="Process of the kubelet, if several run"
    )
    group.add_argument(
        "--kubelet-ca",
        metavar="FILE",
        help="Certificate authorities of the kubelet's certificate (default: its own file, compared)",
    )
    group.add_argument("--kubelet-token", metavar="FILE", help="File with a bearer token")
    group.add_argument("--kubelet-cert", metavar="FILE", help="Client certificate (PEM)")
    group.add_argument(
        "--kubelet-key", metavar="FILE", help="Key of the client certificate, if in another file"
    )


def add_bundle_argument(parser: argparse.ArgumentParser) -> None:
    """The option of commands that look at a bundle instead of a machine."""
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        help="Look at the node in a file of qoslet bundle instead of this machine",
    )


def add_drawing_arguments(parser: argparse.ArgumentParser, exact: bool = True) -> None:
    """The options of everything that is drawn for people."""
    group = parser.add_argument_group("display options")
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        metavar="WHEN",
        help="Use colors: auto, always or never (default: auto)",
    )
    group.add_argument("--ascii", action="store_true", help="Draw with ASCII characters only")
    if exact:
        group.add_argument("--exact", action="store_true", help="Print every digit of numbers")


def screen(args: argparse.Namespace) -> Terminal:
    """What standard output shows, by the drawing options and the environment."""
    return terminal(sys.stdout, os.environ, args.color, args.ascii)


def emit_lines(lines: Sequence[str], shown: Terminal) -> None:
    """Write text lines; characters that the terminal's encoding lacks are escaped."""
    encoding = "utf-8" if shown.unicode else getattr(sys.stdout, "encoding", None) or "ascii"
    text = spelled("".join(f"{line}\n" for line in lines), "utf-8" if shown.unicode else "ascii")
    emit(text.encode(encoding, "backslashreplace"))


def jobs_of(text: str) -> int:
    """How many at the same time. Raises ArgumentTypeError."""
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= 1024):
        raise ArgumentTypeError("must be a number from 1 to 1024")
    return int(text)
