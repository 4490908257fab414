"""What the guard did, for surfaces."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.pressure.guard_decision import Answer
from qoslet.core.pressure.guard_mode import Mode


class GuardRow(Struct, frozen=True):
    """A decision. ``at`` is wall-clock seconds; ``value`` is as of ``GuardDecision``; ``numbers``
    is the evidence of the verdict; ``error`` is empty if it worked."""

    at: float
    path: str
    pod: str
    container: str
    mode: Mode
    answer: Answer
    value: int
    because: str
    numbers: str
    error: str = ""

    def describe(self) -> str:
        """The decision in one line."""
        who = f"{self.pod}/{self.container}".strip("/") or self.path
        done = _DONE[self.answer] if self.mode == "act" else f"would {_WOULD[self.answer]}"
        text = f"{who}: stalled at memory.high: {done}: {self.because}"
        if self.answer in ("lower", "restore"):
            text = f"{who}: {done}: {self.because}"
        numbers = f" ({self.numbers})" if self.numbers else ""
        return f"{text}{numbers}" + (f"; it failed: {self.error}" if self.error else "")


_DONE: dict[Answer, str] = {
    "reclaim": "reclaiming memory",
    "raise": "raised memory.high",
    "limit": "removed memory.high",
    "end": "killed the container",
    "lower": "lowered memory.high",
    "restore": "restored the planned memory.high",
    "none": "no action",
}
_WOULD: dict[Answer, str] = {
    "reclaim": "reclaim memory",
    "raise": "raise memory.high",
    "limit": "remove memory.high",
    "end": "kill the container",
    "lower": "lower memory.high",
    "restore": "restore memory.high",
    "none": "do nothing",
}


class OverrideRow(Struct, frozen=True):
    """A memory.high that differs from the plan since ``since`` (wall-clock seconds)."""

    path: str
    planned: int
    value: int
    since: float
    because: str


class GuardReport(Struct, frozen=True):
    """The last decisions, the overrides in force (``held``), and the number of decisions by
    ``mode/answer``."""

    decisions: tuple[GuardRow, ...] = ()
    held: tuple[OverrideRow, ...] = ()
    counts: dict[str, int] = {}


NO_GUARD_REPORT = GuardReport()
