"""Whether a group at its memory.high gets on: honest reclaim, or a stall that nothing can end.

Above ``memory.high`` the kernel reclaims and throttles, and never kills. Where what is above it
cannot be taken back (anonymous memory without swap, next to no page cache), throttling cannot
help: the group stays as it is for good. ``high`` events and pressure do not tell this from
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
    """``near_ratio``: the share of memory.high from which a group is looked at closely. Of a group
    that gets on, memory grows or falls by ``change_ratio_per_second`` of memory.high a second, or it uses ``busy_cpus``
    cores, or it waits for less than ``waiting_ratio`` of the time, where the kernel tells, or more than
    ``reclaimable_ratio`` of memory.high (``min_reclaimable_bytes`` bytes at least, a quarter of it at most) can be taken back.
    ``min_interval_seconds`` seconds lie between the two looks that are compared, at least, ``history_seconds`` at most;
    ``agreeing_comparisons`` such comparisons must say the same. What computes while nothing can be taken back
    counts as stalled after ``busy_seconds`` seconds, too."""

    near_ratio: float = 0.97
    change_ratio_per_second: float = 1 / 40
    busy_cpus: float = 0.5
    waiting_ratio: float = 0.2
    reclaimable_ratio: float = 1 / 32
    min_reclaimable_bytes: int = 2 * _MIB
    min_interval_seconds: float = 0.4
    history_seconds: float = 2.5
    agreeing_comparisons: int = 2
    busy_seconds: float = 10.0


STALL_TUNING = StallTuning()


class StallSignals(Struct, frozen=True):
    """What a verdict stands on, over the last ``seconds``: bytes in use, those that cannot be
    taken back and those that can; how fast the memory that cannot be dropped grows (bytes a
    second), ``high`` events a second, CPUs used, pages stolen of those scanned, pages that came
    back of those stolen, the share of time in which everything waited. None: unknown."""

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
            f"{mib(self.unreclaimable)} cannot be taken back ({mib(self.reclaimable)} can)",
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
    """How a group is, in ``because`` the deciding fact; ``since`` is the time of the look that
    began it (monotonic seconds)."""

    state: StallState = "calm"
    since: float = 0.0
    because: str = ""
    signals: StallSignals | None = None


class StallTracker(Struct, frozen=True):
    """What is remembered of a group: its looks, oldest first, how many comparisons in a row said
    ``candidate``, and since when nothing could be taken back."""

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
    """How often the group's own memory.high was exceeded, or one below it where only that is
    known."""
    return (sample.local or sample.events).get("high", 0)


def is_near(sample: MemorySample, tuning: StallTuning = STALL_TUNING) -> bool:
    """Whether a group is at its memory.high, or close to it."""
    high = sample.high
    return high is not None and high < UNLIMITED and sample.current >= high * tuning.near_ratio


def swap_headroom(sample: MemorySample, free: int) -> int:
    """Bytes that the group may still swap out, ``free`` being the node's free swap."""
    if sample.swap is None or sample.swap_max is None:
        return 0
    return max(0, min(free, sample.swap_max - sample.swap))


