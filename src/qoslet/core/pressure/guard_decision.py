"""The guard's decision about a stalled group: one pure call.

The answers grow: what is cold is reclaimed, memory.high is raised as far as the node allows, the
kernel's own limit takes over, what others were given and do not use is taken back, and where that
cannot be had the container is ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.names import is_below
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure import headroom
from qoslet.core.pressure.headroom import GrantedShare, Headroom
from qoslet.core.pressure.throttle_guard import (
    GUARD_POLICY,
    GuardPolicy,
    HighOverride,
    lowered_high,
)
from qoslet.core.pressure.throttle_stall import StallVerdict, mib

Answer = Literal["reclaim", "raise", "limit", "end", "lower", "restore", "none"]
"""``limit``: memory.high goes, the kernel kills at memory.max. ``lower``: of what was given a part
is taken back for another group. ``none``: nothing is done, and why."""

REASON = "MemoryStall"
"""Why a container was ended, as its state tells it."""


_MIB = 1 << 20


class GrowthBounds(Struct, frozen=True):
    """How far a group may go in bytes, by its own limit or its pod's, whichever it meets first.
    ``killable``: a container can be ended for it."""

    limit: int
    killable: bool


class GuardDecision(Struct, frozen=True):
    """What is to be done and why; ``value`` is the new memory.high, or the bytes to reclaim."""

    answer: Answer
    because: str
    value: int = 0


def spare_bytes(node: NodeMemory, policy: GuardPolicy = GUARD_POLICY) -> int:
    """Bytes of the node that a group may still be given."""
    return max(
        0, node.available - max(policy.min_reserve_bytes, int(node.total * policy.reserve_ratio))
    )


def answer(
    hold: HighOverride | None,
    verdict: StallVerdict,
    sample: MemorySample,
    room: Headroom,
    bounds: GrowthBounds,
    policy: GuardPolicy = GUARD_POLICY,
) -> GuardDecision:
    """What to do about a group whose verdict is ``stalled``."""
    signs = verdict.signals
    cold = 0 if signs is None else signs.reclaimable
    if cold >= policy.min_reclaim_bytes and not (hold is not None and hold.reclaimed):
        return GuardDecision("reclaim", f"{mib(cold)} of it are cold", cold)
    has = f"there are {mib(room.free)} to spare"
    if room.granted_unused >= _MIB:
        has += f" beside {mib(room.granted_unused)} that others were given and do not use yet"
    if bounds.limit < UNLIMITED and bounds.limit - sample.current <= room.free:
        return GuardDecision("limit", f"memory.max {mib(bounds.limit)} decides, {has}", UNLIMITED)
    high = sample.high or 0
    at = max(high, sample.current)
    wanted = min(bounds.limit, at + max(policy.min_step_bytes, int(high * policy.step_ratio)))
    value = min(wanted, sample.current + room.free)
    if value - at >= policy.min_step_bytes:
        value = value // _MIB * _MIB
        return GuardDecision("raise", f"to {mib(value)}, {has}", value)
    if bounds.killable:
        return GuardDecision("end", f"it cannot be given more, {has}")
    return GuardDecision("none", f"it cannot be given more, {has}, and no container is to blame")


class StallSituation(Struct, frozen=True):
    """Everything that one decision reads.

    ``samples`` are of the stalled group ``path``, of every group in ``overrides`` that is raised, and
    of all groups above these; ``pod`` is the path of its pod, empty where it is in none. ``override``
    is the stalled group's own. ``reclaim`` says whether reclaim can be asked for, or runs for
    another group for which this one has waited ``queued`` seconds. ``killed`` is the container
    whose memory is still being freed, empty where there is none.
    """

    path: str
    pod: str
    verdict: StallVerdict
    override: HighOverride
    node: NodeMemory
    samples: Mapping[str, MemorySample]
    overrides: Mapping[str, HighOverride]
    reclaim: Literal["idle", "busy", "absent"] = "idle"
    queued: float = 0.0
    killed: str = ""


class Resolution(Struct, frozen=True):
    """What to do: ``decision``, None while the group waits for another one's reclaim, after every
    group of ``lowered`` has got that memory.high. ``queued``: another one's reclaim is in the way."""

    decision: GuardDecision | None
    lowered: Mapping[str, int] = {}
    queued: bool = False


