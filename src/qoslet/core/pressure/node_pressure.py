"""Whether memory is short, where, and whose doing it is.

The node is short where little can be had *and* what runs waits for it. Stall alone proves nothing:
a cgroup that presses against its own limit stalls on a node with free memory, and what it waits
counts for nothing while more can be had than the eviction threshold. What the page cache
of protected groups holds cannot be had, nor what pipes and sockets hold of it, which only shows in reclaim
that scans it over and over and takes nothing. Without PSI the work of reclaim stands in for the waiting.
Where a QoS cgroup or a pod is at its own limit is decided in ``limit_pressure``.

Each verdict needs all samples of a window to agree, three at least. Source:
Documentation/accounting/psi.rst, kernel mm/vmscan.c (``pgscan_*`` of /proc/vmstat leave out reclaim for a limit).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.memory.breakdown import human_bytes
from qoslet.core.memory.sample import MemorySample, NodeMemory, Pressure

PressureKind = Literal["calm", "short", "own limit", "wanted", "filling"]
"""``wanted``: stalled containers need memory that the node does not have. ``filling``: nothing is left
before a verdict."""

_MIB = 1 << 20


class PressureThresholds(Struct, frozen=True):
    """From when on memory is short."""

    available_ratio: float = 0.10
    """Share of the machine's memory that should be available."""
    min_available_bytes: int = 128 * _MIB
    """Lower bound of that amount."""
    max_available_bytes: int = 4096 * _MIB
    """Upper bound of that amount."""
    eviction_bytes: int = 100 * _MIB
    """Available memory below which a kubelet evicts."""
    full_ratio: float = 0.10
    """Share of the time for which all tasks wait."""
    some_ratio: float = 0.30
    """Share of the time for which some task waits."""
    limit_full_ratio: float = 0.40
    """Share of the time for which all tasks of a cgroup at its limit wait."""
    window_seconds: float = 0.9
    """Time that the samples of a verdict cover at least."""
    eviction_seconds: float = 0.4
    """Time for which less than ``eviction_bytes`` must be available."""
    idle_eviction_seconds: float = 10.0
    """The same where nothing waits or reclaims: a kubelet looks every ten seconds."""
    max_gap_seconds: float = 10.0
    """Age from which samples prove nothing."""
    scans_per_second: float = 1000.0
    """Pages that reclaim scans while it is busy."""
    reclaim_ratio: float = 0.5
    """Share of the scanned pages that reclaim takes while all is well."""
    vain_ratio: float = 0.02
    """Share of them up to which page cache is thought to be out of reach, for ``vain_seconds``."""
    vain_seconds: float = 2.5

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


class StallRates(Struct, frozen=True):
    """What happened between two samples: shares of the time for which tasks waited for memory (None
    without PSI), pages that reclaim scanned per second, and the share of them that it took."""

    seconds: float
    some_ratio: float | None = None
    full_ratio: float | None = None
    scans_per_second: float | None = None
    reclaim_ratio: float | None = None


class PressureState(Struct, frozen=True):
    """A verdict on the node (``path`` empty) or a cgroup. ``missing`` bytes would end the shortage,
    ``because`` is a sentence with the numbers; ``rates`` are its evidence, the newest last. ``in_vain``: page
    cache cannot be had, and is its holder's own."""

    path: str
    kind: PressureKind
    missing: int
    because: str
    rates: tuple[StallRates, ...] = ()
    in_vain: bool = False


