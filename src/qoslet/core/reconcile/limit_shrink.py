"""Lowers hard memory limits below the usage safely.

Such a write kills on v2 and fails with EBUSY on v1. ``converge`` sets the limit near the usage
without page cache and lowers it as that falls; ``refuse`` does not write it; ``force`` does. Page
cache is reclaimed first, and the limit is written only if the rest fits.
Source: Documentation/admin-guide/cgroup-v2.rst memory.max; mm/memcontrol*.c of Linux 6.12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Difference

Shrink = Literal["converge", "refuse", "force"]

LIMIT, SWAP_TOTAL = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
HARD_LIMITS = ("memory.max", LIMIT, SWAP_TOTAL)
ROOM = 4 << 20
"""The least room of a limit near the usage, in bytes; or a 32nd of the usage. A cgroup may use it
between the observation and the write."""
_MIB = 1 << 20


class Waiting(Struct, frozen=True, gc=False):
    """A limit that waits for the usage to fall. ``meanwhile`` is written instead; None: the file
    stays. ``used`` is in bytes."""

    path: str
    file: str
    wanted: str
    meanwhile: str | None
    used: int

    def describe(self) -> str:
        """The message for people."""
        now = f"{self.meanwhile} meanwhile" if self.meanwhile else "unchanged"
        return f"{self.path}/{self.file}: cannot lower to {self.wanted} yet, {self.used} bytes are in use; {now}"


def eased(
    differences: Sequence[Difference], observed: Observed, shrink: Shrink
) -> tuple[list[Difference], list[Waiting]]:
    """The differences that can be fixed now, with hard limits changed or dropped as ``shrink``
    says, and the limits that wait. A memory+swap limit never falls below the remaining memory
    limit. A limit that needs reclaim comes after one near the usage, in case reclaim fails."""
    if shrink == "force" or not any(
        takes_back(row.file, row.wanted or "", observed.cgroups.get(row.path))
        for row in differences
    ):
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
    result = [allowed for row in differences for allowed in _now(row, waiting, observed)]
    return result, list(waiting.values())


def takes_back(file: str, value: str, cgroup: ObservedCgroup | None) -> bool:
    """Whether a limit is below the usage, so that page cache must be reclaimed first."""
    return file in HARD_LIMITS and _bytes(value) < _in_use(file, cgroup)


def with_cache(
    differences: Sequence[Difference], observed: Observed, cache: Callable[[str], int]
) -> Observed:
    """The observation with the page cache of the cgroups whose limits are below their usage;
    ``cache`` reads it by path."""
    cgroups = dict(observed.cgroups)
    for row in differences:
        cgroup = cgroups.get(row.path)
        if cgroup is not None and row.wanted and takes_back(row.file, row.wanted, cgroup):
            cgroups[row.path] = replace(cgroup, cache=cache(row.path))
    return Observed(observed.at, cgroups)


def near(used: int) -> int:
    """A limit above ``used`` bytes with some room, in whole MiB."""
    return -(-(used + max(ROOM, used >> 5)) // _MIB) * _MIB


def _now(
    row: Difference, waiting: dict[tuple[str, str], Waiting], observed: Observed
) -> list[Difference]:
    """The differences to fix now for a row; none if it waits."""
    waiting_limit = waiting.get((row.path, row.file))
    if waiting_limit is not None:
        if waiting_limit.meanwhile is None:
            return []
        row = replace(row, wanted=waiting_limit.meanwhile, why="near the usage")
    if not takes_back(row.file, row.wanted or "", observed.cgroups.get(row.path)):
        return [row]
    safe = near(_used(row, observed))
    if safe >= _bytes(row.found):
        return [row]
    return [replace(row, wanted=str(safe), why="near the usage"), row]


def _in_use(file: str, cgroup: ObservedCgroup | None) -> int:
    """Bytes that count against a limit; 0 in a new cgroup or if unknown."""
    if cgroup is None:
        return 0
    if file == SWAP_TOTAL and cgroup.memory_swap is not None:
        return cgroup.memory_swap
    return cgroup.memory or 0


def _used(row: Difference, observed: Observed) -> int:
    """Bytes in use that count against the row's limit."""
    return _in_use(row.file, observed.cgroups.get(row.path))


def _least(row: Difference, observed: Observed, shrink: Shrink) -> float:
    """The smallest safe limit; with ``converge``, for the usage without page cache."""
    used = _used(row, observed)
    if shrink == "converge" and used:
        used = max(0, used - observed.cgroups[row.path].cache)
    return near(used) if _bytes(row.wanted) < used else 0


def _stays(row: Difference, waiting: dict[tuple[str, str], Waiting], observed: Observed) -> float:
    """The current memory limit below a memory+swap limit, if the memory limit waits."""
    waiting_limit = waiting.get((row.path, LIMIT)) if row.file == SWAP_TOTAL else None
    if waiting_limit is None:
        return 0
    return _bytes(waiting_limit.meanwhile or observed.cgroups[row.path].values.get(LIMIT))


def _bytes(text: str | None) -> float:
    """A limit in bytes; infinite if there is none or it is unknown."""
    return int(text) if text is not None and text.isdecimal() else float("inf")