def decide(situation: StallSituation, policy: GuardPolicy = GUARD_POLICY) -> Resolution:
    """What to do about a stalled group. Pure, and ends: each group is lowered at most once."""
    hold = situation.override
    if situation.reclaim == "absent":
        hold = replace(hold, reclaimed=True)
    found = _searched(situation, hold, policy)
    assert found.decision is not None
    if situation.reclaim == "busy" and found.decision.answer == "reclaim":
        if situation.queued < policy.queue_seconds:
            return Resolution(None, queued=True)
        found = _searched(situation, replace(hold, reclaimed=True), policy)
        assert found.decision is not None
        busy = "another group is reclaimed, what is cold here is not"
        found = replace(found, decision=_more(found.decision, busy), queued=True)
    assert found.decision is not None
    if found.decision.answer == "end" and situation.killed:
        waits = f"{situation.killed} was ended, its memory is waited for"
        return replace(found, decision=GuardDecision("none", _more(found.decision, waits).because))
    return found


def _more(decision: GuardDecision, why: str) -> GuardDecision:
    return replace(decision, because=f"{decision.because}; {why}")


def _searched(situation: StallSituation, hold: HighOverride, policy: GuardPolicy) -> Resolution:
    """The answer, and which groups have to give back what they were given for it: the one that
    uses least of that first."""
    holds, lower = dict(situation.overrides), dict[str, int]()
    sample, first = situation.samples[situation.path], None
    while True:
        ground = _assess(situation, holds, policy)
        found = answer(hold, situation.verdict, sample, ground.room, ground.bounds, policy)
        if found.answer not in ("end", "none"):
            return Resolution(found, lower)
        first = first or found
        rest = {at: one for at, one in holds.items() if at not in lower}
        path, value = _least_used(situation, ground, rest, policy)
        if not path:
            return Resolution(first)
        lower[path] = value
        holds[path] = replace(holds[path], value=value)


class _Assessment(Struct, frozen=True):
    """How far the group may go, and what there is for it."""

    bounds: GrowthBounds
    room: Headroom
    parts: dict[str, GrantedShare]


def _assess(
    situation: StallSituation, holds: Mapping[str, HighOverride], policy: GuardPolicy
) -> _Assessment:
    """What there is, with these memory.high in force."""
    path, pod = situation.path, situation.pod
    sample = situation.samples[path]
    parts = {
        at: _part(one, holds[at] if at in holds and holds[at].raised else None)
        for at, one in situation.samples.items()
    }
    own = UNLIMITED if sample.max is None else sample.max
    if pod in parts and pod != path:
        own = min(own, parts[pod].limit_headroom + sample.current)
    room = headroom.headroom_for(path, pod, spare_bytes(situation.node, policy), parts)
    return _Assessment(GrowthBounds(own, bool(pod)), room, parts)


def _least_used(
    situation: StallSituation,
    ground: _Assessment,
    holds: Mapping[str, HighOverride],
    policy: GuardPolicy,
) -> tuple[str, int]:
    """The group that can give back most of what it was given, with the memory.high that is left to
    it; an empty path where none has much."""
    unused, found = headroom.unused_grants(ground.parts), (policy.min_step_bytes, "", 0)
    for at, hold in holds.items():
        sample = situation.samples.get(at)
        if sample is None or not hold.raised or headroom.is_related(at, situation.path):
            continue
        if not is_below(at, ground.room.within):
            continue
        value = lowered_high(hold, sample, policy)
        back = unused[at] - _part(sample, replace(hold, value=value)).granted
        found = max(found, (back, at, value))
    return found[1], found[2]


def _part(sample: MemorySample, hold: HighOverride | None) -> GrantedShare:
    """A group with what it was given, if it is the one that it was given to."""
    if hold is None or hold.identity != sample.identity:
        return headroom.share_of(sample)
    return headroom.share_of(sample, hold.planned, hold.value)
