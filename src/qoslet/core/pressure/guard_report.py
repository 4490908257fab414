"""What the guard did, as it is kept and shown."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.pressure.guard_decision import Answer
from qoslet.core.pressure.throttle_guard import Mode


class GuardRow(Struct, frozen=True):
    """A decision as it is kept and shown. ``at`` is wall-clock seconds; ``value`` as of
    ``Decision``; ``numbers`` is what the verdict stood on; ``error`` is empty where it worked."""

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
    "reclaim": "what is cold is reclaimed",
    "raise": "memory.high is raised",
    "limit": "memory.high is lifted",
    "end": "the container is ended",
    "lower": "memory.high is lowered",
    "restore": "memory.high is as planned again",
    "none": "nothing is done",
}
_WOULD: dict[Answer, str] = {
    "reclaim": "reclaim what is cold",
    "raise": "raise memory.high",
    "limit": "lift memory.high",
    "end": "end the container",
    "lower": "lower memory.high",
    "restore": "restore memory.high",
    "none": "do nothing",
}


class OverrideRow(Struct, frozen=True):
    """A memory.high that is another one than planned, for a while. ``since`` is wall-clock
    seconds."""

    path: str
    planned: int
    value: int
    since: float
    because: str


class GuardReport(Struct, frozen=True):
    """What the guard did: the last decisions, what it holds, and how often it answered how by
    ``mode/answer``."""

    decisions: tuple[GuardRow, ...] = ()
    held: tuple[OverrideRow, ...] = ()
    counts: dict[str, int] = {}


NO_GUARD_REPORT = GuardReport()
