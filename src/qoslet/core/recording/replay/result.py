"""What a replay found: decisions, kills with what became of them in the recording, and stalls."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.pressure.guard_mode import Mode

Cause = Literal["stall", "shortage"]
Outcome = Literal["stalled", "progressed", "gone", "unknown"]
"""What the recording says of a container after the policy would have killed it: it stayed stalled (or
the node short) to the end; it made progress, so the kill was false; it went, or the kernel killed in
it; its memory.high was changed, so the recording proves nothing."""


class ReplayDecision(Struct, frozen=True):
    """A decision. ``seconds`` is since the recording's begin, ``wall`` since 1970; ``answer`` is as
    of ``GuardDecision``, ``value`` bytes."""

    wall: float
    seconds: float
    cause: Cause
    path: str
    pod: str
    container: str
    mode: Mode
    answer: str
    value: int
    because: str
    numbers: str = ""


class ReplayKill(Struct, frozen=True):
    """A container or pod that the policy would have killed. ``after`` is seconds until the outcome;
    None where it did not change until the end of the recording."""

    wall: float
    seconds: float
    cause: Cause
    path: str
    pod: str
    container: str
    because: str
    outcome: Outcome = "stalled"
    after: float | None = None

    @property
    def is_false(self) -> bool:
        """Whether the recording shows that it would have got on without."""
        return self.outcome == "progressed"


class ReplayStall(Struct, frozen=True):
    """A stall that was recorded. ``begin`` and ``end`` are seconds since the recording's begin, the
    end None where it lasts until the last moment. ``relief`` is seconds from its begin until the
    policy's ``relieved_by`` answers it; None where nothing does."""

    path: str
    pod: str
    container: str
    begin: float
    end: float | None = None
    relief: float | None = None
    relieved_by: str = ""


class ReplayResult(Struct, frozen=True):
    """The whole answer, over ``seconds`` in ``moments``."""

    moments: int
    seconds: float
    interval: float
    decisions: tuple[ReplayDecision, ...]
    kills: tuple[ReplayKill, ...]
    stalls: tuple[ReplayStall, ...]

    @property
    def false_kills(self) -> int:
        """How many containers would have got on."""
        return sum(kill.is_false for kill in self.kills)
