"""What two samples of a cgroup at its memory.high show: a sign that it gets on, or that it is stalled.

Above ``memory.high`` the kernel reclaims and throttles, and never kills. Where what is above it
cannot be taken back (anonymous memory without swap, next to no page cache), throttling cannot
help: the cgroup never gets on. ``high`` events and pressure do not tell this from
reclaim that works; what reclaim achieves does. Memory that only looks reclaimable is believed until
the kernel scanned it over and over and took nothing, or was asked for a little of it and refused, else
for ``patience_seconds`` after the last progress, CPU time for ``busy_seconds``.
Source: mm/memcontrol.c mem_cgroup_handle_over_high, Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.breakdown import dirty_bytes
from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.reclaim_progress import (
    ReclaimProgress,
    freed_enough,
    progress_between,
)
from qoslet.core.pressure.stall_tuning import STALL_TUNING, StallTuning

StallState = Literal["calm", "reclaiming", "stalled"]

_MIB = 1 << 20


class StallSignals(Struct, frozen=True):
    """The evidence of a verdict, over the last ``seconds``. Amounts and growth are bytes; growth
    leaves page cache out; ``stolen_ratio`` is of scanned pages, ``refault_ratio`` of stolen ones.
    ``by_calls``: system calls may have read what came back; ``swaps``: its swap moves, however slow the device
    may be; ``rereads`` and ``freed_per_second`` are as of
    ``ReclaimProgress``, ``not_freed_seconds`` the time since that was progress, ``idle_seconds``
    since any sign of progress. None: unknown."""

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
    by_calls: bool = False
    swaps: bool = False
    rereads: bool = False
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


def mib(amount: int) -> str:
    """Bytes as MiB."""
    return "no limit" if amount >= UNLIMITED else f"{amount / _MIB:.1f} MiB"


class StallSign(Struct, frozen=True):
    """What one comparison says, and the fact that decides. ``progress``: that is a sign of progress;
    ``doubtful``: memory looks reclaimable; ``ask``: the kernel's answer would decide; ``in_vain``: the kernel
    scanned it over and over; ``paused``: nobody waits just now, but did before, which shows nothing."""

    state: StallState
    because: str
    progress: bool = False
    doubtful: bool = False
    ask: bool = False
    in_vain: bool = False
    paused: bool = False


class Comparison:
    """Two samples of a cgroup, and what they show. ``sample`` is the later one, ``oldest`` the first of its
    history. ``is_near`` and ``is_above``: usage is close to memory.high now, and was above it in either;
    ``least``: usage in the lower one. ``crossed_seconds``: since usage crossed memory.high, None if never;
    ``idle_seconds``: since the last sign of progress. ``asked``: the comparison before wanted the kernel's
    answer; ``refused``: the kernel freed nothing since the last progress."""

    def __init__(
        self,
        signs: StallSignals,
        progress: ReclaimProgress,
        sample: MemorySample,
        oldest: MemorySample,
        tuning: StallTuning,
        *,
        is_near: bool,
        is_above: bool,
        least: int,
        crossed_seconds: float | None,
        idle_seconds: float,
        asked: bool,
        refused: bool,
    ) -> None:
        self.signs, self.progress, self.tuning = signs, progress, tuning
        self._sample, self._oldest, self._least = sample, oldest, least
        self.is_near, self.is_above = is_near, is_above
        self.crossed_seconds, self.idle_seconds = crossed_seconds, idle_seconds
        self.asked, self.refused = asked, refused

    @property
    def waits(self) -> bool:
        """Whether a task waits for so long that CPUs in use may be those of others, where PSI tells."""
        return (self.signs.waiting_ratio or 0.0) >= self.tuning.blocked_ratio

    @property
    def waited_before(self) -> float:
        """The share of the whole history in which a task waited, where PSI tells."""
        return progress_between(self._oldest, self._sample).waiting_ratio or 0.0

    @cached_property
    def is_far(self) -> bool:
        """Whether usage is so far above memory.high that the kernel delays whoever asks for memory, where
        nothing can be taken back: nobody has to tell that a task waits."""
        return self._least >= self.signs.high * (1 + self.tuning.overage_ratio)

    @property
    def is_delayed(self) -> bool:
        """Whether usage is so far above that the kernel delays whoever asks, however little."""
        return self._least >= self.signs.high * (1 + self.tuning.delayed_ratio)

    @property
    def is_delayed_close_to_limit(self) -> bool:
        """Whether usage is so far above a memory.high that is close to memory.max, and hardly any file passes: to
        lift it gives next to nothing, but a writer would be killed for pages that wait for a disk."""
        high, tuning = self.signs.high, self.tuning
        limit = UNLIMITED if self._sample.max is None else self._sample.max
        passes = self.progress.freed >= freed_enough(high) * tuning.many_files_factor
        return self.is_delayed and not passes and high >= limit * tuning.close_to_limit_ratio

    @cached_property
    def is_bare(self) -> bool:
        """Whether next to nothing looks reclaimable."""
        high, tuning = self.signs.high, self.tuning
        rest = max(tuning.min_reclaimable_bytes, high * tuning.reclaimable_ratio)
        return self.signs.unreclaimable >= high - min(rest, high / 4)

    @cached_property
    def is_held_up(self) -> bool:
        """Of a cgroup far above memory.high, whether a task waits nearly all the time (without PSI: nobody
        computes) and reclaim takes little of what it scans: it does not keep up with what comes back, and the
        kernel delays everybody. Not so where swap moves or dirty pages are written: that takes its time."""
        progress = self.progress
        in_vain = progress.stolen < progress.scanned * self.tuning.overage_stolen_ratio
        takes_time = max(progress.swapped, progress.cleaned) >= freed_enough(self.signs.high)
        blind = progress.waiting_ratio is None
        waits = not computes(self.signs, self.tuning) if blind else progress.blocked
        return self.is_far and in_vain and waits and not takes_time

    @cached_property
    def scans_in_vain(self) -> bool:
        """Whether the kernel has tried all that looks reclaimable: pages that pipes and sockets hold are on
        the lists. What is being read or written, or may be swapped, takes its time."""
        signs, tuning = self.signs, self.tuning
        clean = not signs.swap and dirty_bytes(self._sample) <= signs.reclaimable / 4
        large = signs.reclaimable >= signs.high * tuning.vain_scan_ratio
        scanned = self.progress.scanned * signs.seconds
        return clean and large and scanned >= tuning.vain_scan_factor * signs.reclaimable

    @property
    def is_in_vain(self) -> bool:
        """Whether reclaim takes nothing of what looks reclaimable."""
        return self.is_held_up or self.scans_in_vain

    @cached_property
    def is_exhausted(self) -> bool:
        """Whether next to nothing can be taken back: more has to be freed to be progress."""
        takes_nothing = (self.signs.stolen_ratio or 0.0) < self.tuning.vain_stolen_ratio
        scans = self.scans_in_vain and takes_nothing and self.progress.blocked
        return self.is_bare or self.is_held_up or scans

    @property
    def is_late(self) -> bool:
        """Whether it has long been so without PSI: nobody tells whether a task waits beside one that computes."""
        blind = self.signs.waiting_ratio is None
        long = self.is_far or self.idle_seconds >= self.tuning.blind_seconds
        return blind and long and (self.is_exhausted or self.is_in_vain)


def read_signs(comparison: Comparison) -> StallSign:
    """The first of ``_SIGNS`` that is there. All but ``stalled`` need a sign of progress, or end."""
    found = (sign(comparison) for sign in _SIGNS)
    return next(one for one in found if one is not None)


def _is_below(of: Comparison) -> StallSign | None:
    """Usage is not at memory.high."""
    return None if of.is_near else StallSign("calm", "below memory.high", progress=True)


def _asks_for_nothing(of: Comparison) -> StallSign | None:
    """Nobody crosses memory.high or waits: one reclaim of pages that cannot be taken may last long, though."""
    crossed = of.crossed_seconds
    if of.waits or (crossed is not None and crossed <= of.tuning.history_seconds):
        return None
    return StallSign("calm", "no process asks for more memory", progress=True)


def _is_not_above(of: Comparison) -> StallSign | None:
    """Usage is not above memory.high, where alone the kernel delays. A reclaim that takes nothing may last
    for seconds, with usage at memory.high or just below."""
    progress, below = of.progress, "its usage is not above memory.high"
    if of.is_above:
        return None
    if not progress.scanned and not of.signs.high_events_per_second:
        return StallSign("calm", f"{below}, and nothing is reclaimed", progress=True)
    takes = progress.stolen > 0 and progress.stolen >= progress.scanned / 2
    if takes and not progress.rereads:
        return StallSign("reclaiming", below, progress=True)
    return None


def _frees_enough(of: Comparison) -> StallSign | None:
    """Reclaim frees memory. Without PSI nobody tells whether others fill all of it at once."""
    progress = of.progress
    if of.is_exhausted and progress.waiting_ratio is None and progress.takes_files:
        return None
    freed = _freed(of)
    return StallSign("reclaiming", freed, progress=True) if freed else None


def _changes(of: Comparison) -> StallSign | None:
    """Its memory grows or falls. Who hardly does anything but wait may creep towards a limit near by for many
    seconds."""
    progress, signs, tuning = of.progress, of.signs, of.tuning
    waits = progress.blocked or progress.waiting_ratio is None
    factor = tuning.exhausted_factor if of.is_exhausted and waits else 1
    change = max(signs.high * tuning.change_ratio_per_second, tuning.min_change_per_second)
    grown = abs(signs.growth_per_second)
    if min(grown, progress.outside if waits else grown) < factor * change:
        return None
    because = f"its usage changes by {signs.growth_per_second / _MIB:+.1f} MiB/s"
    return StallSign("reclaiming", because, progress=True)


def _waits_little(of: Comparison) -> StallSign | None:
    """Tasks hardly wait, where PSI tells: a sign of progress if they did not either as far back as is known.
    Who is stopped again and again waits only between; with nothing to take back, each time it asks."""
    waiting, tuning = of.signs.waiting_ratio, of.tuning
    if waiting is None or waiting >= tuning.waiting_ratio or of.progress.rereads:
        return None
    because = f"it waits {waiting:.0%} of the time"
    stuck = of.is_exhausted and of.is_delayed
    if of.waited_before < (tuning.paused_waiting_ratio if stuck else tuning.waiting_ratio):
        return StallSign("reclaiming", because, progress=True)
    return StallSign("reclaiming", because, ask=of.asked, paused=True)


def _computes(of: Comparison) -> StallSign | None:
    """It uses a CPU, for a while without any progress; others may, beside one that waits."""
    if of.idle_seconds >= of.tuning.busy_seconds or not computes(of.signs, of.tuning):
        return None
    if of.is_late or (of.waits and (of.is_exhausted or of.is_in_vain or of.refused)):
        return None
    because = f"it uses {of.progress.cpu or 0:.2f} CPUs"
    return StallSign("reclaiming", because, ask=of.waits and of.signs.user_cpu is not None)


def _frees_some(of: Comparison) -> StallSign | None:
    """Reclaim frees memory, which others may fill."""
    if of.idle_seconds >= of.tuning.busy_seconds:
        return None
    if of.is_far and of.is_late and (of.signs.stolen_ratio or 0.0) < of.tuning.overage_stolen_ratio:
        return None
    freed = _freed(of)
    return StallSign("reclaiming", freed) if freed else None


def _reads_back(of: Comparison) -> StallSign | None:
    """It reads back at once what reclaim takes."""
    progress = of.progress
    returns = progress.thrashing and progress.stolen >= freed_enough(of.signs.high)
    is_text = progress.rereads and progress.calls_read_nothing
    patience = of.tuning.text_seconds if is_text else of.tuning.busy_seconds
    if of.idle_seconds >= patience or not returns or of.refused:
        return None
    if of.is_exhausted and (of.is_late or progress.refilled):
        return None
    return StallSign("reclaiming", "what reclaim takes is read back", ask=not of.is_exhausted)


def _has_nothing(of: Comparison) -> StallSign | None:
    """Next to nothing is reclaimable."""
    because = f"of {mib(of.signs.current)} only {_looks(of)}"
    return StallSign("stalled", because) if of.is_bare else None


def _reclaims_in_vain(of: Comparison) -> StallSign | None:
    """The kernel has tried what looks reclaimable."""
    because = f"{_looks(of)} by their kind, but scanned over and over and not taken"
    return StallSign("stalled", because, doubtful=True, in_vain=True) if of.is_in_vain else None


def _may_still_free(of: Comparison) -> StallSign | None:
    """What looks reclaimable is believed for a while."""
    if of.refused or of.idle_seconds >= of.tuning.patience_seconds:
        return None
    because = f"{_looks(of)}, nothing was freed for {of.idle_seconds:.1f} s"
    return StallSign("reclaiming", because, ask=True)


def _frees_nothing(of: Comparison) -> StallSign:
    """Nothing that looked reclaimable was freed."""
    because = f"of {mib(of.signs.current)}, {_looks(of)} by their kind, but nothing was freed"
    because = f"{because} for {of.idle_seconds:.1f} s"
    return StallSign("stalled", because, doubtful=True, ask=True)


_SIGNS: tuple[Callable[[Comparison], StallSign | None], ...] = (
    # the kernel holds nobody up
    _is_below, _asks_for_nothing, _is_not_above,
    # it gets on
    _frees_enough, _changes, _waits_little,
    # it may get on
    _computes, _frees_some, _reads_back,
    # it does not
    _has_nothing, _reclaims_in_vain, _may_still_free, _frees_nothing,
)  # fmt: skip
"""In the order in which they decide; the last one is always there."""


def computes(signs: StallSignals, tuning: StallTuning = STALL_TUNING) -> bool:
    """Whether it uses a CPU for itself: inside the kernel it may do nothing but scan for memory that
    cannot be reclaimed."""
    if signs.user_cpu is not None:
        return signs.user_cpu >= tuning.busy_user_cpus
    return signs.cpu is not None and signs.cpu >= tuning.busy_cpus


def _looks(of: Comparison) -> str:
    return f"{mib(of.signs.reclaimable)} are reclaimable"


def _freed(of: Comparison) -> str:
    """A sentence about what reclaim frees; empty if that is too little, or filled again at once."""
    progress, exhausted = of.progress, of.is_exhausted
    enough = freed_enough(of.signs.high) * (of.tuning.exhausted_factor if exhausted else 1)
    in_vain = progress.thrashing or (exhausted and of.progress.refilled)
    frees = progress.freed >= enough > 0 and not in_vain
    return f"{progress.freed / _MIB:.1f} MiB/s are freed" if frees else ""
