"""What will be done, as values: described, ordered, and only then performed by a driver."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

StepKind = Literal["create", "set", "attach", "remove"]


class Step(Struct, frozen=True, gc=False):
    """One change of one group. ``path`` is concrete, from the hierarchy's root.

    ``file`` and ``value`` belong to ``set``; ``pid`` to ``attach``. ``why`` is the rule or the
    difference that asks for it.
    """

    kind: StepKind
    path: str
    file: str = ""
    value: str = ""
    pid: int = 0
    why: str = ""

    def describe(self) -> str:
        """The step as a person would say it."""
        match self.kind:
            case "set":
                return f"set {self.path}/{self.file} = {self.value}"
            case "attach":
                return f"move process {self.pid} into {self.path}"
            case _:
                return f"{self.kind} {self.path}"


class Outcome(Struct, frozen=True, gc=False):
    """What came of a step. ``before`` is the value that a ``set`` replaced, None if unknown;
    ``error`` is None if it worked; ``errno_name`` such as ``EBUSY`` where the kernel refused."""

    step: Step
    before: str | None = None
    error: str | None = None
    errno_name: str | None = None
