"""Programs of this machine, by name."""

from __future__ import annotations

import os

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find_program(name: str) -> str | None:
    """The path of a program: in ``PATH`` of the environment, then in the usual directories. None
    where it is not installed."""
    for place in (*os.environ.get("PATH", "").split(":"), *PATH.split(":")):
        program = f"{place}/{name}"
        if place.startswith("/") and os.path.isfile(program) and os.access(program, os.X_OK):
            return os.path.realpath(program)
    return None
