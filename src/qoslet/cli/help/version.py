"""``qoslet version``, the same as ``qoslet --version``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.errors import EXIT_OK
from qoslet.render.text.streams import emit
from qoslet.version import VERSION

if TYPE_CHECKING:
    import argparse

USAGE = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(args: argparse.Namespace) -> int:
    """Print the version; the exit code."""
    emit(f"qoslet {VERSION}\n".encode())
    return EXIT_OK
