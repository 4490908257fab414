"""Collects what is wrong with node documents and flags, in words that may be shown."""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.errors import BadInput, BadInputs

_SHOWN = 60


def shown(value: object) -> str:
    """``value`` quoted for a message: control characters escaped, cut to a bounded length."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "a huge number"
    if not isinstance(value, str | int | float | bool):
        return kind_of(value)
    text = repr(value if not isinstance(value, str) else value[: _SHOWN + 1])
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}…"


def place(where: str) -> str:
    """``where`` as it may be shown: escaped, and cut to a bounded length."""
    cut = where if len(where) <= 300 else f"{where[:300]}…"
    return cut if cut.isprintable() else repr(cut)[1:-1]


class Faults:
    """Collects what is wrong with the input; ``check`` raises all of it as BadInputs."""

    limit = 200
    """Faults that are kept. Readers of long maps stop there, so that garbage costs little."""

    def __init__(self) -> None:
        self.found: list[BadInput] = []

    @property
    def full(self) -> bool:
        """Whether enough was found."""
        return len(self.found) >= self.limit

    def add(self, where: str, message: str, hint: str = "") -> None:
        """One more fault at ``where``."""
        if not self.full:
            self.found.append(BadInput(message, where=place(where), hint=hint))

    def check(self) -> None:
        """Raise BadInputs if there was any fault."""
        if self.found:
            raise BadInputs(self.found)


def close_to(name: str, known: Iterable[str]) -> str:
    """``did you mean X?`` for a mistyped name, or an empty text."""
    from difflib import get_close_matches

    folded = {entry.lower(): entry for entry in known}
    near = get_close_matches(name.lower()[:100], folded, n=1, cutoff=0.7)
    return f"did you mean {folded[near[0]]}?" if near else ""


def kind_of(value: object) -> str:
    """The JSON name of a decoded value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list | tuple) else "a map"
