"""What happened to the memory of a group between two looks, and what that comes to over time.

Counters of a group that was made anew begin at zero; a counter that went back counts nothing.
Source: Documentation/admin-guide/cgroup-v2.rst "Memory Interface Files".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

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
at ``memory.high``, ``max`` how often the limit was met, ``low`` how often the kernel took memory
below ``memory.low``. Ours: ``below_low``, ``below_min``: pages were taken while the group used less
than its effective protection; ``pressure``, ``pressure_end``: it begins to wait for memory, and waits
no longer."""

KERNEL_EVENTS: tuple[EventKind, ...] = ("low", "high", "max", "oom", "oom_kill", "oom_group_kill")
KINDS: tuple[EventKind, ...] = (
    *KERNEL_EVENTS,
    "below_low",
    "below_min",
    "pressure",
    "pressure_end",
)

Zone = Literal["below_request", "above_request", "above_high"]
ZONES: tuple[Zone, ...] = ("below_request", "above_request", "above_high")
"""Where a group's usage was when pages of it were taken."""


class OomKill(Struct, frozen=True):
    """A process that the kernel killed for memory. ``group`` is where it was, ``limit`` the
    group whose limit was met (empty: the machine's memory); both are empty where the kernel did
    not say. ``resident`` is bytes."""

    pid: int
    name: str
    group: str = ""
    limit: str = ""
    resident: int | None = None


class Reclaimed(Struct, frozen=True, gc=False):
    """Pages of a group: looked at, taken, and taken but needed again."""

    scanned: int = 0
    taken: int = 0
    refaulted: int = 0

    def plus(self, other: Reclaimed) -> Reclaimed:
        """Both together."""
        return Reclaimed(
            self.scanned + other.scanned,
            self.taken + other.taken,
            self.refaulted + other.refaulted,
        )


NOTHING_RECLAIMED = Reclaimed()

RECLAIM_COUNTERS = ("pgscan", "pgsteal", "workingset_refault_anon", "workingset_refault_file")
"""Of ``memory.stat``: pages looked at, taken, and needed again."""


class ProtectedBytes(Struct, frozen=True, gc=False):
    """What of a group's memory is protected, in bytes: what its values are worth under the groups
    above and beside it. ``low`` is not less than ``min``."""

    low: int = 0
    min: int = 0


UNPROTECTED = ProtectedBytes()


class MemoryChange(Struct, frozen=True):
    """Between two looks at one group. ``events`` holds what grew; ``zone`` is where the pages
    of ``reclaimed`` were taken; ``stalled`` and ``waited`` are microseconds in which all of its
    processes, and some, waited for memory."""

    events: Mapping[EventKind, int]
    reclaimed: Reclaimed
    zone: Zone
    stalled: int = 0
    waited: int = 0


def counted(sample: MemorySample) -> Mapping[str, int]:
    """The counters of events that hold for a group with what is below it; its own, where the
    kernel has no others (v1)."""
    return sample.events or sample.local


def change_between(
    before: MemorySample | None,
    after: MemorySample,
    request: int,
    protection: ProtectedBytes = UNPROTECTED,
    earlier: ProtectedBytes | None = None,
) -> MemoryChange:
    """What happened between two looks; ``before`` is None for a group that is new, and then
    everything that it has counted happened. ``request`` is bytes; ``protection`` is that of the
    later look, ``earlier`` that of the other where it was another one."""
    if before is not None and before.identity != after.identity:
        before = None
    old = counted(before) if before is not None else {}
    new = counted(after)
    events: dict[EventKind, int] = {}
    for kind in KERNEL_EVENTS:
        grown = new.get(kind, 0) - old.get(kind, 0)
        if grown > 0:
            events[kind] = grown
    taken = reclaimed(before, after)
    used = max(after.current, before.current if before is not None else 0)
    if taken.taken:
        looks = [(after, protection)]
        if before is not None:
            looks.append((before, protection if earlier is None else earlier))
        if all(0 < one.current <= kept.min for one, kept in looks):
            events["below_min"] = 1
        elif all(0 < one.current <= kept.low for one, kept in looks):
            events["below_low"] = 1
    where: Zone = "above_high" if "high" in events else zone(used, request, after.high)
    return MemoryChange(events, taken, where, *_waited(before, after))


def reclaimed(before: MemorySample | None, after: MemorySample) -> Reclaimed:
    """Pages between two looks at one group."""

    def grown(*names: str) -> int:
        old = before.stat if before is not None else {}
        return max(0, sum(after.stat.get(name, 0) - old.get(name, 0) for name in names))

    return Reclaimed(
        grown(RECLAIM_COUNTERS[0]),
        grown(RECLAIM_COUNTERS[1]),
        grown(*RECLAIM_COUNTERS[2:]),
    )


def zone(used: int, request: int, high: int | None) -> Zone:
    """Where ``used`` bytes lie."""
    if high is not None and used >= high < UNLIMITED:
        return "above_high"
    return "above_request" if used > request else "below_request"


def _waited(before: MemorySample | None, after: MemorySample) -> tuple[int, int]:
    """Microseconds in which all, and some, waited; 0 where the kernel does not tell."""
    if after.pressure is None:
        return 0, 0
    old = before.pressure if before is not None else None
    full, some = (old.full_total, old.some_total) if old is not None else (0, 0)
    return max(0, after.pressure.full_total - full), max(0, after.pressure.some_total - some)
