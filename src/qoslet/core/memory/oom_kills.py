"""Joins the kernel's counters of kills with its log: which processes died where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.memory.counters import named
from qoslet.core.memory.events import OomKill
from qoslet.core.memory.rows import MemoryEvent

LOG_DELAY_SECONDS = 0.3
"""Seconds that a counter may be ahead of the log."""
RECORD_SECONDS = 30.0
"""Seconds that a record of the log waits for its counter."""


class _CountedKill(Struct):
    """A counted kill that waits for its name until ``until``. ``whole``: its whole cgroup was
    killed."""

    event: MemoryEvent
    key: tuple[str, str]
    until: float
    whole: bool = False


class ResolvedKill(NamedTuple):
    """A kill joined with its log record, or without one. ``group`` is the kernel's path of its
    cgroup, empty if the log does not have it."""

    event: MemoryEvent
    key: tuple[str, str]
    group: str = ""


class OomKillTracker:
    """Joins counted kills with records of the kernel's log. Times are monotonic seconds.

    If a whole cgroup is killed, the kernel counts its first victim twice, so there the log decides.
    Source: mm/oom_kill.c oom_kill_process, oom_kill_memcg_member.
    """

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], float] = {}
        self._taken: dict[int, float] = {}
        self._whole = self._limit = ""
        self._open: list[_CountedKill] = []
        self._records: list[tuple[float, OomKill]] = []

    def add_records(self, kills: Iterable[OomKill], now: float) -> None:
        """Add records of the log. One process may have two, of which one names the cgroup."""
        self._records = [(at, record) for at, record in self._records if now - at < RECORD_SECONDS]
        self._named = {key: at for key, at in self._named.items() if now - at < RECORD_SECONDS}
        self._taken = {pid: at for pid, at in self._taken.items() if now - at < RECORD_SECONDS}
        for kill in kills:
            if not kill.pid:
                self._whole = kill.group
            elif kill.group:
                self._whole, self._limit = "", kill.limit
            elif self._whole:
                # the kernel says once, of the first victim, whose limit was reached
                kill = replace(kill, group=self._whole, limit=self._limit)
            if kill.pid and kill.pid not in self._taken:
                self._note(kill, now)

    def _note(self, kill: OomKill, now: float) -> None:
        for index, (added, record) in enumerate(self._records):
            if record.pid == kill.pid:
                self._records[index] = (added, _joined(record, kill))
                return
        self._records.append((now, kill))

    def add_count(
        self,
        event: MemoryEvent,
        key: tuple[str, str],
        now: float,
        readable: bool,
        *,
        whole: bool = False,
    ) -> None:
        """Add ``one.count`` kills. Without a readable log they do not wait for names. ``whole``:
        the whole cgroup was killed."""
        until = now + LOG_DELAY_SECONDS if readable else now
        self._open += [
            _CountedKill(replace(event, count=1), key, until, whole) for _ in range(event.count)
        ]

    def resolve(self, now: float, main: Mapping[tuple[str, str], int]) -> list[ResolvedKill]:
        """The kills that no longer wait for a record. ``main`` is the first process of containers
        that ended as OOMKilled. A kill without a record has no process."""
        resolved: list[ResolvedKill] = []
        waiting: list[_CountedKill] = []
        for counted in self._open:
            kill = self._take(counted.event.path, main.get(counted.key))
            if kill is None and now < counted.until:
                waiting.append(counted)
                continue
            if kill is not None:
                self._named[counted.key] = self._taken[kill.pid] = now
            elif counted.whole and counted.key in self._named:
                continue
            event = named(counted.event, kill, _size(kill))
            if kill is None and counted.key in main:
                event = replace(event, process="its first process", pid=main[counted.key])
            resolved.append(
                ResolvedKill(event, counted.key, kill.group if kill is not None else "")
            )
        self._open = waiting
        return _together(resolved)

    def next_at(self) -> float | None:
        """When the next kill stops waiting for its record."""
        return min((counted.until for counted in self._open), default=None)

    def _take(self, path: str, pid: int | None) -> OomKill | None:
        """The record of a kill in or below a cgroup, else of this process; else the only record
        without a cgroup, if only one kill waits."""
        for index, (_, kill) in enumerate(self._records):
            if (kill.group and inside(kill.group, path)) or kill.pid == pid:
                return self._records.pop(index)[1]
        nameless = [index for index, (_, kill) in enumerate(self._records) if not kill.group]
        if len(nameless) == 1 and len(self._open) == 1:
            return self._records.pop(nameless[0])[1]
        return None


def inside(kernel_path: str, path: str) -> bool:
    """Whether the kernel's path is ``path`` or below it; it may start further up than ours."""
    return f"{kernel_path}/".startswith(f"{path}/") or f"{path}/" in f"{kernel_path}/"


def _joined(left: OomKill, right: OomKill) -> OomKill:
    """Two records of one process."""
    resident = left.resident if left.resident is not None else right.resident
    return OomKill(
        left.pid, left.name, left.group or right.group, left.limit or right.limit, resident
    )


def _size(kill: OomKill | None) -> str:
    if kill is None or kill.resident is None:
        return ""
    return f"{kill.resident >> 20} MiB"


def _together(kills: Sequence[ResolvedKill]) -> list[ResolvedKill]:
    """Joins the kills of unknown processes of one cgroup into one event."""
    merged: list[ResolvedKill] = []
    for kill in kills:
        for index, other in enumerate(merged):
            if other.key == kill.key and not kill.event.process and not other.event.process:
                event = replace(other.event, count=other.event.count + kill.event.count)
                merged[index] = other._replace(event=event)
                break
        else:
            merged.append(kill)
    return merged