def node_state(
    samples: Sequence[NodeMemory],
    protected: int = 0,
    thresholds: PressureThresholds = PRESSURE_THRESHOLDS,
    *,
    low_seconds: float = 0.0,
    at_limits: float = 0.0,
) -> PressureState:
    """The node's state by its samples, oldest first. ``protected`` bytes of page cache are out of
    reach of reclaim. Less than ``eviction_bytes`` has been available for ``low_seconds``.
    ``at_limits`` is the share of the time for which tasks waited for the limits of their own pods."""
    if in_vain := _takes_nothing(samples, thresholds):
        samples = [replace(one, available=min(one.free, one.available)) for one in samples]
        protected = 0
    samples = recent_samples(samples, thresholds)
    if not samples:
        return PressureState("", "calm", 0, "not enough samples yet")
    rates = tuple(node_stall(*pair) for pair in pairwise(_parts(samples)))
    whole = node_stall(samples[0], samples[-1])
    had = [max(0, sample.available - protected) for sample in samples[1:]]
    most, wanted = max(had), thresholds.wanted_bytes(samples[-1].total)
    least = max(wanted, thresholds.eviction_bytes)
    evicting = most < least and (
        (_busy(whole, thresholds) and _under(samples, protected, thresholds))
        or low_seconds >= thresholds.idle_eviction_seconds
    )
    if evicting:
        wanted = least
    missing = max(0, wanted - had[-1])
    last = rates[-1]
    numbers = f"{human_bytes(had[-1])} available of {human_bytes(wanted)} wanted, {describe(last)}"
    if protected:
        numbers += f", {human_bytes(protected)} of page cache are protected"
    if in_vain:
        numbers += ", page cache was scanned over and over and not taken"
    if at_limits:
        numbers += f", pods waited {at_limits:.0%} of the time at their own limits"
    if most >= wanted:
        stalled = any(waits(rate, thresholds) for rate in rates)
        why = "tasks wait, but the node has memory: " if stalled else ""
        return PressureState("", "own limit" if stalled else "calm", 0, why + numbers, rates)
    # kswapd works in bursts: what must last is that little can be had
    steady = most < thresholds.eviction_bytes or all(_goes_on(rate, thresholds) for rate in rates)
    waiting = steady and waits(whole, thresholds, most)
    if evicting or (waiting and _is_the_nodes(whole, most, at_limits, thresholds)):
        return PressureState("", "short", missing, numbers, rates, in_vain)
    return PressureState("", "own limit" if waiting else "calm", 0, numbers, rates)


def wanted_state(state: PressureState, keys: Iterable[str], missing: int) -> PressureState:
    """The node's state where containers of these pods are stalled at memory.high and cannot be given so
    many bytes: who comes before them is evicted for that."""
    who = f"{', '.join(sorted(keys))} stalled at memory.high and cannot be given {human_bytes(missing)}"
    return PressureState(state.path, "wanted", missing, f"{who}; {state.because}", state.rates)


def spare_bytes(
    look: NodeMemory, protected: int = 0, thresholds: PressureThresholds = PRESSURE_THRESHOLDS
) -> int:
    """Available bytes above the wanted amount; negative if bytes are missing."""
    should = max(thresholds.wanted_bytes(look.total), thresholds.eviction_bytes)
    return max(0, look.available - protected) - should


def is_uneasy(
    samples: Sequence[NodeMemory],
    protected: int = 0,
    thresholds: PressureThresholds = PRESSURE_THRESHOLDS,
) -> bool:
    """Whether the node should be sampled closely: tasks wait a little for memory, or little is
    available and reclaim is at work. The newest sample is the last."""
    if not samples:
        return False
    now, before = samples[-1], samples[-2] if len(samples) > 1 else None
    scarce = spare_bytes(now, protected, thresholds) < 0
    if before is None or now.at - before.at > thresholds.max_gap_seconds:
        return now.pressure.some_avg10 >= 1.0 if now.pressure is not None else scarce
    stall = node_stall(before, now)
    busy = (
        stall.scans_per_second is not None
        and stall.scans_per_second >= thresholds.scans_per_second / 2
    )
    return (stall.some_ratio or 0.0) >= thresholds.full_ratio / 2 or (scarce and busy)


def node_stall(before: NodeMemory, after: NodeMemory) -> StallRates:
    """What happened on the node between two samples."""
    return stall_between(
        after.at - before.at,
        (before.pressure, after.pressure),
        (before.scanned, after.scanned),
        (before.stolen, after.stolen),
    )


def waits(stall: StallRates, thresholds: PressureThresholds, had: int | None = None) -> bool:
    """Whether tasks wait for memory. ``had`` is the available memory, None if it does not matter."""
    busy = _busy(stall, thresholds)
    if busy and had is not None and had < thresholds.eviction_bytes:
        # a fast disk hides in the shares of time what reclaim does to everybody's page cache
        return True
    if stall.full_ratio is not None and stall.some_ratio is not None:
        return (
            stall.full_ratio >= thresholds.full_ratio or stall.some_ratio >= thresholds.some_ratio
        )
    return (
        busy
        and had is not None
        and stall.reclaim_ratio is not None
        and stall.reclaim_ratio < thresholds.reclaim_ratio
    )


