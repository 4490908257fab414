"""Small files of /proc and /sys, read whole."""

from __future__ import annotations


def text(path: str) -> str | None:
    """The file's text; None where it cannot be read, which is not the same as empty."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
