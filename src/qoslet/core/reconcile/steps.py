"""Steps: changes of cgroups as values, and their outcomes. ``step_order`` orders them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

StepKind = Literal["create", "set", "attach", "remove"]


class Step(Struct, frozen=True, gc=False):
    """One change of one cgroup. ``path`` is concrete, from the hierarchy's root.

    ``file`` and ``value`` belong to ``set``; ``pid`` to ``attach``. ``why`` is the rule or the
    cause of the difference. ``gently``: a memory limit below the usage; page cache is reclaimed
    first, and the limit is written only if the rest fits.
    """

    kind: StepKind
    path: str
    file: str = ""
    value: str = ""
    pid: int = 0
    why: str = ""
    gently: bool = False

    def command(self) -> str:
        """The step as what is done to the hierarchy: ``mkdir``, ``write`` or ``rmdir``."""
        match self.kind:
            case "create":
                return f"mkdir {self.path}"
            case "remove":
                return f"rmdir {self.path}"
            case "attach":
                return f"write {self.path}/cgroup.procs = {self.pid}"
        return f"write {self.path}/{self.file} = {self.value}"

    def describe(self) -> str:
        """The step for people."""
        match self.kind:
            case "set":
                return f"set {self.path}/{self.file} = {self.value}"
            case "attach":
                return f"move process {self.pid} into {self.path}"
            case _:
                return f"{self.kind} {self.path}"


class Outcome(Struct, frozen=True, gc=False):
    """The outcome of a step. ``before`` is the value that a ``set`` replaced, None if unknown.
    ``error`` is None on success; ``errno_name`` is such as ``EBUSY`` if the kernel refused it.
    ``pending``: the step runs, or waits for one that does; its outcome follows."""

    step: Step
    before: str | None = None
    error: str | None = None
    errno_name: str | None = None
    pending: bool = False
