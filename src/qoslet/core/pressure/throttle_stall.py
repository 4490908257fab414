"""Whether a cgroup at its memory.high makes progress, or has stalled for good.

Above ``memory.high`` the kernel reclaims and throttles, and never kills. Where what is above it
cannot be taken back (anonymous memory without swap, next to no page cache), throttling cannot
help: the cgroup never gets on. ``high`` events and pressure do not tell this from
reclaim that works; what can still be taken back does.
Source: mm/memcontrol.c mem_cgroup_handle_over_high, Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.breakdown import reclaimable_bytes
from qoslet.core.memory.sample import MemorySample

StallState = Literal["calm", "reclaiming", "stalled"]

_MIB = 1 << 20


class StallTuning(Struct, frozen=True):
    """When a cgroup at its memory.high makes progress, and when it is stalled."""

    near_ratio: float = 0.97
    """Share of memory.high from which a cgroup is watched closely."""
    change_ratio_per_second: float = 1 / 40
    """Share of memory.high: memory that grows or falls faster is progress."""
    busy_cpus: float = 0.5
    """CPUs in use that count as progress, for ``busy_seconds``."""
    waiting_ratio: float = 0.2
    """Share of the time: less waiting for memory is progress, where PSI tells."""
    reclaimable_ratio: float = 1 / 32
    """Share of memory.high: more reclaimable memory is progress; a quarter at most."""
    min_reclaimable_bytes: int = 2 * _MIB
    """Lower bound of that amount."""
    min_interval_seconds: float = 0.4
    """Time between the two samples that are compared, at least."""
    history_seconds: float = 2.5
    """Time between them, at most."""
    agreeing_comparisons: int = 2
    """Comparisons in a row that must agree before a cgroup counts as stalled."""
    busy_seconds: float = 10.0
    """Time after which a cgroup that computes counts as stalled, too."""


STALL_TUNING = StallTuning()


class StallSignals(Struct, frozen=True):
    """The evidence of a verdict, over the last ``seconds``. Amounts and growth are bytes; growth
    leaves page cache out; ``stolen_ratio`` is of scanned pages, ``refault_ratio`` of stolen ones.
    None: unknown."""

    seconds: float
    current: int
    high: int
    unreclaimable: int
    reclaimable: int
    swap: int
    growth_per_second: float
    high_events_per_second: float
    cpu: float | None = None
    stolen_ratio: float | None = None
    refault_ratio: float | None = None
    waiting_ratio: float | None = None

    def describe(self) -> str:
        """The numbers, for a line of the log."""
        words = [
            f"{mib(self.current)} of memory.high {mib(self.high)} used",
            f"{mib(self.unreclaimable)} unreclaimable ({mib(self.reclaimable)} reclaimable)",
            f"{self.growth_per_second / _MIB:+.1f} MiB/s",
            f"{self.high_events_per_second:.0f} high events/s",
        ]
        for value, text in (
            (self.cpu, "{:.2f} CPUs"),
            (self.stolen_ratio, "{:.2f} stolen of scanned"),
            (self.refault_ratio, "{:.2f} returned of stolen"),
            (self.waiting_ratio, "{:.0%} of the time waited"),
        ):
            words += [] if value is None else [text.format(value)]
        return ", ".join(words)


class StallVerdict(Struct, frozen=True):
    """The state of a cgroup since a sample at ``since`` (monotonic seconds), and the deciding fact."""

    state: StallState = "calm"
    since: float = 0.0
    because: str = ""
    signals: StallSignals | None = None


class StallTracker(Struct, frozen=True):
    """The history of a cgroup: samples, oldest first; ``streak`` comparisons in a row said
    ``candidate``; ``crossed_at`` is the last sample with a new ``high`` event."""

    samples: tuple[MemorySample, ...] = ()
    candidate: StallState = "calm"
    streak: int = 0
    unreclaimable_since: float | None = None
    crossed_at: float | None = None
    verdict: StallVerdict = StallVerdict()


def mib(amount: int) -> str:
    """Bytes as MiB."""
    return "no limit" if amount >= UNLIMITED else f"{amount / _MIB:.1f} MiB"


def thresholds_crossed(sample: MemorySample) -> int:
    """How often usage crossed the cgroup's own memory.high; with those below it if the kernel does
    not count them apart."""
    return (sample.local or sample.events).get("high", 0)


def is_near(sample: MemorySample, tuning: StallTuning = STALL_TUNING) -> bool:
    """Whether a cgroup is at its memory.high, or close to it."""
    high = sample.high
    return high is not None and high < UNLIMITED and sample.current >= high * tuning.near_ratio


def swap_headroom(sample: MemorySample, free: int) -> int:
    """Bytes that the cgroup may still swap out; ``free`` is the node's free swap."""
    if sample.swap is None or sample.swap_max is None:
        return 0
    return max(0, min(free, sample.swap_max - sample.swap))


