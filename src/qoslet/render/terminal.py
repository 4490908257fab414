"""How text reaches a terminal: what is safe to print, in which colours, how wide.

``printable`` is the only way for a name or a value into text: control characters, direction
marks and lone surrogates come out escaped. The rest decides from facts that ``Terminal`` holds,
so every output can be drawn in a test without a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TextIO

from msgspec import Struct

ColorChoice = Literal["auto", "always", "never"]

UNLIMITED = 1_000_000
"""The width of something that does not wrap: a pipe or a file."""

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class Terminal(Struct, frozen=True):
    """What the text is drawn for: columns, whether colour and box characters are welcome."""

    width: int = UNLIMITED
    color: bool = False
    unicode: bool = True

    def paint(self, text: str, *styles: str) -> str:
        """``text`` in ``styles`` (keys of the colour table), or as it is without colour."""
        if not self.color or not styles or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def mark(self, nice: str, plain: str) -> str:
        """``nice`` where the terminal shows Unicode, else ``plain``."""
        return nice if self.unicode else plain


def printable(text: str) -> str:
    """``text`` with every character that a terminal could obey written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; one that was closed at the start is None."""
    return stream is not None and stream.isatty()


def terminal(
    stream: TextIO | None,
    environment: Mapping[str, str],
    choice: ColorChoice = "auto",
    ascii_only: bool = False,
) -> Terminal:
    """The facts about ``stream``: NO_COLOR and TERM=dumb switch colour off, COLUMNS rules."""
    tty = is_terminal(stream)
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    wanted = tty and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return Terminal(
        width=_width(stream, tty, environment.get("COLUMNS", "")),
        color=choice == "always" or (choice == "auto" and wanted),
        unicode=not ascii_only and encoding.startswith("utf"),
    )


def _width(stream: TextIO | None, tty: bool, columns: str) -> int:
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return max(int(columns), 20)
    if not tty or stream is None:
        return UNLIMITED
    from os import get_terminal_size

    try:
        # a serial line or a new pseudo terminal has 0: nobody has said how wide it is
        return max(get_terminal_size(stream.fileno()).columns or 80, 20)
    except OSError:
        return 80


def display_width(text: str) -> int:
    """Columns that ``text`` takes: wide East Asian characters two, combining marks none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def pad(text: str, width: int, right: bool = False) -> str:
    """``text`` filled with spaces to ``width`` columns; longer text stays."""
    space = " " * max(0, width - display_width(text))
    return space + text if right else text + space


def cut(text: str, width: int, ellipsis: str) -> str:
    """``text`` in at most ``width`` columns, with ``ellipsis`` in its middle where it is cut."""
    if display_width(text) <= width:
        return text
    keep = max(width - len(ellipsis), 0)
    head = (keep + 1) // 2
    tail = keep - head
    if not text.isascii():
        while display_width(text[:head]) + display_width(text[len(text) - tail :]) > keep:
            head, tail = (head - 1, tail) if head > tail else (head, tail - 1)
    return (text[:head] + ellipsis + text[len(text) - tail :])[: max(width, 0)]


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """``text`` broken at spaces into lines of ``width`` columns, each after ``indent``.

    A word longer than a line stays whole: it is a path that somebody wants to copy.
    """
    room = max(width - display_width(indent), 20)
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if line and display_width(joined) > room:
            lines.append(indent + line)
            line = word
        else:
            line = joined
    lines.append(indent + line)
    return lines
