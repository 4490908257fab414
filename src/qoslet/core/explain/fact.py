"""One field that a value is computed from."""

from __future__ import annotations

from msgspec import Struct


class Fact(Struct, frozen=True):
    """One field: ``given`` is its text, ``value`` the number that it means, else the same text;
    ``where`` is the document, flag, ``default`` or ``probed``."""

    field: str
    given: str
    value: str
    where: str