def track_sample(
    track: StallTracker, sample: MemorySample, swap_room: int, tuning: StallTuning = STALL_TUNING
) -> StallTracker:
    """The tracker after one more sample. It starts over if the cgroup was recreated, memory.high
    changed, or a counter went back. ``swap_room`` is as of ``swap_headroom``."""
    samples = track.samples
    last = samples[-1] if samples else None
    if last is None or not _goes_on(last, sample):
        return StallTracker((sample,), verdict=StallVerdict("calm", sample.at))
    if sample.at - last.at <= 0:
        return track
    kept = tuple(one for one in samples if sample.at - one.at <= tuning.history_seconds) or (last,)
    before = _compared(kept, sample, tuning)
    crossed_at = (
        sample.at if thresholds_crossed(sample) > thresholds_crossed(last) else track.crossed_at
    )
    samples = (*kept, sample)
    if before is None:
        return StallTracker(
            samples,
            track.candidate,
            track.streak,
            track.unreclaimable_since,
            crossed_at,
            track.verdict,
        )
    signs = _signals(before, sample, swap_room)
    rest = min(
        max(tuning.min_reclaimable_bytes, signs.high * tuning.reclaimable_ratio), signs.high / 4
    )
    exhausted = signs.unreclaimable >= signs.high - rest
    since = sample.at if track.unreclaimable_since is None else track.unreclaimable_since
    unreclaimable_since = since if exhausted else None
    pressed = crossed_at is not None and sample.at - crossed_at <= tuning.history_seconds
    state, because = _judge(signs, exhausted, unreclaimable_since, pressed, sample, tuning)
    streak = track.streak + 1 if state == track.candidate else 1
    verdict = track.verdict
    if streak >= tuning.agreeing_comparisons or state != "stalled":
        begun = verdict.since if verdict.state == state else before.at
        verdict = StallVerdict(state, begun, because, signs)
    return StallTracker(samples, state, streak, unreclaimable_since, crossed_at, verdict)


def _goes_on(last: MemorySample, sample: MemorySample) -> bool:
    """Whether two samples can be compared."""
    return (last.path, last.identity, last.high) == (
        sample.path,
        sample.identity,
        sample.high,
    ) and (thresholds_crossed(sample) >= thresholds_crossed(last))


def _compared(
    samples: tuple[MemorySample, ...], sample: MemorySample, tuning: StallTuning
) -> MemorySample | None:
    """The newest sample that is old enough to compare with."""
    for one in reversed(samples):
        if sample.at - one.at >= tuning.min_interval_seconds:
            return one
    return None


def _judge(
    signs: StallSignals,
    exhausted: bool,
    unreclaimable_since: float | None,
    pressed: bool,
    sample: MemorySample,
    tuning: StallTuning,
) -> tuple[StallState, str]:
    """What one comparison says, and the fact that decides."""
    if signs.current < signs.high * tuning.near_ratio:
        return "calm", "below memory.high"
    if not pressed:
        return "calm", "no process asks for more memory"
    if not exhausted:
        return "reclaiming", f"{mib(signs.reclaimable)} are reclaimable"
    if abs(signs.growth_per_second) >= signs.high * tuning.change_ratio_per_second:
        return "reclaiming", f"its usage changes by {signs.growth_per_second / _MIB:+.1f} MiB/s"
    if signs.waiting_ratio is not None and signs.waiting_ratio < tuning.waiting_ratio:
        return "reclaiming", f"it waits {signs.waiting_ratio:.0%} of the time"
    if signs.cpu is not None and signs.cpu >= tuning.busy_cpus:
        assert unreclaimable_since is not None
        if sample.at - unreclaimable_since < tuning.busy_seconds:
            return "reclaiming", f"it uses {signs.cpu:.2f} CPUs"
    return "stalled", f"of {mib(signs.current)} only {mib(signs.reclaimable)} are reclaimable"


def _signals(before: MemorySample, sample: MemorySample, swap_room: int) -> StallSignals:
    """The numbers of two samples."""
    seconds = sample.at - before.at
    reclaimable = reclaimable_bytes(sample, swap_room)
    scanned, stolen = _rise(before, sample, "pgscan"), _rise(before, sample, "pgsteal")
    returned = _rise(before, sample, "workingset_refault_file") + _rise(
        before, sample, "workingset_refault_anon"
    )
    cpu = None
    if sample.usage_usec is not None and before.usage_usec is not None:
        cpu = max(0, sample.usage_usec - before.usage_usec) / 1e6 / seconds
    waits = None
    # a kernel that was started without PSI may tell zero for ever
    if sample.pressure is not None and before.pressure is not None and sample.pressure.some_total:
        waited = sample.pressure.some_total - before.pressure.some_total
        waits = min(1.0, max(0, waited) / 1e6 / seconds)
    return StallSignals(
        seconds=seconds,
        current=sample.current,
        high=sample.high or 0,
        unreclaimable=max(0, sample.current - reclaimable),
        reclaimable=reclaimable,
        swap=swap_room,
        growth_per_second=(_own_bytes(sample) - _own_bytes(before)) / seconds,
        high_events_per_second=(thresholds_crossed(sample) - thresholds_crossed(before)) / seconds,
        cpu=cpu,
        stolen_ratio=stolen / scanned if scanned else None,
        refault_ratio=returned / stolen if stolen else None,
        waiting_ratio=waits,
    )


def _own_bytes(sample: MemorySample) -> int:
    """Bytes of the cgroup without page cache, in memory or in swap."""
    stat = sample.stat
    return stat.get("anon", 0) + stat.get("shmem", 0) + (sample.swap or 0)


def _rise(before: MemorySample, sample: MemorySample, name: str) -> int:
    """How far a counter of memory.stat rose."""
    return max(0, sample.stat.get(name, 0) - before.stat.get(name, 0))
