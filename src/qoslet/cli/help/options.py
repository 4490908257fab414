"""The options of the commands as values, for completion scripts and the man page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from qoslet.cli.commands import COMMANDS, parser_of
from qoslet.core.node.flags import FLAG_ROWS

Values = Literal["none", "choice", "file", "text"]

_FILES = ("FILE", "DIR", "PATH", "SOCKET")


class Option(Struct, frozen=True):
    """An option, or an argument where ``names`` is empty. ``values`` tells how its value is
    completed, ``node`` whether it describes the node."""

    names: tuple[str, ...]
    metavar: str
    help: str
    values: Values
    choices: tuple[str, ...] = ()
    repeats: bool = False
    node: bool = False


class Command(Struct, frozen=True):
    """A command with all that it accepts."""

    name: str
    about: str
    usage: str
    options: tuple[Option, ...]
    arguments: tuple[Option, ...]
    epilog: str


def _choices(action: argparse.Action) -> tuple[str, ...]:
    """What a shell offers for a value."""
    if action.choices:
        return tuple(map(str, action.choices))
    for row in FLAG_ROWS:
        if row.field == action.dest and action.option_strings:
            return ("true", "false") if row.shape == "bool" else row.values
    return ()


def _values(action: argparse.Action, metavar: str) -> Values:
    if action.nargs == 0:
        return "none"
    if _choices(action):
        return "choice"
    return "file" if metavar.rpartition("=")[2] in _FILES else "text"


def _option(action: argparse.Action, node: bool) -> Option:
    metavar = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    names = tuple(action.option_strings)
    return Option(
        names=names if not names or not names[0].startswith("--") else names[:1],
        metavar=f"[{metavar}]" if names and action.nargs == "?" else metavar,
        help=(action.help or "").replace("%%", "%"),
        values=_values(action, metavar),
        choices=_choices(action),
        repeats=isinstance(action, argparse._AppendAction) or action.nargs == "*",
        node=node,
    )


def command(name: str) -> Command:
    """A command, read from its parser."""
    parser = parser_of(name)
    found = [_option(one, one in parser.folded) for one in parser._actions]
    return Command(
        name=name,
        about=COMMANDS[name][1],
        usage=str(parser.usage).removeprefix("qoslet "),
        options=tuple(one for one in found if one.names),
        arguments=tuple(one for one in found if not one.names),
        epilog=parser.epilog or "",
    )


def commands() -> Iterator[Command]:
    """Every command."""
    return map(command, COMMANDS)
