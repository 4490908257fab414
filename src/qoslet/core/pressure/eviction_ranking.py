"""Which pod is ended where memory is short, and why that one, or why none.

The order is the kubelet's: first what uses more than its request, then the lower priority, then the
larger usage above request; the QoS class breaks ties. It is total and does not depend on the order of
the candidates. Of the first pods in that order that are enough together, those that the others do
not need are left out, so that the fewest end. Pods within their request come last, and not soon. A pod that
fills the node comes first where it is the first in the order, though what it holds outlives it.
Usage above request is net of effective protection, as in oomd's ``memory_protection``.
Source: kubelet pkg/kubelet/eviction/helpers.go rankMemoryPressure (critical pods are never evicted),
oomd docs/core_plugins.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Literal

from msgspec import Struct

from qoslet.core.api.memory_annotations import GuardMode
from qoslet.core.api.pod import QosClass
from qoslet.core.memory.breakdown import (
    dirty_bytes,
    freed_bytes,
    held_bytes,
    human_bytes,
    page_cache_bytes,
)
from qoslet.core.memory.sample import MemorySample

EvictionVerdict = Literal["end", "would end", "none"]


class PressureRow(Struct, frozen=True, gc=False):
    """A decision, or its outcome (``ended``), at wall-clock seconds. ``path`` is the cgroup that
    was short of memory, empty for the node; ``pod`` is the victim's key, ``freed`` bytes."""

    at: float
    path: str
    verdict: Literal["end", "would end", "none", "ended"]
    because: str
    pod: str = ""
    freed: int | None = None


class PressureReport(Struct, frozen=True):
    """The last decisions, oldest first, and how many of each verdict there were."""

    decisions: tuple[PressureRow, ...] = ()
    counts: Mapping[str, int] = {}


NO_PRESSURE_REPORT = PressureReport()

MIN_FREED_BYTES = 8 << 20
"""Bytes that the end of a pod frees at least, else it frees nothing."""
MIN_FREED_DIVISOR = 8
"""A victim that frees less than one part in so many of what is missing is one of little help."""
UNDER_REQUEST_SECONDS = 10.0
"""Seconds of pressure after which pods under their request may be ended, never before."""

ENDING_SECONDS = 10.0
"""Seconds for which a pod that ends holds up the end of others."""


class Candidate(Struct, frozen=True):
    """A pod below what is short of memory. Amounts are bytes: ``charged`` is what it holds without
    page cache, swapped or not; ``freed`` is what its end frees, without files that survive it.
    ``protected`` is the larger of its effective ``memory.low`` and ``memory.min``. ``ending``: it
    was already asked to stop, ``ending_seconds`` ago. ``hastens``: it has most of its grace period left, and is
    ended at once if it is evicted. ``fills``: it is what fills the node."""

    uid: str
    key: str
    qos: QosClass
    request: int
    charged: int
    freed: int
    protected: int = 0
    priority: int = 0
    critical: bool = False
    ending: bool = False
    ending_seconds: float = 0.0
    hastens: bool = False
    mode: GuardMode = "act"
    fills: bool = False

    @property
    def excess(self) -> int:
        """Bytes in use above request and effective protection."""
        return max(0, self.charged - max(self.request, self.protected))

    @property
    def lingers(self) -> bool:
        """Whether it was asked to stop and is not waited for, since it can be ended at once."""
        return self.hastens and (self.fills or self.ending_seconds >= ENDING_SECONDS)


def charged_and_freed(
    sample: MemorySample, surviving: int, *, in_vain: bool = False
) -> tuple[int, int]:
    """What a pod holds and what its end frees. ``surviving`` is as of ``freed_bytes``. Slab that the kernel can
    reclaim outlives it, as files do, and is available already. ``in_vain``: nobody can take that or its page
    cache, which are its own then; what waits for a disk outlives it."""
    held, freed = held_bytes(sample), freed_bytes(sample, surviving)
    if not in_vain:
        return held, max(0, freed - sample.stat.get("slab_reclaimable", 0))
    pinned = max(0, page_cache_bytes(sample) - dirty_bytes(sample))
    return held + pinned, freed + pinned