def track_sample(
    track: StallTracker, sample: MemorySample, swap_room: int, tuning: StallTuning = STALL_TUNING
) -> StallTracker:
    """Take in one more look at the group; ``swap_room`` as of ``swap_headroom``. A look at another
    group, at another memory.high or from before the last one begins anew."""
    looks = track.samples
    last = looks[-1] if looks else None
    if last is None or not _goes_on(last, sample):
        return StallTracker((sample,), verdict=StallVerdict("calm", sample.at))
    if sample.at - last.at <= 0:
        return track
    kept = tuple(one for one in looks if sample.at - one.at <= tuning.history_seconds) or (last,)
    before = _compared(kept, sample, tuning)
    pressed_at = (
        sample.at if thresholds_crossed(sample) > thresholds_crossed(last) else track.crossed_at
    )
    looks = (*kept, sample)
    if before is None:
        return StallTracker(
            looks,
            track.candidate,
            track.streak,
            track.unreclaimable_since,
            pressed_at,
            track.verdict,
        )
    signs = _signals(before, sample, swap_room)
    rest = min(
        max(tuning.min_reclaimable_bytes, signs.high * tuning.reclaimable_ratio), signs.high / 4
    )
    bare = signs.unreclaimable >= signs.high - rest
    since = sample.at if track.unreclaimable_since is None else track.unreclaimable_since
    bare_since = since if bare else None
    pressed = pressed_at is not None and sample.at - pressed_at <= tuning.history_seconds
    state, because = _judge(signs, bare, bare_since, pressed, sample, tuning)
    agreed = track.streak + 1 if state == track.candidate else 1
    verdict = track.verdict
    if agreed >= tuning.agreeing_comparisons or state != "stalled":
        begun = verdict.since if verdict.state == state else before.at
        verdict = StallVerdict(state, begun, because, signs)
    return StallTracker(looks, state, agreed, bare_since, pressed_at, verdict)


def _goes_on(last: MemorySample, sample: MemorySample) -> bool:
    """Whether two looks can be compared."""
    return (last.path, last.identity, last.high) == (
        sample.path,
        sample.identity,
        sample.high,
    ) and (thresholds_crossed(sample) >= thresholds_crossed(last))


def _compared(
    looks: tuple[MemorySample, ...], sample: MemorySample, tuning: StallTuning
) -> MemorySample | None:
    """The newest look that is far enough away."""
    for one in reversed(looks):
        if sample.at - one.at >= tuning.min_interval_seconds:
            return one
    return None


def _judge(
    signs: StallSignals,
    bare: bool,
    bare_since: float | None,
    pressed: bool,
    sample: MemorySample,
    tuning: StallTuning,
) -> tuple[StallState, str]:
    """What one comparison says, and the fact that decides."""
    if signs.current < signs.high * tuning.near_ratio:
        return "calm", "below memory.high"
    if not pressed:
        return "calm", "nobody asks for more"
    if not bare:
        return "reclaiming", f"{mib(signs.reclaimable)} can be taken back"
    if abs(signs.growth_per_second) >= signs.high * tuning.change_ratio_per_second:
        return "reclaiming", f"its memory moves by {signs.growth_per_second / _MIB:+.1f} MiB/s"
    if signs.waiting_ratio is not None and signs.waiting_ratio < tuning.waiting_ratio:
        return "reclaiming", f"it waits for {signs.waiting_ratio:.0%} of the time"
    if signs.cpu is not None and signs.cpu >= tuning.busy_cpus:
        assert bare_since is not None
        if sample.at - bare_since < tuning.busy_seconds:
            return "reclaiming", f"it uses {signs.cpu:.2f} CPUs"
    return "stalled", f"of {mib(signs.current)} only {mib(signs.reclaimable)} can be taken back"


def _signals(before: MemorySample, sample: MemorySample, swap_room: int) -> StallSignals:
    """The numbers of two looks."""
    seconds = sample.at - before.at
    cold = reclaimable_bytes(sample, swap_room)
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
        unreclaimable=max(0, sample.current - cold),
        reclaimable=cold,
        swap=swap_room,
        growth_per_second=(_held(sample) - _held(before)) / seconds,
        high_events_per_second=(thresholds_crossed(sample) - thresholds_crossed(before)) / seconds,
        cpu=cpu,
        stolen_ratio=stolen / scanned if scanned else None,
        refault_ratio=returned / stolen if stolen else None,
        waiting_ratio=waits,
    )


def _held(sample: MemorySample) -> int:
    """Bytes that the group holds itself, in memory or in swap: page cache comes and goes."""
    stat = sample.stat
    return stat.get("anon", 0) + stat.get("shmem", 0) + (sample.swap or 0)


def _rise(before: MemorySample, sample: MemorySample, name: str) -> int:
    """How far a counter of memory.stat rose."""
    return max(0, sample.stat.get(name, 0) - before.stat.get(name, 0))
