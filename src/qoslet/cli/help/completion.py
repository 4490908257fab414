"""``qoslet completion``: a script that teaches a shell the commands and options."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qoslet.errors import EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish")
USAGE = "SHELL"
EPILOG = """\
examples:
  qoslet completion bash > /usr/share/bash-completion/completions/qoslet
  qoslet completion zsh > /usr/share/zsh/site-functions/_qoslet
  qoslet completion fish > ~/.config/fish/completions/qoslet.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The argument of the command."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def script(shell: str) -> str:
    """The script for a shell."""
    text: str = import_module(f"qoslet.cli.help.{shell}").script()
    return text


def run(args: argparse.Namespace) -> int:
    """Print the script; the exit code."""
    emit(script(args.shell).encode())
    return EXIT_OK
