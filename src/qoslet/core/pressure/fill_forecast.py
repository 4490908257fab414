"""Whether a node fills faster than a verdict on it takes, and which pods fill it.

A verdict needs about a second of samples, and the end of a pod takes its time as well. Where less
memory is left than the node loses meanwhile, the kernel would choose the victim, by what processes have
mapped: it sees neither sockets nor files in a memory volume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.breakdown import held_bytes, human_bytes
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure.node_pressure import PressureState, PressureThresholds

APART_SECONDS = 0.2
"""Seconds between two samples of a rate at least."""
END_SECONDS = 0.5
"""Seconds from a decision until the processes of a pod are gone."""
CLOSE_SECONDS = 3.0
"""Seconds before the threshold is crossed from which the node and its pods are sampled closely."""
GROWTH_DIVISOR = 8
"""A pod that grows by less than one part in so many of the fastest one does not fill the node."""


class FillForecast(Struct, frozen=True):
    """What is available and what should be ``at`` a time, the bytes a second by which the first falls, and the
    seconds until less than the eviction threshold is available, and until nothing is left."""

    at: float
    available: int
    wanted: int
    rate: float
    threshold_seconds: float
    seconds: float

    @property
    def near(self) -> bool:
        """Whether to sample closely."""
        return self.threshold_seconds <= CLOSE_SECONDS

    def with_swap(self, room: int) -> FillForecast:
        """The same where so many bytes may go to swap before."""
        return replace(self, seconds=self.seconds + room / self.rate)

    def outruns(self, thresholds: PressureThresholds) -> bool:
        """Whether less than the threshold is available, and nothing before a verdict and an end; or less than
        wanted, and nothing before an end."""
        verdict = thresholds.window_seconds + thresholds.eviction_seconds + END_SECONDS
        if self.threshold_seconds < 0:
            return self.seconds <= verdict
        return self.available < self.wanted and self.seconds <= END_SECONDS


def fill_forecast(
    samples: Sequence[NodeMemory], protected: int, thresholds: PressureThresholds
) -> FillForecast | None:
    """The forecast by the last three samples that are far enough apart, oldest first: memory falls at the lower rate
    of both intervals, since what grew and stopped shows in one. ``protected`` bytes of page cache cannot be
    had. Swap is left to ``with_swap``. None: it does not fall, or nobody knows."""
    kept = list[NodeMemory]()
    for one in reversed(samples):
        if not kept or kept[-1].at - one.at >= APART_SECONDS:
            kept.append(one)
        if len(kept) == 3:
            break
    if len(kept) < 3 or kept[0].at - kept[2].at > thresholds.max_gap_seconds:
        return None
    falls = ((old.available - new.available) / (new.at - old.at) for new, old in pairwise(kept))
    rate, had = min(falls), max(0, kept[0].available - protected)
    if rate <= 0:
        return None
    wanted = max(thresholds.wanted_bytes(kept[0].total), thresholds.eviction_bytes)
    until = (had - thresholds.eviction_bytes) / rate
    return FillForecast(kept[0].at, had, wanted, rate, until, had / rate)


def filling_state(forecast: FillForecast) -> PressureState:
    """The node's state where the forecast leaves no time for a verdict."""
    had, wanted = human_bytes(forecast.available), human_bytes(forecast.wanted)
    because = f"{had} available of {wanted} wanted and {human_bytes(int(forecast.rate))}/s less: nothing is left in {forecast.seconds:.1f} s"
    return PressureState("", "filling", forecast.wanted - forecast.available, because)


def growing(
    histories: Mapping[str, Sequence[MemorySample]], forecast: FillForecast
) -> frozenset[str]:
    """The paths of the pods that fill the node, by their samples, oldest first. None where most of what goes
    does not go to them: a pod that happens to grow then is innocent. Nor where their own limits stop them
    while more than the threshold is available."""
    rates = {path: _growth(history) for path, history in histories.items()}
    least = max(rates.values(), default=0.0) / GROWTH_DIVISOR
    found = {path: each for path, each in rates.items() if each >= least > 0}
    room = sum(_room(histories[path][-1], each, forecast.at) for path, each in found.items())
    stop = room < forecast.rate * forecast.threshold_seconds
    return frozenset(found if sum(found.values()) >= forecast.rate / 2 and not stop else ())


def _room(sample: MemorySample, growth: float, at: float) -> float:
    """Bytes of memory that its limit leaves a pod by then, its page cache and slab being none of its own."""
    limit = UNLIMITED if sample.max is None else sample.max
    held = _taken(sample) - (sample.swap or 0) + growth * max(0.0, at - sample.at)
    return max(0.0, limit - held)


def _growth(samples: Sequence[MemorySample]) -> float:
    """Bytes a second by which a pod grew between the last two samples."""
    if len(samples) < 2:
        return 0.0
    before, last = samples[-2], samples[-1]
    if before.identity != last.identity or last.at <= before.at:
        return 0.0
    return (_taken(last) - _taken(before)) / (last.at - before.at)


def _taken(sample: MemorySample) -> int:
    """Bytes that a pod takes from what is available, to which the kernel counts slab that it can reclaim."""
    return held_bytes(sample) - sample.stat.get("slab_reclaimable", 0)
