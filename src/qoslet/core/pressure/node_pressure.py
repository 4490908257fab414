"""Whether memory is short, where, and whose doing it is.

The node is short where little can be had *and* what runs waits for it. Stall alone proves nothing:
a group that presses against its own limit stalls on a node with free memory. What the page cache
of protected groups holds cannot be had. Without PSI the work of reclaim stands in for the waiting.
A tier or a pod is short where it is at its own limit: that is the business of those below it alone.

Each verdict needs all looks of a while to agree, three at least. Source:
Documentation/accounting/psi.rst, Documentation/admin-guide/cgroup-v2.rst (memory.events.local
``max``), kernel mm/vmscan.c (``pgscan_*`` of /proc/vmstat leave out reclaim for a limit).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.breakdown import human_bytes, page_cache_bytes
from qoslet.core.memory.sample import MemorySample, NodeMemory, Pressure

PressureKind = Literal["calm", "short", "own limit"]

_MIB = 1 << 20


class PressureThresholds(Struct, frozen=True):
    """From when on memory is short. ``available_ratio`` is the share of the machine that can still be had, at
    least ``min_available_bytes`` and at most ``max_available_bytes`` bytes, ``eviction_bytes`` the bytes below which kubelets evict;
    ``full_ratio`` and ``some_ratio`` are shares of time, ``limit_full_ratio`` that of a group at its limit. A verdict
    stands on looks of ``window_seconds`` to ``max_gap_seconds`` seconds; less than ``eviction_bytes`` must be had for ``eviction_seconds``
    of them. ``scans_per_second`` are pages in a second, ``reclaim_ratio`` is the share of scanned pages that reclaim
    gets where all is well."""

    available_ratio: float = 0.10
    min_available_bytes: int = 128 * _MIB
    max_available_bytes: int = 4096 * _MIB
    eviction_bytes: int = 100 * _MIB
    full_ratio: float = 0.10
    some_ratio: float = 0.30
    limit_full_ratio: float = 0.40
    window_seconds: float = 0.9
    eviction_seconds: float = 0.4
    max_gap_seconds: float = 10.0
    scans_per_second: float = 1000.0
    reclaim_ratio: float = 0.5

    def wanted_bytes(self, total: int) -> int:
        """Bytes that should be had on a machine with so many."""
        return min(
            max(int(total * self.available_ratio), self.min_available_bytes),
            self.max_available_bytes,
            total // 4,
        )


PRESSURE_THRESHOLDS = PressureThresholds()

MIN_SHARE_SECONDS = 0.4
"""Seconds that a share of time is taken over at least: reclaim pauses for less."""
STUCK_SECONDS = 10.0
"""Seconds for which a pod that is stuck at its own limit is left to the kernel and the guard."""


class StallRates(Struct, frozen=True):
    """What happened between two looks: the share of time for which some and all tasks waited for
    memory (None without PSI), pages that reclaim scanned in a second, and what it got of them."""

    seconds: float
    some_ratio: float | None = None
    full_ratio: float | None = None
    scans_per_second: float | None = None
    reclaim_ratio: float | None = None


class PressureState(Struct, frozen=True):
    """A verdict on the node (``path`` empty) or a group. ``missing`` are the bytes that would end
    it, ``because`` a sentence with the numbers; ``stalls`` are the looks it stands on, the newest
    last."""

    path: str
    kind: PressureKind
    missing: int
    because: str
    stalls: tuple[StallRates, ...] = ()


def node_state(
    looks: Sequence[NodeMemory], protected: int = 0, marks: PressureThresholds = PRESSURE_THRESHOLDS
) -> PressureState:
    """The node's state by its looks, oldest first. ``protected`` are bytes of page cache that
    reclaim may not take."""
    looks = _recent(looks, lambda one: one.at, marks)
    if not looks:
        return PressureState("", "calm", 0, "not looked at for long enough")
    stalls = tuple(node_stall(*pair) for pair in pairwise(_parts(looks)))
    whole = node_stall(looks[0], looks[-1])
    had = [max(0, one.available - protected) for one in looks[1:]]
    most, wanted = max(had), marks.wanted_bytes(looks[-1].total)
    least = max(wanted, marks.eviction_bytes)
    evicting = most < least and _busy(whole, marks) and _under(looks, protected, marks)
    if evicting:
        wanted = least
    missing = max(0, wanted - had[-1])
    last = stalls[-1]
    numbers = f"{human_bytes(had[-1])} can be had of {human_bytes(wanted)} wanted, {describe(last)}"
    if protected:
        numbers += f", {human_bytes(protected)} of page cache are protected"
    if most >= wanted:
        stalled = any(waits(one, marks) for one in stalls)
        why = "tasks wait, but not for the node's memory: " if stalled else ""
        return PressureState("", "own limit" if stalled else "calm", 0, why + numbers, stalls)
    # kswapd works in bursts: what must last is that little can be had
    steady = most < marks.eviction_bytes or all(_goes_on(one, marks) for one in stalls)
    if evicting or (steady and waits(whole, marks, most)):
        return PressureState("", "short", missing, numbers, stalls)
    return PressureState("", "calm", 0, numbers, stalls)


def group_state(
    looks: Sequence[MemorySample], marks: PressureThresholds = PRESSURE_THRESHOLDS
) -> PressureState:
    """The state of a group by its looks, oldest first: whether it is short at its own limit."""
    looks = _recent(looks, lambda one: one.at, marks)
    path = looks[-1].path if looks else ""
    if not looks or len({one.identity for one in looks}) > 1:
        return PressureState(path, "calm", 0, "not looked at for long enough")
    stalls = tuple(_group_stall(*pair) for pair in pairwise(looks))
    last = looks[-1]
    limit = min(last.max or UNLIMITED, last.high or UNLIMITED)
    numbers = f"{human_bytes(last.current)} in use"
    if limit >= UNLIMITED:
        return PressureState(path, "calm", 0, f"{numbers}, no limit of its own", stalls)
    hits = [_grown(before, after) for before, after in pairwise(looks)]
    name = "memory.max" if last.max is not None and last.max <= limit else "memory.high"
    numbers += f" of {name} {human_bytes(limit)}, hit {hits[-1]} times, {describe(stalls[-1])}"
    if not all(hits) or not all(_waits_at_limit(one, marks) for one in stalls):
        return PressureState(path, "calm", 0, numbers, stalls)
    wanted = max(limit // 20, 4 * _MIB)
    return PressureState(path, "short", max(0, last.current + wanted - limit), numbers, stalls)


def stuck_state(
    looks: Sequence[MemorySample], marks: PressureThresholds = PRESSURE_THRESHOLDS
) -> PressureState:
    """The state of a pod by its looks, oldest first: whether it is stuck at its own limit. One that
    has page cache to give back is not, however long it waits for it."""
    state = group_state(looks, marks)
    if state.kind != "short":
        return state
    last = looks[-1]
    cache, limit = page_cache_bytes(last), min(last.max or UNLIMITED, last.high or UNLIMITED)
    numbers = f"{state.because}, {human_bytes(cache)} of it page cache"
    if cache > max(limit // 32, 2 * _MIB):
        return PressureState(state.path, "own limit", 0, numbers, state.stalls)
    return PressureState(state.path, "short", state.missing, numbers, state.stalls)


def spare_bytes(
    look: NodeMemory, protected: int = 0, marks: PressureThresholds = PRESSURE_THRESHOLDS
) -> int:
    """Bytes that can be had above what should be; negative where those are missing."""
    should = max(marks.wanted_bytes(look.total), marks.eviction_bytes)
    return max(0, look.available - protected) - should


def is_uneasy(
    looks: Sequence[NodeMemory], protected: int = 0, marks: PressureThresholds = PRESSURE_THRESHOLDS
) -> bool:
    """Whether it is worth looking closely after these, the newest last: somebody waits a little
    for memory, or little can be had and reclaim is at work."""
    if not looks:
        return False
    now, before = looks[-1], looks[-2] if len(looks) > 1 else None
    scarce = spare_bytes(now, protected, marks) < 0
    if before is None or now.at - before.at > marks.max_gap_seconds:
        return now.pressure.some_avg10 >= 1.0 if now.pressure is not None else scarce
    stall = node_stall(before, now)
    busy = (
        stall.scans_per_second is not None and stall.scans_per_second >= marks.scans_per_second / 2
    )
    return (stall.some_ratio or 0.0) >= marks.full_ratio / 2 or (scarce and busy)


def node_stall(before: NodeMemory, after: NodeMemory) -> StallRates:
    """What happened on the node between two looks."""
    return _stall(
        after.at - before.at,
        (before.pressure, after.pressure),
        (before.scanned, after.scanned),
        (before.stolen, after.stolen),
    )


def waits(stall: StallRates, marks: PressureThresholds, had: int | None = None) -> bool:
    """Whether what runs waits for memory; ``had`` is what can be had, None: that is no matter."""
    busy = _busy(stall, marks)
    if busy and had is not None and had < marks.eviction_bytes:
        # a fast disk hides in the shares of time what reclaim does to everybody's page cache
        return True
    if stall.full_ratio is not None and stall.some_ratio is not None:
        return stall.full_ratio >= marks.full_ratio or stall.some_ratio >= marks.some_ratio
    return (
        busy
        and had is not None
        and stall.reclaim_ratio is not None
        and stall.reclaim_ratio < marks.reclaim_ratio
    )


def describe(stall: StallRates) -> str:
    """The numbers as people read them."""
    words = []
    if stall.full_ratio is not None and stall.some_ratio is not None:
        words.append(
            f"all tasks waited {stall.full_ratio:.0%} and some {stall.some_ratio:.0%} of the time"
        )
    if stall.scans_per_second is not None:
        words.append(f"{stall.scans_per_second:.0f} pages/s scanned")
    if stall.reclaim_ratio is not None:
        words.append(f"{stall.reclaim_ratio:.0%} of them taken")
    return ", ".join([*words, f"over {stall.seconds:.1f} s"])


_Look = TypeVar("_Look")


def _recent(
    looks: Sequence[_Look], at: Callable[[_Look], float], marks: PressureThresholds
) -> list[_Look]:
    """The newest looks that lie ``window_seconds`` seconds apart at least and are three or more; none where
    there are no such looks, or they lie too far back."""
    for number in range(len(looks) - 3, -1, -1):
        apart = at(looks[-1]) - at(looks[number])
        if apart > marks.max_gap_seconds:
            return []
        if apart >= marks.window_seconds:
            return list(looks[number:])
    return []


def _parts(looks: Sequence[NodeMemory]) -> list[NodeMemory]:
    """The oldest, the newest, and of those between them some that lie ``MIN_SHARE_SECONDS`` apart."""
    kept = [looks[-1]]
    for one in reversed(looks[1:-1]):
        if kept[-1].at - one.at >= MIN_SHARE_SECONDS <= one.at - looks[0].at:
            kept.append(one)
    return [looks[0], *reversed(kept)]


def _under(looks: Sequence[NodeMemory], protected: int, marks: PressureThresholds) -> bool:
    """Whether the newest looks found less than the hard threshold for long enough."""
    since = looks[-1].at
    for one in reversed(looks):
        if one.available - protected >= marks.eviction_bytes:
            break
        since = one.at
    return looks[-1].at - since >= marks.eviction_seconds


def _busy(stall: StallRates, marks: PressureThresholds) -> bool:
    """Whether reclaim is at work."""
    return stall.scans_per_second is not None and stall.scans_per_second >= marks.scans_per_second


def _goes_on(stall: StallRates, marks: PressureThresholds) -> bool:
    """Whether a part of a longer while is no pause in what is seen over all of it."""
    if stall.full_ratio is not None and stall.some_ratio is not None:
        return stall.full_ratio >= marks.full_ratio / 4 or stall.some_ratio >= marks.some_ratio / 4
    return bool(stall.scans_per_second)


def _waits_at_limit(stall: StallRates, marks: PressureThresholds) -> bool:
    """Whether a group waits because of its limit."""
    if stall.full_ratio is not None:
        return stall.full_ratio >= marks.limit_full_ratio
    return (
        stall.scans_per_second is not None
        and stall.scans_per_second >= marks.scans_per_second
        and (stall.reclaim_ratio or 0) < marks.reclaim_ratio
    )


def _group_stall(before: MemorySample, after: MemorySample) -> StallRates:
    return _stall(
        after.at - before.at,
        (before.pressure, after.pressure),
        (before.stat.get("pgscan"), after.stat.get("pgscan")),
        (before.stat.get("pgsteal"), after.stat.get("pgsteal")),
    )


def _stall(
    seconds: float,
    pressure: tuple[Pressure | None, Pressure | None],
    scanned: tuple[int | None, int | None],
    stolen: tuple[int | None, int | None],
) -> StallRates:
    """The differences as shares and rates."""
    if seconds <= 0:
        return StallRates(0.0)
    some = full = scans = take = None
    if pressure[0] is not None and pressure[1] is not None:
        some = _share(pressure[1].some_total - pressure[0].some_total, seconds)
        full = _share(pressure[1].full_total - pressure[0].full_total, seconds)
    looked, got = _less(scanned), _less(stolen)
    if looked is not None:
        scans = looked / seconds
        if looked and got is not None:
            take = min(1.0, got / looked)
    return StallRates(seconds, some, full, scans, take)


def _less(pair: tuple[int | None, int | None]) -> int | None:
    """How much a counter grew; None where it is not there."""
    before, after = pair
    return None if before is None or after is None else max(0, after - before)


def _share(microseconds: int, seconds: float) -> float:
    return min(1.0, max(0.0, microseconds / 1e6 / seconds))


def _grown(before: MemorySample, after: MemorySample) -> int:
    """How often the group's own limits were hit between two looks."""
    names = ("max", "high")
    old, new = before.local or before.events, after.local or after.events
    return sum(max(0, new.get(name, 0) - old.get(name, 0)) for name in names)
