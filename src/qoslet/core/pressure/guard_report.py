"""What the guard did, for surfaces."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.pressure.guard_decision import Answer
from qoslet.core.pressure.guard_mode import Mode
from qoslet.core.pressure.throttle_guard import GUARD_POLICY, GuardPolicy


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
        """The decision in one line: what was done, and why."""
        who = f"{self.pod}/{self.container}".strip("/") or self.path
        done = (_DONE if self.mode == "act" else _WOULD)[self.answer].format(who)
        why = "" if self.answer in ("lower", "restore") else "stalled at memory.high: "
        text = f"{done}: {why}{self.because}"
        numbers = f" ({self.numbers})" if self.numbers else ""
        return f"{text}{numbers}" + (f"; it failed: {self.error}" if self.error else "")


_DONE: dict[Answer, str] = {
    "reclaim": "reclaiming memory of {}",
    "raise": "raised memory.high of {}",
    "limit": "removed memory.high of {}",
    "end": "killed container {}",
    "evict": "evicting the pod of container {}",
    "lower": "lowered memory.high of {}",
    "restore": "restored the planned memory.high of {}",
    "none": "no action for {}",
}
_WOULD: dict[Answer, str] = {
    "reclaim": "would reclaim memory of {}",
    "raise": "would raise memory.high of {}",
    "limit": "would remove memory.high of {}",
    "end": "would kill container {}",
    "evict": "would evict the pod of container {}",
    "lower": "would lower memory.high of {}",
    "restore": "would restore the planned memory.high of {}",
    "none": "would do nothing for {}",
}


class SaidDecisions(Struct, frozen=True):
    """When what was said of a cgroup without changing anything, in monotonic seconds by ``GuardDecision.key``."""

    times: dict[str, float] = {}

    def after(
        self, key: str, now: float, *, changes: bool, policy: GuardPolicy = GUARD_POLICY
    ) -> SaidDecisions | None:
        """With one more; empty after one that ``changes`` something. None where it is no news: it changes
        nothing, and was said a short while ago, whatever was said since."""
        if changes:
            return SaidDecisions()
        recent = {one: at for one, at in self.times.items() if now - at < policy.log_repeat_seconds}
        return None if key in recent else SaidDecisions({**recent, key: now})


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
