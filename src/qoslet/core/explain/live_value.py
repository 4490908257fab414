"""What a file holds on a machine, beside the value that is explained."""

from __future__ import annotations

from msgspec import Struct


class LiveValue(Struct, frozen=True):
    """``found`` None: the file is absent, or ``error`` says why it was not read. ``verdict``: that
    of an audit, None where the file is as planned. ``property_text``: what systemd says of it."""

    found: str | None
    error: str = ""
    verdict: str | None = None
    property_text: str | None = None
