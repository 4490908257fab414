"""One line of ``doctor``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["ok", "missing", "unknown"]


class DoctorFinding(Struct, frozen=True):
    """One line: a topic, its state and value; for what is not ok, its cost and the remedy."""

    topic: str
    state: State
    value: str
    cost: str = ""
    remedy: str = ""
