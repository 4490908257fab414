"""Something that the reader of a plan or a document should know."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning", "info"]


class Problem(Struct, frozen=True, gc=False):
    """Something to know about the plan: a quirk, an overcommit, a misfit, a trap."""

    severity: Severity
    where: str
    message: str
    hint: str
