"""Log lines about memory: what matters is logged at once, and then not again for a while."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from qoslet.core.memory.events import EventKind
from qoslet.core.memory.rows import MemoryEvent

REPEAT_SECONDS: dict[EventKind, float] = {
    "oom_kill": 10.0,
    "high": 600.0,
    "low": 600.0,
    "below_low": 60.0,
    "below_min": 60.0,
    "pressure": 600.0,
    "pressure_end": 600.0,
}
"""Seconds after a line in which the same of the same group is only counted. What is not here is
never said: a limit that is met is no news, and kills tell who was out of memory."""
MAX_LINES = 10
"""Lines in ``WINDOW_SECONDS`` seconds, over all groups."""
WINDOW_SECONDS = 60.0

_TEXT: dict[EventKind, str] = {
    "low": "reclaimed below memory.low {times}",
    "high": "throttled {times} at memory.high",
    "max": "hit its memory limit {times}",
    "oom": "out of memory {times}",
    "oom_group_kill": "OOM-killed as a whole {times}",
    "below_low": "reclaimed below its protection (memory.low) {times}",
    "below_min": "reclaimed below its protection (memory.min) {times}",
    "pressure": "memory pressure started",
    "pressure_end": "memory pressure ended",
}


class _LoggedLine(Struct):
    """When a line was logged, and how many events since were not."""

    at: float
    count: int = 0


class MemoryEventLog:
    """Decides which events become log lines."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, EventKind], _LoggedLine] = {}
        self._window = 0.0
        self._lines = 0
        self._dropped = 0

    def lines(self, events: Iterable[MemoryEvent], now: float) -> list[str]:
        """The lines for these events; ``now`` is monotonic seconds."""
        found: list[str] = []
        if now - self._window >= WINDOW_SECONDS:
            if self._dropped:
                found.append(f"{self._dropped} more memory events suppressed; see qoslet ps")
            self._window, self._lines, self._dropped = now, 0, 0
            self._said = {
                key: one
                for key, one in self._said.items()
                if one.count or now - one.at < REPEAT_SECONDS[key[1]]
            }
        for one in _without_pods(events):
            line = self._line(one, now)
            if line and self._lines >= MAX_LINES:
                self._dropped += 1
            elif line:
                self._lines += 1
                found.append(line)
        return found

    def _line(self, one: MemoryEvent, now: float) -> str:
        """The line of an event; empty within its quiet time."""
        key = (one.path, one.kind)
        if one.kind not in REPEAT_SECONDS:
            return ""
        said = self._said.get(key)
        # each process that died is named
        if said is not None and now - said.at < REPEAT_SECONDS[one.kind] and not one.process:
            said.count += one.count
            return ""
        count = one.count + (said.count if said is not None else 0)
        self._said[key] = _LoggedLine(now)
        return f"{one.title}: {sentence(one, count)}"


def sentence(one: MemoryEvent, count: int) -> str:
    """The event in words."""
    times = "once" if count == 1 else f"{count} times"
    if one.kind.startswith("pressure"):
        more = f" ({times})" if count > 1 else ""
        return f"{_TEXT[one.kind]}{more}" + (f": {one.why}" if one.why else "")
    if one.kind != "oom_kill":
        return _TEXT[one.kind].format(times=times)
    who = f"process {one.pid} ({one.process})" if one.process else _unknown(count)
    return f"the kernel OOM-killed {who}" + (f": {one.why}" if one.why else "")


def _without_pods(events: Iterable[MemoryEvent]) -> list[MemoryEvent]:
    """Without the pressure of pods that is logged for one of their containers."""
    found = list(events)
    said = {(one.path.rpartition("/")[0], one.kind) for one in found if one.level == "container"}
    return [
        one
        for one in found
        if not one.kind.startswith("pressure") or (one.path, one.kind) not in said
    ]


def _unknown(count: int) -> str:
    return "a process" if count == 1 else f"{count} processes"