class EvictionReason(Enum):
    """What a choice rests on, without its numbers."""

    BEST_EFFORT = 0
    ABOVE_REQUEST = 1
    LITTLE_HELP = 2
    FILLS = "its end frees little of what it holds, and it would go on to fill the node"
    UNDER_REQUEST = 3
    GUARANTEED = 4
    NO_PODS = "no pod is below"
    NOT_EVICTABLE = "no pod may be ended"
    TOO_EARLY = "only pods under their request, and not for long enough"
    OUTSIDE_PODS = "the memory is held outside of pods"
    IN_PROGRESS = "a pod is ending"
    SETTLING = "a pod has just been ended"
    OWN_LIMIT = "its own limit is left to the kernel and the guard"
    GUARDED = "the first is stalled at memory.high, and left to the guard"


class EvictionChoice(Struct, frozen=True):
    """The decision about the candidates. ``order`` has the UIDs of all that may be evicted, the
    first victim first; ``because`` is a sentence with the numbers."""

    verdict: EvictionVerdict
    because: str
    reason: EvictionReason
    victim: Candidate | None = None
    order: tuple[str, ...] = ()


def choose_victim(
    candidates: Sequence[Candidate], missing: int, lasted: float, guarded: Collection[str] = ()
) -> EvictionChoice:
    """The victim, if ``missing`` bytes have been wanted for ``lasted`` seconds; none where it is one of
    the UIDs ``guarded``, for which the guard itself decides. Pods that have been ending for less
    than ``ENDING_SECONDS`` are waited for if they free enough, but not where the guard would end a
    container meanwhile."""
    ending = [one for one in candidates if one.ending and one.freed >= MIN_FREED_BYTES]
    ending = [one for one in ending if one.ending_seconds < ENDING_SECONDS and not one.lingers]
    if ending and not guarded and _sum(ending) >= missing:
        keys = ", ".join(sorted(one.key for one in ending))
        text = f"ending already: {keys}; that frees {human_bytes(_sum(ending))} of {human_bytes(missing)} missing"
        return EvictionChoice("none", text, EvictionReason.IN_PROGRESS)
    ranked = sorted((one for one in candidates if _able(one)), key=_key)
    if (first := _filler(candidates)) is not None:
        ranked = [first, *(one for one in ranked if one is not first)]
        return _ended(ranked, missing, EvictionReason.FILLS)
    if not ranked:
        reason = EvictionReason.NOT_EVICTABLE if candidates else EvictionReason.NO_PODS
        return EvictionChoice("none", _why_none(candidates), reason)
    chosen = _chosen([one for one in ranked if _exceeds(one)], missing)
    if not chosen:
        chosen = _chosen(ranked, missing)
        if chosen and lasted < UNDER_REQUEST_SECONDS:
            text = _too_early([one for one in ranked if not _exceeds(one)], missing, lasted)
            order = tuple(one.uid for one in ranked)
            return EvictionChoice("none", text, EvictionReason.TOO_EARLY, order=order)
    # what would be ended first, then all others
    ranked = [*chosen, *(one for one in ranked if one not in chosen)]
    order = tuple(one.uid for one in ranked)
    if not chosen:
        text = f"evicting all pods would free {human_bytes(_sum(ranked))} of {human_bytes(missing)} missing: the rest is used outside of pods"
        return EvictionChoice("none", text, EvictionReason.OUTSIDE_PODS, order=order)
    first = chosen[0]
    if first.uid in guarded:
        text = f"{first.key} comes first, and the guard decides about it"
        return EvictionChoice("none", text, EvictionReason.GUARDED, order=order)
    return _ended(ranked, missing, _reason(first, missing))


def _ended(ranked: Sequence[Candidate], missing: int, reason: EvictionReason) -> EvictionChoice:
    """The choice of the first."""
    first, order = ranked[0], tuple(one.uid for one in ranked)
    verdict: EvictionVerdict = "end" if first.mode == "act" else "would end"
    return EvictionChoice(verdict, _because(ranked, missing, reason), reason, first, order)


def _filler(candidates: Sequence[Candidate]) -> Candidate | None:
    """The first in the order if it fills the node and less than half of what it holds ends with it: whoever
    is ended in its place only makes room for it."""
    able = (one for one in candidates if _may_end(one) and _exceeds(one))
    first = min(able, key=_key, default=None)
    outlived = first is not None and first.fills and first.freed < first.charged // 2
    return first if outlived else None


