"""What happened to a cgroup's memory between two samples.

The counters of a recreated cgroup begin at zero. A counter that went back counts as unchanged.
Source: Documentation/admin-guide/cgroup-v2.rst "Memory Interface Files".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample

EventKind = Literal[
    "low",
    "high",
    "max",
    "oom",
    "oom_kill",
    "oom_group_kill",
    "below_low",
    "below_min",
    "pressure",
    "pressure_end",
]
"""The kernel's own names, of ``memory.events``: ``high`` counts how often processes were throttled
at ``memory.high``, ``max`` how often usage reached the limit, ``low`` how often the kernel
reclaimed below ``memory.low``. Ours: ``below_low``, ``below_min``: pages were reclaimed while usage
was below the effective protection; ``pressure``, ``pressure_end``: a stall episode begins, ends."""

KERNEL_EVENTS: tuple[EventKind, ...] = ("low", "high", "max", "oom", "oom_kill", "oom_group_kill")
KINDS: tuple[EventKind, ...] = get_args(EventKind)

Zone = Literal["below_request", "above_request", "above_high"]
ZONES: tuple[Zone, ...] = get_args(Zone)
"""Where a cgroup's usage was while its pages were reclaimed."""


class OomKill(Struct, frozen=True):
    """A process that the kernel OOM-killed. ``group`` is its cgroup, ``limit`` the cgroup whose
    limit was reached (empty: the machine ran out of memory). Both are empty if the kernel did not
    log them. ``resident`` is bytes."""

    pid: int
    name: str
    group: str = ""
    limit: str = ""
    resident: int | None = None


class Reclaimed(Struct, frozen=True, gc=False):
    """Pages of a cgroup that reclaim scanned and took, and that were needed again."""

    scanned: int = 0
    taken: int = 0
    refaulted: int = 0

    def plus(self, other: Reclaimed) -> Reclaimed:
        """The sum."""
        return Reclaimed(
            self.scanned + other.scanned, self.taken + other.taken, self.refaulted + other.refaulted
        )


NOTHING_RECLAIMED = Reclaimed()

RECLAIM_COUNTERS = ("pgscan", "pgsteal", "workingset_refault_anon", "workingset_refault_file")
"""Of ``memory.stat``: pages scanned, taken, and needed again."""


class ProtectedBytes(Struct, frozen=True, gc=False):
    """The effective protection of a cgroup, in bytes. ``low`` is not less than ``min``."""

    low: int = 0
    min: int = 0


UNPROTECTED = ProtectedBytes()


class MemoryChange(Struct, frozen=True):
    """The change between two samples of one cgroup. ``events`` holds the counters that grew;
    ``zone`` is where the pages of ``reclaimed`` were taken; ``stalled`` and ``waited`` are
    microseconds in which all of its processes, and some, waited for memory."""

    events: Mapping[EventKind, int]
    reclaimed: Reclaimed
    zone: Zone
    stalled: int = 0
    waited: int = 0


def counted(sample: MemorySample) -> Mapping[str, int]:
    """The event counters of a cgroup with its descendants; on v1 those of the cgroup alone."""
    return sample.events or sample.local


def change_between(
    before: MemorySample | None,
    after: MemorySample,
    request: int,
    protection: ProtectedBytes = UNPROTECTED,
    earlier: ProtectedBytes | None = None,
) -> MemoryChange:
    """The change between two samples. ``before`` is None for a new cgroup: all that it has counted
    is the change. ``request`` is bytes. ``protection`` is that of ``after``, ``earlier`` that of
    ``before`` if it differs."""
    if before is not None and before.identity != after.identity:
        before = None
    before_counters = counted(before) if before is not None else {}
    after_counters = counted(after)
    events: dict[EventKind, int] = {}
    for kind in KERNEL_EVENTS:
        grown = after_counters.get(kind, 0) - before_counters.get(kind, 0)
        if grown > 0:
            events[kind] = grown
    pages = reclaimed(before, after)
    used = max(after.current, before.current if before is not None else 0)
    if pages.taken:
        samples = [(after, protection)]
        if before is not None:
            samples.append((before, protection if earlier is None else earlier))
        if all(0 < sample.current <= protected.min for sample, protected in samples):
            events["below_min"] = 1
        elif all(0 < sample.current <= protected.low for sample, protected in samples):
            events["below_low"] = 1
    where: Zone = "above_high" if "high" in events else zone(used, request, after.high)
    return MemoryChange(events, pages, where, *_waited(before, after))


def reclaimed(before: MemorySample | None, after: MemorySample) -> Reclaimed:
    """Pages reclaimed between two samples."""

    def grown(*names: str) -> int:
        old = before.stat if before is not None else {}
        return max(0, sum(after.stat.get(name, 0) - old.get(name, 0) for name in names))

    return Reclaimed(
        grown(RECLAIM_COUNTERS[0]), grown(RECLAIM_COUNTERS[1]), grown(*RECLAIM_COUNTERS[2:])
    )


def zone(used: int, request: int, high: int | None) -> Zone:
    """The zone of ``used`` bytes."""
    if high is not None and used >= high < UNLIMITED:
        return "above_high"
    return "above_request" if used > request else "below_request"


def _waited(before: MemorySample | None, after: MemorySample) -> tuple[int, int]:
    """Microseconds in which all processes, and some, waited; 0 without PSI."""
    if after.pressure is None:
        return 0, 0
    old = before.pressure if before is not None else None
    full, some = (old.full_total, old.some_total) if old is not None else (0, 0)
    return max(0, after.pressure.full_total - full), max(0, after.pressure.some_total - some)
