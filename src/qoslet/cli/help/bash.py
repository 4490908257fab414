"""The completion of bash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qoslet.cli.commands import COMMANDS
from qoslet.cli.help.options import Command, Option, commands

_HEAD = """\
# Completion of qoslet for bash, written by: qoslet completion bash
_qoslet() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]} options= values=
    COMPREPLY=()
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD-2]}
    fi
"""
_TAIL = """\
    if [[ $values == FILES ]]; then
        compopt -o filenames 2> /dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ $values != TEXT ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    fi
}
complete -F _qoslet qoslet
"""


def _case(indent: str, pattern: str, action: str) -> str:
    return f"{indent}{pattern}) {action} ;;"


def _offer(option: Option) -> str:
    words = {"file": "FILES", "text": "TEXT"}.get(option.values, " ".join(option.choices))
    return f"values='{words}'"


def _options(options: Iterable[Option], indent: str) -> Iterator[str]:
    """A row for each option that takes a value."""
    for option in options:
        if option.values != "none":
            yield _case(indent, "|".join(option.names), _offer(option))


def _command(command: Command, indent: str) -> Iterator[str]:
    names = [name for one in command.options if not one.node for name in one.names]
    yield f"{indent}{command.name})"
    yield f"{indent}    options='{' '.join(names)}'"
    if any(one.node for one in command.options):
        yield f'{indent}    options+=" $node"'
    yield f"{indent}    case $previous in"
    yield from _options((one for one in command.options if not one.node), f"{indent}        ")
    rest = _offer(command.arguments[0]) if command.arguments else "values="
    yield _case(f"{indent}        ", "*", rest)
    yield f"{indent}    esac ;;"


def script() -> str:
    """The whole script."""
    every = list(commands())
    node = {one.names: one for command in every for one in command.options if one.node}
    words = " ".join((*COMMANDS, "--help", "--version"))
    names = " ".join(name for option in node.values() for name in option.names)
    lines = [
        f"    local node='{names}'",
        "    if ((COMP_CWORD == 1)); then",
        f"        mapfile -t COMPREPLY < <(compgen -W '{words}' -- \"$current\")",
        "        return",
        "    fi",
        "    case $command in",
    ]
    for command in every:
        lines += _command(command, "        ")
    lines += ["        *) values=FILES ;;", "    esac", "    case $previous in"]
    lines += _options(node.values(), "        ")
    lines += ["    esac", "    if [[ $current == -* ]]; then values=$options; fi"]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL
