"""Whether a cgroup at its memory.high makes progress, or has stalled for good.

One comparison of two samples is one sign (``stall_signs``); a tracker keeps the samples, when progress was
last seen, and how many comparisons agreed.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.breakdown import own_bytes, reclaimable_bytes
from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.reclaim_progress import ReclaimProgress, freed_enough, progress_since
from qoslet.core.pressure.stall_signs import (
    Comparison,
    StallSign,
    StallSignals,
    StallState,
    read_signs,
)
from qoslet.core.pressure.stall_tuning import STALL_TUNING, StallTuning


class StallVerdict(Struct, frozen=True):
    """The state of a cgroup since a sample at ``since`` (monotonic seconds), and the deciding fact.
    ``freed_at``: when reclaim was last seen to free memory; the first sample if never. ``doubtful``:
    memory looks reclaimable; ``in_vain``: the kernel scanned it over and over."""

    state: StallState = "calm"
    since: float = 0.0
    because: str = ""
    signals: StallSignals | None = None
    freed_at: float = 0.0
    doubtful: bool = False
    in_vain: bool = False


class StallTracker(Struct, frozen=True):
    """The history of a cgroup: samples, oldest first; ``streak`` comparisons in a row said
    ``candidate``. ``crossed_at`` is the last sample with a new ``high`` event, ``progress_at`` the
    last one with a sign of progress, ``freed_at`` with memory freed; each is the first sample if
    there was none. ``ask``: the last sample showed no progress of a cgroup in which reclaim may find
    memory, so that the kernel's answer would decide."""

    samples: tuple[MemorySample, ...] = ()
    candidate: StallState = "calm"
    streak: int = 0
    crossed_at: float | None = None
    progress_at: float = 0.0
    freed_at: float = 0.0
    ask: bool = False
    verdict: StallVerdict = StallVerdict()


def thresholds_crossed(sample: MemorySample) -> int:
    """How often usage crossed the cgroup's own memory.high; with those below it if the kernel does
    not count them apart."""
    return (sample.local or sample.events).get("high", 0)


def is_near(sample: MemorySample, tuning: StallTuning = STALL_TUNING) -> bool:
    """Whether a cgroup is at its memory.high, or close to it."""
    high = sample.high
    if high is None or high >= UNLIMITED:
        return False
    return tuning.is_near(sample.current, high, sample.page_size)


def swap_headroom(sample: MemorySample, free: int) -> int:
    """Bytes that the cgroup may still swap out; ``free`` is the node's free swap."""
    if sample.swap is None or sample.swap_max is None:
        return 0
    return max(0, min(free, sample.swap_max - sample.swap))


def track_sample(
    track: StallTracker,
    sample: MemorySample,
    swap_room: int,
    tuning: StallTuning = STALL_TUNING,
    *,
    refused: bool = False,
) -> StallTracker:
    """The tracker after one more sample. It starts over if the cgroup was recreated, memory.high changed and usage
    is not above both values, a counter went back, or nobody looked for too long. ``swap_room`` is as of
    ``swap_headroom``. ``refused``: since the last progress the kernel was asked to reclaim, and freed nothing."""
    last, at = track.samples[-1] if track.samples else None, sample.at
    if last is None or not _goes_on(last, sample, tuning):
        return StallTracker((sample,), progress_at=at, freed_at=at, verdict=_calm(at))
    if at - last.at <= 0:
        return track
    kept = tuple(one for one in track.samples if at - one.at <= tuning.history_seconds) or (last,)
    old = (one for one in reversed(kept) if at - one.at >= tuning.min_interval_seconds)
    before = next(old, None)
    if thresholds_crossed(sample) > thresholds_crossed(last):
        track = replace(track, crossed_at=at)
    track = replace(track, samples=(*kept, sample))
    if before is None:
        return track
    progress = progress_since(before, track.samples, reclaimable_bytes(sample, swap_room))
    signs = _signals(before, sample, swap_room, progress)
    if progress.freed >= freed_enough(signs.high) and not progress.thrashing:
        track = replace(track, freed_at=at)
    compared = _comparison(track, before, signs, progress, tuning, refused)
    sign = read_signs(compared)
    if sign.progress:
        track = replace(track, progress_at=at)
    candidate = track.candidate if sign.paused else sign.state
    streak = track.streak + (not sign.paused) if candidate == track.candidate else 1
    track = replace(track, candidate=candidate, streak=streak, ask=sign.ask)
    certain = refused or signs.seconds >= _sufficient(compared, sign)
    if sign.state == "stalled" and not certain and streak < tuning.agreeing_comparisons:
        return track
    idle, not_freed = at - track.progress_at, at - track.freed_at
    verdict = StallVerdict(
        sign.state,
        track.verdict.since if track.verdict.state == sign.state else before.at,
        sign.because,
        replace(signs, not_freed_seconds=not_freed, idle_seconds=idle),
        track.freed_at,
        sign.doubtful or progress.rereads,
        sign.in_vain,
    )
    return replace(track, verdict=verdict)


def _comparison(
    track: StallTracker,
    before: MemorySample,
    signs: StallSignals,
    progress: ReclaimProgress,
    tuning: StallTuning,
    refused: bool,
) -> Comparison:
    """The last sample against an earlier one."""
    sample, crossed = track.samples[-1], track.crossed_at
    delayed = tuning.delayed_bytes(signs.high, sample.page_size)
    return Comparison(
        signs,
        progress,
        sample,
        track.samples[0],
        tuning,
        is_near=is_near(sample, tuning),
        is_above=max(before.current, sample.current) > delayed,
        least=min(before.current, sample.current),
        crossed_seconds=None if crossed is None else sample.at - crossed,
        idle_seconds=sample.at - track.progress_at,
        asked=track.ask,
        refused=refused,
    )


def _calm(at: float) -> StallVerdict:
    return StallVerdict("calm", at, freed_at=at)


def _goes_on(last: MemorySample, sample: MemorySample, tuning: StallTuning) -> bool:
    """Whether two samples can be compared."""
    at_high = is_near(last, tuning)
    longest = tuning.max_stall_gap_seconds if at_high else tuning.max_gap_seconds
    before, now = ((one.path, one.identity) for one in (last, sample))
    is_held_on = last.high == sample.high or (_is_above(last) and _is_above(sample))
    is_counted_on = thresholds_crossed(sample) >= thresholds_crossed(last)
    return sample.at - last.at <= longest and before == now and is_held_on and is_counted_on


def _is_above(sample: MemorySample) -> bool:
    """Whether usage is above memory.high: who is held up there is so at any other value below it."""
    return sample.high is not None and sample.current > sample.high


def _sufficient(compared: Comparison, sign: StallSign) -> float:
    """Seconds between two samples from which one comparison is enough."""
    tuning = compared.tuning
    if compared.progress.blocked and (sign.in_vain or not sign.doubtful):
        short = compared.is_delayed_close_to_limit
        return tuning.min_interval_seconds if short else tuning.sufficient_blocked_seconds
    return tuning.sufficient_seconds


def _signals(
    before: MemorySample, sample: MemorySample, swap_room: int, progress: ReclaimProgress
) -> StallSignals:
    """The numbers of two samples."""
    seconds = sample.at - before.at
    reclaimable = reclaimable_bytes(sample, swap_room)
    return StallSignals(
        seconds=seconds,
        current=sample.current,
        high=sample.high or 0,
        unreclaimable=max(0, sample.current - reclaimable),
        reclaimable=reclaimable,
        swap=swap_room,
        growth_per_second=(own_bytes(sample) - own_bytes(before)) / seconds,
        high_events_per_second=(thresholds_crossed(sample) - thresholds_crossed(before)) / seconds,
        cpu=progress.cpu,
        user_cpu=progress.user_cpu,
        stolen_ratio=progress.stolen / progress.scanned if progress.scanned else None,
        refault_ratio=progress.returned / progress.stolen if progress.stolen else None,
        waiting_ratio=progress.waiting_ratio,
        by_calls=progress.by_calls,
        swaps=progress.swaps(sample.high or 0),
        rereads=progress.rereads,
        freed_per_second=progress.freed,
    )
