"""The completion of zsh."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.cli.help.options import Command, Option, commands

_HEAD = """\
#compdef qoslet
# Completion of qoslet for zsh, written by: qoslet completion zsh
_qoslet() {
    local command=$words[2]
    local -a commands
    commands=(
"""
_CHOOSE = """\
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $command in
"""
_TAIL = """\
    esac
}
if [[ $funcstack[1] == _qoslet ]]; then
    _qoslet "$@"
else
    compdef _qoslet qoslet
fi
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _plain(text: str) -> str:
    """Text without what ``_arguments`` reads as its own."""
    for sign in "\\:[]":
        text = text.replace(sign, f"\\{sign}")
    return text


def _value(option: Option) -> str:
    """``:FORMAT:(tree table)``."""
    if option.values == "none":
        return ""
    action = "_files" if option.values == "file" else " "
    if option.values == "choice":
        action = f"({' '.join(option.choices)})"
    metavar = option.metavar
    colons = "::" if metavar.startswith("[") else ":"
    return f"{colons}{_plain(metavar.strip('[]'))}:{action}"


def _rows(command: Command) -> Iterator[str]:
    for option in command.options:
        excluded = "" if option.repeats else f"({' '.join(option.names)})"
        repeated = "*" if option.repeats else ""
        for name in option.names:
            yield _quoted(f"{excluded}{repeated}{name}[{_plain(option.help)}]{_value(option)}")
    for argument in command.arguments:
        yield _quoted(("*" if argument.repeats else "") + _value(argument))


def script() -> str:
    """The whole script."""
    every = list(commands())
    head = [f"        {_quoted(f'{one.name}:{_plain(one.about)}')}" for one in every]
    lines = []
    for command in every:
        lines.append(f"        {command.name})")
        lines.append("            _arguments -s \\")
        rows = [f"                {row}" for row in _rows(command)]
        lines.append(" \\\n".join(rows) + " ;;")
    return _HEAD + "\n".join(head) + "\n" + _CHOOSE + "\n".join(lines) + "\n" + _TAIL