def _is_the_nodes(
    whole: StallRates, had: int, at_limits: float, thresholds: PressureThresholds
) -> bool:
    """Whether tasks wait because of the node, and not because of limits: the kernel reclaims from
    the node, and takes little or there is more waiting than at limits."""
    if had < thresholds.eviction_bytes or whole.scans_per_second is None:
        return True
    if whole.scans_per_second < thresholds.scans_per_second / 10:
        return False
    if whole.some_ratio is None or whole.full_ratio is None or not at_limits:
        return True
    rest = replace(
        whole,
        some_ratio=max(0.0, whole.some_ratio - at_limits),
        full_ratio=max(0.0, whole.full_ratio - at_limits),
    )
    hidden = replace(whole, some_ratio=None, full_ratio=None)
    return waits(rest, thresholds, had) or waits(hidden, thresholds, had)


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
        words.append(f"{stall.reclaim_ratio:.0%} of them reclaimed")
    return ", ".join([*words, f"over {stall.seconds:.1f} s"])


_Sample = TypeVar("_Sample", NodeMemory, MemorySample)


def recent_samples(samples: Sequence[_Sample], thresholds: PressureThresholds) -> list[_Sample]:
    """The newest samples that cover ``window_seconds`` and are at least three; none if there are no
    such samples or they are too old."""
    for number in range(len(samples) - 3, -1, -1):
        apart = samples[-1].at - samples[number].at
        if apart > thresholds.max_gap_seconds:
            return []
        if apart >= thresholds.window_seconds:
            return list(samples[number:])
    return []


def _parts(samples: Sequence[NodeMemory]) -> list[NodeMemory]:
    """The oldest, the newest, and samples between them that are ``MIN_SHARE_SECONDS`` apart."""
    kept = [samples[-1]]
    for sample in reversed(samples[1:-1]):
        if kept[-1].at - sample.at >= MIN_SHARE_SECONDS <= sample.at - samples[0].at:
            kept.append(sample)
    return [samples[0], *reversed(kept)]


def _takes_nothing(samples: Sequence[NodeMemory], thresholds: PressureThresholds) -> bool:
    """Whether tasks wait, little is free, and reclaim has taken next to nothing of what it scanned, for
    ``vain_seconds``: what looks available as page cache cannot be had. Waiting for a disk takes its time."""
    for one in reversed(samples[:-1]):
        stall = node_stall(one, samples[-1])
        if one.free >= thresholds.eviction_bytes or stall.seconds > thresholds.max_gap_seconds:
            return False
        if stall.seconds >= thresholds.vain_seconds:
            taken = stall.reclaim_ratio is not None and stall.reclaim_ratio <= thresholds.vain_ratio
            return taken and _busy(stall, thresholds) and waits(stall, thresholds, one.free)
    return False


def _under(samples: Sequence[NodeMemory], protected: int, thresholds: PressureThresholds) -> bool:
    """Whether less than ``eviction_bytes`` was available for long enough."""
    since = samples[-1].at
    for sample in reversed(samples):
        if sample.available - protected >= thresholds.eviction_bytes:
            break
        since = sample.at
    return samples[-1].at - since >= thresholds.eviction_seconds


def _busy(stall: StallRates, thresholds: PressureThresholds) -> bool:
    """Whether reclaim is at work."""
    return (
        stall.scans_per_second is not None and stall.scans_per_second >= thresholds.scans_per_second
    )


def _goes_on(stall: StallRates, thresholds: PressureThresholds) -> bool:
    """Whether a part of the window shows no pause."""
    if stall.full_ratio is not None and stall.some_ratio is not None:
        return (
            stall.full_ratio >= thresholds.full_ratio / 4
            or stall.some_ratio >= thresholds.some_ratio / 4
        )
    return bool(stall.scans_per_second)


def stall_between(
    seconds: float,
    pressure: tuple[Pressure | None, Pressure | None],
    scanned: tuple[int | None, int | None],
    stolen: tuple[int | None, int | None],
) -> StallRates:
    """The differences of totals and counters, each before and after, as shares and rates."""
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
