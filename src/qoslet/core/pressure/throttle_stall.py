"""Whether a cgroup at its memory.high makes progress, or has stalled for good.

Above ``memory.high`` the kernel reclaims and throttles, and never kills. Where what is above it
cannot be taken back (anonymous memory without swap, next to no page cache), throttling cannot
help: the cgroup never gets on. ``high`` events and pressure do not tell this from
reclaim that works; what reclaim achieves does. Memory that only looks reclaimable is believed until
the kernel scanned it over and over and took nothing, or was asked for a little of it and refused, else
for ``patience_seconds`` after the last progress, CPU time for ``busy_seconds``.
Source: mm/memcontrol.c mem_cgroup_handle_over_high, Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.breakdown import dirty_bytes, own_bytes, reclaimable_bytes
from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.reclaim_progress import (
    ReclaimProgress,
    freed_enough,
    progress_between,
    progress_since,
)
from qoslet.core.pressure.stall_tuning import STALL_TUNING, StallTuning

StallState = Literal["calm", "reclaiming", "stalled"]

_MIB = 1 << 20


class StallSignals(Struct, frozen=True):
    """The evidence of a verdict, over the last ``seconds``. Amounts and growth are bytes; growth
    leaves page cache out; ``stolen_ratio`` is of scanned pages, ``refault_ratio`` of stolen ones.
    ``freed_per_second`` is as of ``ReclaimProgress.freed``, ``not_freed_seconds`` the time since
    that was progress, ``idle_seconds`` since any sign of progress. None: unknown."""

    seconds: float
    current: int
    high: int
    unreclaimable: int
    reclaimable: int
    swap: int
    growth_per_second: float
    high_events_per_second: float
    cpu: float | None = None
    user_cpu: float | None = None
    stolen_ratio: float | None = None
    refault_ratio: float | None = None
    waiting_ratio: float | None = None
    freed_per_second: float = 0.0
    not_freed_seconds: float = 0.0
    idle_seconds: float = 0.0

    def describe(self) -> str:
        """The numbers, for a line of the log."""
        words = [
            f"{mib(self.current)} of memory.high {mib(self.high)} used",
            f"{mib(self.unreclaimable)} unreclaimable ({mib(self.reclaimable)} reclaimable)",
            f"nothing freed for {self.not_freed_seconds:.1f} s"
            if self.not_freed_seconds
            else f"{self.freed_per_second / _MIB:.1f} MiB/s freed",
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
    progress = progress_since(before, track.samples)
    signs = _signals(before, sample, swap_room, progress)
    if progress.freed >= freed_enough(signs.high) and not progress.thrashing:
        track = replace(track, freed_at=at)
    above = max(before.current, sample.current) > signs.high
    least = min(before.current, sample.current)
    judged = _unthrottled(signs, progress, track, tuning, above=above) or _judge(
        signs, progress, track, tuning, refused=refused, least=least
    )
    if judged.progress:
        track = replace(track, progress_at=at)
    signs = replace(
        signs, not_freed_seconds=at - track.freed_at, idle_seconds=at - track.progress_at
    )
    candidate = track.candidate if judged.paused else judged.state
    streak = track.streak + (not judged.paused) if candidate == track.candidate else 1
    track = replace(track, candidate=candidate, streak=streak, ask=judged.ask)
    certain = refused or signs.seconds >= _sufficient(progress, judged, tuning)
    if judged.state == "stalled" and not certain and streak < tuning.agreeing_comparisons:
        return track
    begun = track.verdict.since if track.verdict.state == judged.state else before.at
    verdict = StallVerdict(judged.state, begun, judged.because, signs, track.freed_at)
    verdict = replace(verdict, doubtful=judged.doubtful, in_vain=judged.in_vain)
    return replace(track, verdict=verdict)


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


class _Judgement(Struct, frozen=True):
    """What one comparison says, the fact that decides, whether that is a sign of progress, whether
    memory looks reclaimable, whether the kernel's answer would decide, whether it scanned in vain, and
    whether nobody waits just now, but did before: that shows nothing."""

    state: StallState
    because: str
    progress: bool = False
    doubtful: bool = False
    ask: bool = False
    in_vain: bool = False
    paused: bool = False


def _sufficient(progress: ReclaimProgress, judged: _Judgement, tuning: StallTuning) -> float:
    """Seconds between two samples from which one comparison is enough."""
    if progress.blocked and (judged.in_vain or not judged.doubtful):
        return tuning.sufficient_blocked_seconds
    return tuning.sufficient_seconds


def _unthrottled(
    signs: StallSignals,
    progress: ReclaimProgress,
    track: StallTracker,
    tuning: StallTuning,
    *,
    above: bool,
) -> _Judgement | None:
    """What one comparison says if the kernel holds nobody up. ``above``: usage was above memory.high in
    either sample; the kernel delays nobody otherwise."""
    now = track.samples[-1].at
    if not is_near(track.samples[-1], tuning):
        return _Judgement("calm", "below memory.high", progress=True)
    asked = track.crossed_at is not None and now - track.crossed_at <= tuning.history_seconds
    # one reclaim of pages that cannot be taken may last longer than that
    if not asked and (signs.waiting_ratio or 0.0) < tuning.blocked_ratio:
        return _Judgement("calm", "no process asks for more memory", progress=True)
    below = "its usage is not above memory.high"
    if not above and not progress.scanned and not signs.high_events_per_second:
        return _Judgement("calm", f"{below}, and nothing is reclaimed", progress=True)
    # a reclaim that takes nothing may last for seconds, with usage at memory.high or just below
    if not above and progress.stolen > 0 and progress.stolen >= progress.scanned / 2:
        return _Judgement("reclaiming", below, progress=True)
    return None


def _judge(
    signs: StallSignals,
    progress: ReclaimProgress,
    track: StallTracker,
    tuning: StallTuning,
    *,
    refused: bool,
    least: int,
) -> _Judgement:
    """What one comparison says of who is held up. Each answer but ``stalled`` needs a sign of progress,
    or ends. ``least``: usage in the lower sample. ``far``: that is so far above memory.high that the kernel
    delays whoever asks for memory, where nothing can be taken back: nobody has to tell that a task waits."""
    far = least >= signs.high * (1 + tuning.overage_ratio)
    held_up = far and _is_held_up(signs, progress, tuning)
    bare = signs.unreclaimable >= signs.high - _rest(signs.high, tuning)
    scans = _scans_in_vain(signs, progress, track.samples[-1], tuning)
    takes_nothing = (signs.stolen_ratio or 0.0) < tuning.vain_stolen_ratio
    exhausted = bare or held_up or (scans and takes_nothing and progress.blocked)
    if sign := _sign_of_progress(signs, progress, exhausted, tuning):
        return _Judgement("reclaiming", sign, progress=True)
    delayed = least >= signs.high * (1 + tuning.delayed_ratio)
    if free := _waits_little(signs, track, tuning, stuck=exhausted and delayed):
        return free
    idle = track.samples[-1].at - track.progress_at
    looks = f"{mib(signs.reclaimable)} are reclaimable"
    in_vain = held_up or scans
    blind = signs.waiting_ratio is None and (far or idle >= tuning.blind_seconds)
    late = blind and (exhausted or in_vain)
    if idle < tuning.busy_seconds:
        waits = (signs.waiting_ratio or 0.0) >= tuning.blocked_ratio
        hides = late or (waits and (exhausted or in_vain or refused))
        if computes(signs, tuning) and not hides:
            because = f"it uses {progress.cpu or 0:.2f} CPUs"
            return _Judgement("reclaiming", because, ask=waits and signs.user_cpu is not None)
        little = far and late and (signs.stolen_ratio or 0.0) < tuning.overage_stolen_ratio
        if not little and (freed := _frees(signs, progress, exhausted, tuning)):
            return _Judgement("reclaiming", freed)
        returns = progress.thrashing and progress.stolen >= freed_enough(signs.high)
        if returns and not refused and not (exhausted and (late or progress.refilled)):
            return _Judgement("reclaiming", "what reclaim takes is read back", ask=not exhausted)
    if bare:
        return _Judgement("stalled", f"of {mib(signs.current)} only {looks}")
    if in_vain:
        because = f"{looks} by their kind, but scanned over and over and not taken"
        return _Judgement("stalled", because, doubtful=True, in_vain=True)
    if idle < tuning.patience_seconds and not refused:
        because = f"{looks}, nothing was freed for {idle:.1f} s"
        return _Judgement("reclaiming", because, ask=True)
    because = f"of {mib(signs.current)}, {looks} by their kind, but nothing was freed"
    return _Judgement("stalled", f"{because} for {idle:.1f} s", doubtful=True, ask=True)


def _waits_little(
    signs: StallSignals, track: StallTracker, tuning: StallTuning, *, stuck: bool
) -> _Judgement | None:
    """Whether tasks hardly wait, where PSI tells: that is a sign of progress if they did not either as far
    back as is known. Who is stopped again and again waits only between; ``stuck``: each time it asks."""
    if signs.waiting_ratio is None or signs.waiting_ratio >= tuning.waiting_ratio:
        return None
    because = f"it waits {signs.waiting_ratio:.0%} of the time"
    longest = progress_between(track.samples[0], track.samples[-1])
    least = tuning.paused_waiting_ratio if stuck else tuning.waiting_ratio
    if (longest.waiting_ratio or 0.0) < least:
        return _Judgement("reclaiming", because, progress=True)
    return _Judgement("reclaiming", because, ask=track.ask, paused=True)


def _is_held_up(signs: StallSignals, progress: ReclaimProgress, tuning: StallTuning) -> bool:
    """Of a cgroup far above memory.high, whether a task waits nearly all the time (without PSI: nobody computes)
    and reclaim takes little of what it scans: it does not keep up with what comes back, and the kernel
    delays everybody. Not so where swap moves or dirty pages are written: that takes its time."""
    in_vain = progress.stolen < progress.scanned * tuning.overage_stolen_ratio
    takes_time = max(progress.swapped, progress.cleaned) >= freed_enough(signs.high)
    waits = progress.blocked if progress.waiting_ratio is not None else not computes(signs, tuning)
    return in_vain and waits and not takes_time


def _scans_in_vain(
    signs: StallSignals, progress: ReclaimProgress, sample: MemorySample, tuning: StallTuning
) -> bool:
    """Whether the kernel has tried all that looks reclaimable: pages that pipes and sockets hold are on
    the lists. What is being read or written, or may be swapped, takes its time."""
    scanned = progress.scanned * signs.seconds
    clean = not signs.swap and dirty_bytes(sample) <= signs.reclaimable / 4
    large = signs.reclaimable >= signs.high * tuning.vain_scan_ratio
    return clean and large and scanned >= tuning.vain_scan_factor * signs.reclaimable


def computes(signs: StallSignals, tuning: StallTuning = STALL_TUNING) -> bool:
    """Whether it uses a CPU for itself: inside the kernel it may do nothing but scan for memory that
    cannot be reclaimed."""
    if signs.user_cpu is not None:
        return signs.user_cpu >= tuning.busy_user_cpus
    return signs.cpu is not None and signs.cpu >= tuning.busy_cpus


def _rest(high: int, tuning: StallTuning) -> float:
    """Bytes that look reclaimable in a cgroup where that is next to nothing."""
    return min(max(tuning.min_reclaimable_bytes, high * tuning.reclaimable_ratio), high / 4)


def _sign_of_progress(
    signs: StallSignals, progress: ReclaimProgress, exhausted: bool, tuning: StallTuning
) -> str:
    """A sentence about what shows that the cgroup gets on; empty if nothing does."""
    freed = _frees(signs, progress, exhausted, tuning)
    # without PSI nobody tells whether all of it is filled by others at once
    if freed and not (exhausted and progress.waiting_ratio is None and progress.takes_files):
        return freed
    # who hardly does anything but wait may creep towards a limit near by for many seconds
    waits = progress.blocked or progress.waiting_ratio is None
    factor = tuning.exhausted_factor if exhausted and waits else 1
    change = max(signs.high * tuning.change_ratio_per_second, tuning.min_change_per_second)
    grown = abs(signs.growth_per_second)
    if min(grown, progress.outside if waits else grown) >= factor * change:
        return f"its usage changes by {signs.growth_per_second / _MIB:+.1f} MiB/s"
    return ""


def _frees(
    signs: StallSignals, progress: ReclaimProgress, exhausted: bool, tuning: StallTuning
) -> str:
    """A sentence about what reclaim frees; empty if that is too little, or filled again at once."""
    enough = freed_enough(signs.high) * (tuning.exhausted_factor if exhausted else 1)
    in_vain = progress.thrashing or (exhausted and progress.refilled)
    frees = progress.freed >= enough > 0 and not in_vain
    return f"{progress.freed / _MIB:.1f} MiB/s are freed" if frees else ""


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
        freed_per_second=progress.freed,
    )
