"""A hard memory limit that would fall below what is in use, and what is done about it.

Written blindly, it kills on v2 and fails with EBUSY on v1. ``converge`` sets the limit near what
is held and lowers it as that falls, ``refuse`` leaves it, ``force`` writes it. Page cache is in
use, but not held: it is taken back before the limit is written, and that is not where it would
not fit then.
Source: Documentation/admin-guide/cgroup-v2.rst memory.max; mm/memcontrol*.c of Linux 6.12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Difference

Shrink = Literal["converge", "refuse", "force"]

LIMIT, SWAP_TOTAL = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
HARD_LIMITS = ("memory.max", LIMIT, SWAP_TOTAL)
ROOM = 4 << 20
"""Bytes that a limit near the usage leaves at least, or a 32nd of the usage: what a group may
take between the look and the write."""
_MIB = 1 << 20


class Waiting(Struct, frozen=True, gc=False):
    """A limit that waits for the usage to fall. ``meanwhile`` is written instead, None: what
    stands is left; ``used`` is in bytes."""

    path: str
    file: str
    wanted: str
    meanwhile: str | None
    used: int

    def describe(self) -> str:
        """The row as a person would say it."""
        now = f"{self.meanwhile} meanwhile" if self.meanwhile else "unchanged"
        return f"{self.path}/{self.file}: cannot lower to {self.wanted} yet, {self.used} bytes are in use; {now}"


def eased(
    differences: Sequence[Difference], observed: Observed, shrink: Shrink
) -> tuple[list[Difference], list[Waiting]]:
    """The differences that may be ended now, hard limits changed or left out as ``shrink``
    says, and what waits. A memory+swap limit never falls below the memory limit that stays. One
    for which page cache must go first comes after one near the usage, in case it cannot."""
    if shrink == "force":
        return list(differences), []
    waiting: dict[tuple[str, str], Waiting] = {}
    for row in sorted(differences, key=lambda row: row.file == SWAP_TOTAL):
        least = max(_least(row, observed, shrink), _stays(row, waiting, observed))
        if row.file not in HARD_LIMITS or _bytes(row.wanted) >= least:
            continue
        used = _used(row, observed)
        meanwhile = None
        if shrink == "converge" and least < _bytes(row.found):
            meanwhile = str(int(least))
        waiting[row.path, row.file] = Waiting(row.path, row.file, row.wanted or "", meanwhile, used)
    rows = [one for row in differences for one in _now(row, waiting, observed)]
    return rows, list(waiting.values())


def takes_back(file: str, value: str, group: ObservedCgroup | None) -> bool:
    """Whether a limit lies below what is in use, so that page cache must go before it."""
    return file in HARD_LIMITS and _bytes(value) < _in_use(file, group)


def with_cache(
    differences: Sequence[Difference], observed: Observed, cache: Callable[[str], int]
) -> Observed:
    """The observation with the page cache of the groups where it matters, as ``cache`` tells it."""
    groups = dict(observed.cgroups)
    for row in differences:
        group = groups.get(row.path)
        if group is not None and row.wanted and takes_back(row.file, row.wanted, group):
            groups[row.path] = replace(group, cache=cache(row.path))
    return Observed(observed.at, groups)


def near(used: int) -> int:
    """A limit that ``used`` bytes fit under with some room, in whole MiB."""
    return -(-(used + max(ROOM, used >> 5)) // _MIB) * _MIB


def _now(
    row: Difference, waiting: dict[tuple[str, str], Waiting], observed: Observed
) -> list[Difference]:
    """The row as it is ended now, none where it waits."""
    waits = waiting.get((row.path, row.file))
    if waits is not None:
        if waits.meanwhile is None:
            return []
        row = replace(row, wanted=waits.meanwhile, why="near the usage")
    if not takes_back(row.file, row.wanted or "", observed.cgroups.get(row.path)):
        return [row]
    safe = near(_used(row, observed))
    if safe >= _bytes(row.found):
        return [row]
    return [replace(row, wanted=str(safe), why="near the usage"), row]


def _in_use(file: str, group: ObservedCgroup | None) -> int:
    """Bytes that count against a limit; 0 in a group that is new, or of which they are unknown."""
    if group is None:
        return 0
    if file == SWAP_TOTAL and group.memory_swap is not None:
        return group.memory_swap
    return group.memory or 0


def _used(row: Difference, observed: Observed) -> int:
    """Bytes in use that count against the row's limit."""
    return _in_use(row.file, observed.cgroups.get(row.path))


def _least(row: Difference, observed: Observed, shrink: Shrink) -> float:
    """The smallest limit that what is in use allows; without page cache, where that is taken
    back."""
    used = _used(row, observed)
    if shrink == "converge" and used:
        used = max(0, used - observed.cgroups[row.path].cache)
    return near(used) if _bytes(row.wanted) < used else 0


def _stays(row: Difference, waiting: dict[tuple[str, str], Waiting], observed: Observed) -> float:
    """The memory limit that stands below a memory+swap limit while it waits."""
    waits = waiting.get((row.path, LIMIT)) if row.file == SWAP_TOTAL else None
    if waits is None:
        return 0
    return _bytes(waits.meanwhile or observed.cgroups[row.path].values.get(LIMIT))


def _bytes(text: str | None) -> float:
    """A limit in bytes; infinite where there is none, or nothing is known."""
    return int(text) if text is not None and text.isdecimal() else inf