def _chosen(ranked: Sequence[Candidate], missing: int) -> list[Candidate]:
    """The fewest of these pods whose end is enough, by their order. If all are not enough, those
    that help; empty if none does."""
    if _sum(ranked) < max(missing, 1):
        return [one for one in ranked if _helps(one, missing)]
    needed: list[Candidate] = []
    for one in ranked:
        needed.append(one)
        if _sum(needed) >= missing:
            break
    for one in list(needed):
        if _sum(needed) - one.freed >= max(missing, 1):
            needed.remove(one)
    return needed


def _sum(pods: Iterable[Candidate]) -> int:
    """What the end of these pods frees."""
    return sum(one.freed for one in pods)


def _able(one: Candidate) -> bool:
    """Whether the pod may be evicted, and that would free something."""
    return _may_end(one) and one.freed >= MIN_FREED_BYTES


def _may_end(one: Candidate) -> bool:
    """Whether the pod may be evicted."""
    return (not one.ending or one.lingers) and not one.critical and one.mode != "off"


def _exceeds(one: Candidate) -> bool:
    """Whether the pod uses more than its request."""
    if one.qos == "BestEffort":
        return True
    return one.qos == "Burstable" and one.excess >= MIN_FREED_BYTES


def _helps(one: Candidate, missing: int) -> bool:
    """Whether the end of the pod frees a part of what is missing that is worth it."""
    return one.freed >= max(MIN_FREED_BYTES, missing // MIN_FREED_DIVISOR)


def _reason(one: Candidate, missing: int) -> EvictionReason:
    """What the choice of this pod rests on."""
    if not _exceeds(one):
        guaranteed = one.qos == "Guaranteed"
        return EvictionReason.GUARANTEED if guaranteed else EvictionReason.UNDER_REQUEST
    if not _helps(one, missing):
        return EvictionReason.LITTLE_HELP
    best_effort = one.qos == "BestEffort"
    return EvictionReason.BEST_EFFORT if best_effort else EvictionReason.ABOVE_REQUEST


_CLASSES: tuple[QosClass, ...] = ("BestEffort", "Burstable", "Guaranteed")


def _key(one: Candidate) -> tuple[bool, int, int, int, int, str]:
    """The place in the order."""
    above = one.excess if _exceeds(one) else 0
    return not _exceeds(one), one.priority, -above, _CLASSES.index(one.qos), -one.freed, one.uid


def _because(ranked: Sequence[Candidate], missing: int, reason: EvictionReason) -> str:
    """Why the first pod, with its numbers and how many come after it."""
    first = ranked[0]
    words = {
        EvictionReason.BEST_EFFORT: "best-effort",
        EvictionReason.ABOVE_REQUEST: "burstable above its request",
        EvictionReason.FILLS: f"{first.qos}, and {EvictionReason.FILLS.value}",
        EvictionReason.LITTLE_HELP: f"{first.qos}, the first of pods that free little",
        EvictionReason.UNDER_REQUEST: "burstable below its request, and no other pod is enough",
        EvictionReason.GUARANTEED: "guaranteed, and no other pod is enough",
    }
    numbers = f"uses {human_bytes(first.charged)}, request {human_bytes(first.request)}, protected {human_bytes(first.protected)}, {human_bytes(first.excess)} above, priority {first.priority}; evicting it frees {human_bytes(first.freed)} of {human_bytes(missing)} missing"
    if first.ending:
        numbers = f"{numbers}; it has been stopping for {first.ending_seconds:.0f} s"
    rest = len(ranked) - 1
    after = f"; other candidates: {rest}" if rest else "; no other candidate"
    return f"{words[reason]}: {numbers}{after}"


def _why_none(candidates: Sequence[Candidate]) -> str:
    """Why no candidate may be evicted."""
    if not candidates:
        return "no pod below it"
    counted = {
        "critical": sum(one.critical for one in candidates),
        "ending already": sum(one.ending and not one.critical for one in candidates),
        "with guard off": sum(
            one.mode == "off" and not (one.critical or one.ending) for one in candidates
        ),
    }
    counted["that would free nothing"] = len(candidates) - sum(counted.values())
    said = ", ".join(f"{number} {what}" for what, number in counted.items() if number)
    return f"none of {len(candidates)} pods can be evicted: {said}"


def _too_early(ranked: Sequence[Candidate], missing: int, lasted: float) -> str:
    """Why pods under their request are spared for now."""
    held = _sum(ranked)
    return f"all {len(ranked)} candidates are below their request and use {human_bytes(held)}; {human_bytes(missing)} are missing for {lasted:.1f} s, such pods are evicted after {UNDER_REQUEST_SECONDS:.0f} s"
