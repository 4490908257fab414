"""The completion of fish."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.cli.help.options import Command, Option, commands


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _takes(option: Option) -> str:
    """What follows the option."""
    if option.values == "none":
        return ""
    if option.values == "file":
        return " -r -F"
    choices = f" -a {_quoted(' '.join(option.choices))}" if option.values == "choice" else ""
    return f" -x{choices}"


def _rows(command: Command) -> Iterator[str]:
    when = f"complete -c qoslet -n '__fish_seen_subcommand_from {command.name}'"
    for option in command.options:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
        )
        yield f"{when} {names}{_takes(option)} -d {_quoted(option.help)}"
    for argument in command.arguments[:1]:
        if argument.values == "file":
            yield f"{when} -F"
        elif argument.values == "choice":
            yield f"{when} -a {_quoted(' '.join(argument.choices))}"


def script() -> str:
    """The whole script."""
    every = list(commands())
    lines = [
        "# Completion of qoslet for fish, written by: qoslet completion fish",
        "complete -c qoslet -f",
        "complete -c qoslet -n __fish_use_subcommand -l help -s h -d 'Show the commands'",
        "complete -c qoslet -n __fish_use_subcommand -l version -d 'Print the version'",
    ]
    for command in every:
        about = _quoted(command.about)
        lines.append(f"complete -c qoslet -n __fish_use_subcommand -a {command.name} -d {about}")
    for command in every:
        lines += _rows(command)
    return "\n".join(lines) + "\n"
