"""The result of a conversion: rows, a refusal, what is not supported."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.rules.catalog import Reasoned

Hierarchy = Literal["v1", "v2"]
Fate = Literal["ignored", "refused", "elsewhere"]
Verdict = Literal["enforced", "approximated", "absent"]


class Row(Struct, Reasoned, frozen=True, gc=False):
    """One file (or unit property) and what is written there.

    ``field`` is the value's field in the input; ``effective`` what is read back, None if that is
    ``value``; ``rule`` and ``inputs`` as in ``cgroup_tree.Setting``.
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
    """Why a runtime stops: the rows before it are written, those after it are not.

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
        return "kernel" if self.rule in ("refused.kernel", "refused.bfq") else "runtime"


class Unsupported(Struct, frozen=True, gc=False):
    """Something that the target cannot express: why, what to use instead, and its fate.

    ``field`` is None if no field of the input asks for it, such as accounting.
    """

    what: str
    why: str
    instead: str
    fate: Fate = "ignored"
    field: str | None = None


class Parity(Struct, frozen=True, gc=False):
    """A setting of a pod on Windows: whether it is enforced, how, and what to use instead."""

    what: str
    asked: str
    verdict: Verdict
    how: str
    instead: str = ""


class BlockResult(Struct, frozen=True):
    """The result of one resource block. ``message`` is the converted message, if the target is
    one."""

    rows: tuple[Row, ...] = ()
    refusal: Refusal | None = None
    lost: tuple[Unsupported, ...] = ()
    message: dict[str, object] | None = None
    name: str = ""
    parity: tuple[Parity, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether the runtime or the kernel rejects the block or a part of it."""
        return self.refusal is not None or any(row.fate == "refused" for row in self.lost)


class Stop(Exception):
    """Ends the writing of a block with its refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
