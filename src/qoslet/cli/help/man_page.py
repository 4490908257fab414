"""The man page ``qoslet(1)``, in roff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qoslet.cli.commands import COMMANDS, GROUPS, TOPICS
from qoslet.cli.help.options import Command, Option, commands

_ABOUT = (
    "qoslet is the pod resource manager of a Kubernetes node as a tool. It computes the cgroups of "
    "pods exactly as a kubelet and a container runtime do, explains every value, and can create "
    "the cgroups and run the pods on one machine without a cluster."
)
_EXIT = (
    ("0", "Success."),
    ("1", "The answer is no: the plan has an error, or something still differs."),
    ("2", "Bad input: a document or an option is invalid."),
    ("3", "Not possible on this machine."),
    ("130", "Interrupted."),
)
_ENVIRONMENT = (
    ("COLUMNS", "Width of the output."),
    ("NO_COLOR", "If set, print without colors."),
    ("QOSLET_DEBUG", "If 1, print the traceback of an internal error."),
    ("XDG_RUNTIME_DIR", "Where a user's agent keeps its socket and its journal."),
)
_FILES = (
    ("/run/qoslet", "Sockets and journals of root's agents, by cgroup root."),
    ("/var/lib/qoslet", "Unpacked images, and what containers write."),
)


def _text(text: str) -> str:
    """Text on one roff line."""
    found = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{found}" if found.startswith((".", "'")) else found


def _tagged(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for tag, text in rows:
        yield ".TP"
        yield f"\\fB{_text(tag)}\\fR"
        yield _text(text)


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
        metavar = f"\\fI{_text(option.metavar)}\\fR" if option.metavar else ""
        yield ".TP"
        yield " ".join(filter(None, (names, metavar)))
        yield _text(option.help)


def _epilog(text: str) -> Iterator[str]:
    """Paragraphs; lines that are indented are an example."""
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.splitlines()
        plain = [line for line in lines if not line.startswith(" ")]
        examples = [line.strip() for line in lines if line.startswith(" ")]
        yield ".PP"
        yield _text(" ".join(plain))
        if examples:
            yield ".nf"
            yield ".RS 4"
            yield from map(_text, examples)
            yield ".RE"
            yield ".fi"


def _command(command: Command) -> Iterator[str]:
    yield f".SS {_text(command.usage)}"
    yield f"{_text(command.about)}."
    yield from _options(command.arguments)
    yield from _options(one for one in command.options if not one.node and "-h" not in one.names)
    if any(one.node for one in command.options):
        yield ".PP"
        yield "The node options are listed in \\fBNODE OPTIONS\\fR."
    yield from _epilog(command.epilog) if command.epilog else ()


def page() -> str:
    """The whole page."""
    every = list(commands())
    node = {one.names: one for command in every for one in command.options if one.node}
    lines = [
        '.\\" Written by: qoslet help \\-\\-man',
        ".TH QOSLET 1",
        ".SH NAME",
        "qoslet \\- plan, explain and run the cgroups of Kubernetes pods",
        ".SH SYNOPSIS",
        "\\fBqoslet\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...",
        ".SH DESCRIPTION",
        _text(_ABOUT),
    ]
    for group, heading in GROUPS.items():
        lines += [".PP", f"Commands to {_text(heading)}:" if group != "help" else "Help:"]
        lines += _tagged(
            (name, f"{about}.") for name, (own, about) in COMMANDS.items() if own == group
        )
    lines.append(".SH COMMANDS")
    for command in every:
        lines += _command(command)
    lines += [".SH NODE OPTIONS", _text(TOPICS["node"]), *_options(node.values())]
    for title, rows in (
        ("EXIT STATUS", _EXIT),
        ("ENVIRONMENT", _ENVIRONMENT),
        ("FILES", _FILES),
    ):
        lines += [f".SH {title}", *_tagged(rows)]
    lines += [".SH SEE ALSO", "\\fBcgroups\\fR(7), \\fBsystemd.resource\\-control\\fR(5)"]
    return "\n".join(lines) + "\n"
