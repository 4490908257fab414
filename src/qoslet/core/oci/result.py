"""What a conversion says: rows, a refusal, what is lost; and what it converts for."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.rules.catalog import Reasoned

Hierarchy = Literal["v1", "v2"]
Fate = Literal["ignored", "refused", "elsewhere"]
Verdict = Literal["enforced", "approximated", "absent"]


class Row(Struct, Reasoned, frozen=True, gc=False):
    """One file (or unit property) and what is written there.

    ``field`` is where the value stands in the input; ``effective`` what the kernel makes of it,
    None where it stands as written; ``rule`` and ``inputs`` as in ``tree.Setting``.
    """

    file: str
    value: str
    field: str
    rule: str
    inputs: tuple[object, ...] = ()
    effective: str | None = None

    @property
    def applied(self) -> str:
        """The value that is read back."""
        return self.value if self.effective is None else self.effective


class Refusal(Struct, Reasoned, frozen=True, gc=False):
    """Why a runtime stops: the rows before it were written, those after it are not.

    ``message`` holds the runtime's own words, or the kernel's with ``file``.
    """

    field: str
    message: str
    rule: str
    inputs: tuple[object, ...] = ()
    file: str | None = None

    @property
    def by(self) -> Literal["runtime", "kernel"]:
        """Who refuses."""
        return "kernel" if self.rule == "refused.kernel" else "runtime"


class Lost(Struct, frozen=True, gc=False):
    """What the other side cannot express: why, what does it instead, and what becomes of it.

    ``field`` is None for what no field asks for, such as accounting.
    """

    what: str
    why: str
    instead: str
    fate: Fate = "ignored"
    field: str | None = None


class Parity(Struct, frozen=True, gc=False):
    """One thing that a pod asks of Windows: what becomes of it, how, and what helps instead."""

    what: str
    asked: str
    verdict: Verdict
    how: str
    instead: str = ""


class Part(Struct, frozen=True):
    """One resource block's answer. ``message`` is the other spelling where one was asked for."""

    rows: tuple[Row, ...] = ()
    refusal: Refusal | None = None
    lost: tuple[Lost, ...] = ()
    message: dict[str, object] | None = None
    name: str = ""
    parity: tuple[Parity, ...] = ()


class Stop(Exception):
    """Ends the writing of a block with its refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
