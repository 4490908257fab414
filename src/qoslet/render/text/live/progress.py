"""How far long work is, on one line of a terminal, with the time that is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Self, TextIO

from qoslet.render.terminal import is_terminal, printable, terminal

_EVERY = 0.2
_AFTER = 1.0
"""Seconds between two lines, and before the first: short work shows none."""


class Progress:
    """Call it with what is being done, how much of it is done, and how much there is. It prints only
    on a terminal, and takes its line away at the end of its context."""

    def __init__(self, stream: TextIO | None, after_seconds: float = _AFTER) -> None:
        self._stream = stream if is_terminal(stream) else None
        self._width = terminal(stream, os.environ).width if self._stream else 0
        self._what = ""
        self._began = monotonic()
        self._next = self._began + after_seconds
        self._shown = False

    def __call__(self, what: str, done: int, whole: int | None) -> None:
        """Show it, if it is time."""
        if self._stream is None:
            return
        now = monotonic()
        if what != self._what:
            self._what, self._began = what, now
        if now < self._next:
            return
        self._next, self._shown = now + _EVERY, True
        text = line(what, done, whole, now - self._began)
        self._write(f"\r\x1b[K{printable(text)[: self._width - 1]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, text: str) -> None:
        try:
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        except (OSError, ValueError):
            self._stream = None


@contextmanager
def working(stream: TextIO | None, what: str) -> Iterator[None]:
    """Show at once what is waited for, while the context lasts."""
    with Progress(stream, 0.0) as progress:
        progress(what, 0, None)
        yield


def line(what: str, done: int, whole: int | None, seconds: float) -> str:
    """What is shown after so many seconds."""
    if not (whole or done):
        return what
    if not whole:
        return f"{what}: {done / 2**20:.0f} MiB"
    part = min(done / whole, 1.0)
    left = seconds / part - seconds if part > 0.01 else None
    rest = "" if left is None else f", {_time(left)} left"
    return f"{what}: {part * 100:.0f}%{rest}"


def _time(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
