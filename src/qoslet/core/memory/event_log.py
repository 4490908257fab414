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
"""Seconds for which a logged event of a cgroup is only counted. Other kinds are never logged: a
cgroup at its limit is normal, and the OOM kill that follows names the process."""
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
    """When an event was last logged, and how many events were suppressed since."""

    at: float
    count: int = 0


class MemoryEventLog:
    """Decides which events become log lines."""

    def __init__(self) -> None:
        self._logged: dict[tuple[str, EventKind], _LoggedLine] = {}
        self._window = 0.0
        self._lines = 0
        self._dropped = 0

    def lines(self, events: Iterable[MemoryEvent], now: float) -> list[str]:
        """The lines for these events; ``now`` is monotonic seconds."""
        texts: list[str] = []
        if now - self._window >= WINDOW_SECONDS:
            if self._dropped:
                texts.append(f"{self._dropped} more memory events suppressed; see qoslet ps")
            self._window, self._lines, self._dropped = now, 0, 0
            self._logged = {
                key: logged
                for key, logged in self._logged.items()
                if logged.count or now - logged.at < REPEAT_SECONDS[key[1]]
            }
        for event in _without_pods(events):
            line = self._line(event, now)
            if line and self._lines >= MAX_LINES:
                self._dropped += 1
            elif line:
                self._lines += 1
                texts.append(line)
        return texts

    def _line(self, event: MemoryEvent, now: float) -> str:
        """The line of an event; empty if it is suppressed."""
        key = (event.path, event.kind)
        if event.kind not in REPEAT_SECONDS:
            return ""
        logged = self._logged.get(key)
        # each process that died is named
        if (
            logged is not None
            and now - logged.at < REPEAT_SECONDS[event.kind]
            and not event.process
        ):
            logged.count += event.count
            return ""
        count = event.count + (logged.count if logged is not None else 0)
        self._logged[key] = _LoggedLine(now)
        return f"{event.title}: {sentence(event, count)}"


def sentence(event: MemoryEvent, count: int) -> str:
    """The event as an English sentence."""
    times = "once" if count == 1 else f"{count} times"
    if event.kind.startswith("pressure"):
        more = f" ({times})" if count > 1 else ""
        return f"{_TEXT[event.kind]}{more}" + (f": {event.why}" if event.why else "")
    if event.kind != "oom_kill":
        return _TEXT[event.kind].format(times=times)
    who = f"process {event.pid} ({event.process})" if event.process else _unknown(count)
    return f"the kernel OOM-killed {who}" + (f": {event.why}" if event.why else "")


def _without_pods(events: Iterable[MemoryEvent]) -> list[MemoryEvent]:
    """Drops the pressure events of a pod that has the same event in one of its containers."""
    kept = list(events)
    containers = {
        (event.path.rpartition("/")[0], event.kind) for event in kept if event.level == "container"
    }
    return [
        event
        for event in kept
        if not event.kind.startswith("pressure") or (event.path, event.kind) not in containers
    ]


def _unknown(count: int) -> str:
    return "a process" if count == 1 else f"{count} processes"
