"""Whether a QoS cgroup or a pod is short of memory at its own limit.

That is the business of the pods below it alone. The kernel waits there (PSI) or kills there
(``oom`` of memory.events.local); anonymous memory that grows into a limit is killed before anything
waits. A pod that gets on is not stuck, however long it waits.
Source: Documentation/admin-guide/cgroup-v2.rst (memory.events.local ``max``, ``oom``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.breakdown import (
    dirty_bytes,
    file_list_bytes,
    human_bytes,
    page_cache_bytes,
)
from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.node_pressure import (
    MIN_SHARE_SECONDS,
    PRESSURE_THRESHOLDS,
    PressureState,
    PressureThresholds,
    StallRates,
    describe,
    recent_samples,
    stall_between,
)
from qoslet.core.pressure.reclaim_progress import freed_enough, progress_between
from qoslet.core.pressure.stall_tuning import STALL_TUNING

_MIB = 1 << 20

STUCK_SECONDS = 10.0
"""Seconds for which a pod that is stuck at its own limit is left to the kernel and the guard."""
MIN_LIMIT_KILLS = 2
"""Times that a QoS cgroup has to be out of memory: what the kernel killed first may be enough."""
LIMIT_KILL_SECONDS = 60.0
"""Time within which."""
STREAM_FACTOR = 4.0
"""Times what counts as progress elsewhere: so much is freed of a pod with next to no page cache that
streams files."""
DISK_FACTOR = 0.25
"""The same where system calls read files again, or half of its page cache waits to be written: a slow
disk gives, and takes, no more."""
USER_CPUS = 0.5
"""CPUs in use outside of the kernel from which a pod gets on."""


def group_state(
    samples: Sequence[MemorySample], thresholds: PressureThresholds = PRESSURE_THRESHOLDS
) -> PressureState:
    """Whether a cgroup is short at its own limit, by its samples, oldest first."""
    return _state(samples, thresholds, whole=False)


def _state(
    samples: Sequence[MemorySample], thresholds: PressureThresholds, *, whole: bool
) -> PressureState:
    """The same. ``whole``: what is below it is its own, so that it is also short where the kernel was out of
    memory there again and again and found nobody to kill."""
    in_vain = whole and _takes_nothing(samples, thresholds)
    samples = recent_samples(samples, thresholds)
    path = samples[-1].path if samples else ""
    if not samples or len({sample.identity for sample in samples}) > 1:
        return PressureState(path, "calm", 0, "not enough samples yet")
    rates = tuple(_group_stall(*pair) for pair in pairwise(samples))
    last = samples[-1]
    limit = last.limit
    numbers = f"{human_bytes(last.current)} in use"
    if limit >= UNLIMITED:
        return PressureState(path, "calm", 0, f"{numbers}, no limit", rates)
    hits = [_grown(before, after) for before, after in pairwise(samples)]
    name = "memory.max" if last.max is not None and last.max <= limit else "memory.high"
    numbers += f" of {name} {human_bytes(limit)}, hit {hits[-1]} times, {describe(rates[-1])}"
    # a try that takes nothing, or kills nobody, may last for longer than there is between two looks
    waits = in_vain or (all(hits) and all(_waits_at_limit(rate, thresholds) for rate in rates))
    spared = whole and _kills_nobody(samples[0], last)
    numbers += ", the kernel cannot kill any of its processes" if spared else ""
    if not (waits or spared):
        return PressureState(path, "calm", 0, numbers, rates)
    wanted = max(limit // 20, 4 * _MIB)
    # below it, the limit that is hit may be another one
    missing = max(wanted if spared else 0, last.current + wanted - limit)
    return PressureState(path, "short", missing, numbers, rates, in_vain)


def class_state(
    samples: Sequence[MemorySample], thresholds: PressureThresholds = PRESSURE_THRESHOLDS
) -> PressureState:
    """Whether a cgroup with pods below it is short at its own limit, by its samples, oldest first.
    It is not while page cache can be had there; who holds page cache that cannot be had makes the
    kernel kill (``killed_state``)."""
    state = group_state(samples, thresholds)
    if state.kind != "short":
        return state
    limit = samples[-1].limit
    had = file_list_bytes(samples[-1].stat)
    if had < max(int(limit * thresholds.available_ratio), 4 * _MIB):
        return state
    numbers = f"{state.because}, {human_bytes(had)} of page cache can be had"
    return PressureState(state.path, "own limit", 0, numbers, state.rates)


def stuck_state(
    samples: Sequence[MemorySample], thresholds: PressureThresholds = PRESSURE_THRESHOLDS
) -> PressureState:
    """Whether a pod is stuck at its own limit, by its samples, oldest first. A pod with page cache
    to give back is not, unless the kernel has tried that, nor one that swaps, streams files or computes,
    however long it waits."""
    state = _state(samples, thresholds, whole=True)
    if state.kind != "short":
        return state
    last = samples[-1]
    cache, limit = page_cache_bytes(last), last.limit
    numbers = f"{state.because}, {human_bytes(cache)} of it page cache"
    sign = _gets_on(recent_samples(samples, thresholds), limit)
    if sign or (cache > max(limit // 32, 2 * _MIB) and not state.in_vain):
        numbers += sign
        return PressureState(state.path, "own limit", 0, numbers, state.rates)
    numbers += ", scanned over and over and not taken" if state.in_vain else ""
    return replace(state, because=numbers)


def killed_state(sample: MemorySample, kills: int, seconds: float) -> PressureState:
    """Whether a cgroup with pods below it is short at its own limit, because it was out of memory
    ``kills`` times within the last ``seconds``."""
    limit = sample.max or UNLIMITED
    numbers = f"{human_bytes(sample.current)} in use of memory.max {human_bytes(limit)}"
    if limit >= UNLIMITED or kills < MIN_LIMIT_KILLS:
        return PressureState(sample.path, "calm", 0, numbers)
    numbers += f", out of memory {kills} times in {seconds:.0f} s"
    missing = max(limit // 20, 4 * _MIB)
    return PressureState(sample.path, "short", missing, numbers)


def waits_at_own_limits(
    histories: Iterable[Sequence[MemorySample]],
    thresholds: PressureThresholds = PRESSURE_THRESHOLDS,
) -> float:
    """The share of the time for which tasks of pods waited whose own limits, or those of their
    containers, were hit meanwhile; 1 at most. Each pod by its samples, oldest first; one without two
    that can be compared may wait all the time."""
    found = 0.0
    for history in histories:
        last = history[-1]
        apart = ((last.at - one.at, one) for one in reversed(history))
        ages = (MIN_SHARE_SECONDS, thresholds.max_gap_seconds)
        first = next((one for age, one in apart if ages[0] <= age <= ages[1]), None)
        if first is None or first.identity != last.identity:
            return 1.0
        hits = sum(last.events.get(name, 0) - first.events.get(name, 0) for name in ("max", "high"))
        found += (_group_stall(first, last).some_ratio or 0.0) if hits > 0 else 0.0
    return min(1.0, found)


def own_kills(before: MemorySample, after: MemorySample) -> int:
    """How often the cgroup itself was out of memory between two samples; 0 if the kernel does not
    count that apart from the cgroups below it, or did not tell it before."""
    if before.identity != after.identity or "oom" not in before.local:
        return 0
    return max(0, after.local.get("oom", 0) - before.local["oom"])


def _gets_on(samples: Sequence[MemorySample], limit: int) -> str:
    """What shows that a pod gets on; empty if nothing does."""
    progress = progress_between(samples[0], samples[-1])
    if progress.swaps(limit):
        return f", {progress.swapped / _MIB:.1f} MiB/s of swap moves"
    writes = 0 < page_cache_bytes(samples[-1]) <= 2 * dirty_bytes(samples[-1])
    factor = DISK_FACTOR if progress.by_calls or writes else STREAM_FACTOR
    if progress.freed >= factor * freed_enough(limit) and not progress.thrashing:
        return f", {progress.freed / _MIB:.1f} MiB/s are freed"
    if progress.user_cpu is not None and progress.user_cpu >= USER_CPUS:
        return f", {progress.user_cpu:.2f} CPUs outside of the kernel"
    return ""


def _takes_nothing(samples: Sequence[MemorySample], thresholds: PressureThresholds) -> bool:
    """Whether a cgroup stands and waits at its limit, and the kernel has scanned all of its page cache over
    and over and taken next to nothing, for ``vain_seconds``: pipes and sockets hold it. What waits to be
    written takes its time."""
    last = samples[-1] if samples else None
    older = (one for one in reversed(samples) if samples[-1].at - one.at >= thresholds.vain_seconds)
    first = next(older, None)
    if last is None or first is None or first.identity != last.identity:
        return False
    stall, cache = _group_stall(first, last), file_list_bytes(last.stat)
    scanned = (stall.scans_per_second or 0.0) * stall.seconds * last.page_size
    return (
        stall.seconds <= thresholds.max_gap_seconds
        and min(first.current, last.current) >= last.limit * STALL_TUNING.near_ratio
        and dirty_bytes(last) <= cache / 4
        and 0 < STALL_TUNING.vain_scan_factor * cache <= scanned
        and (stall.reclaim_ratio or 0.0) <= thresholds.vain_ratio
        and _waits_at_limit(stall, thresholds)
    )


def _waits_at_limit(stall: StallRates, thresholds: PressureThresholds) -> bool:
    """Whether a cgroup waits because of its limit."""
    if stall.full_ratio is not None:
        return stall.full_ratio >= thresholds.limit_full_ratio
    return (
        stall.scans_per_second is not None
        and stall.scans_per_second >= thresholds.scans_per_second
        and (stall.reclaim_ratio or 0) < thresholds.reclaim_ratio
    )


def _kills_nobody(before: MemorySample, after: MemorySample) -> bool:
    """Whether the kernel was out of memory in a cgroup and killed nobody there (``oom_score_adj`` -1000). Who
    touches a page then tries again without end, inside the kernel, and hardly waits."""
    outs, kills = (
        after.events.get(name, 0) - before.events.get(name, 0) for name in ("oom", "oom_kill")
    )
    return outs > 0 and not kills


def _group_stall(before: MemorySample, after: MemorySample) -> StallRates:
    return stall_between(
        after.at - before.at,
        (before.pressure, after.pressure),
        (before.stat.get("pgscan"), after.stat.get("pgscan")),
        (before.stat.get("pgsteal"), after.stat.get("pgsteal")),
    )


def _grown(before: MemorySample, after: MemorySample) -> int:
    """How often the cgroup's own limits were hit between two samples."""
    names = ("max", "high")
    old, new = before.local or before.events, after.local or after.events
    return sum(max(0, new.get(name, 0) - old.get(name, 0)) for name in names)
