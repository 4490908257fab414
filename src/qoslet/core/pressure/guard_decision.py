"""The guard's decision about a stalled cgroup: one pure call.

The answers escalate: reclaim what can be reclaimed, raise memory.high as far as the node allows (close to the
limit while reclaim takes the page cache of others), leave the cgroup to memory.max, take back what other
cgroups were given and do not use, kill the container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.names import is_below
from qoslet.core.memory.breakdown import dirty_bytes
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure import headroom
from qoslet.core.pressure.headroom import GrantedShare, Headroom
from qoslet.core.pressure.reclaim_progress import RETURNED_RATIO, WAITING_RATIO, freed_enough
from qoslet.core.pressure.stall_signs import StallSignals, computes, mib
from qoslet.core.pressure.stall_tuning import STALL_TUNING
from qoslet.core.pressure.throttle_guard import (
    GUARD_POLICY,
    GuardPolicy,
    HighOverride,
    lowered_high,
)
from qoslet.core.pressure.throttle_stall import StallVerdict

Answer = Literal["reclaim", "raise", "limit", "end", "evict", "lower", "restore", "none"]
"""``limit`` lifts memory.high, so that the kernel kills at memory.max. ``evict`` asks the API server to
end the pod. ``lower`` takes back a part of what a cgroup was given, for another one. ``none`` does
nothing and says why."""

Rule = Literal["", "swap", "disk", "reclaim", "blind", "files", "unkillable", "killed", "evicted"]
"""Why nothing is done."""

REASON = "MemoryStall"
"""The reason in the state of a killed container."""


_MIB = 1 << 20


class GrowthBounds(Struct, frozen=True):
    """The lower of a cgroup's own limit and of what its pod's leaves it, in bytes, and whether a
    container can be killed for it. ``pod_limit`` is the memory.max of the pod if that is lower."""

    limit: int
    killable: bool
    pod_limit: int | None = None

    def close_high(self, policy: GuardPolicy) -> int:
        """A memory.high close to the limit, in bytes: who writes files is held up there, and the kernel kills
        nobody because their dirty pages cannot be taken at once."""
        margin = max(policy.min_margin_bytes, int(self.limit * policy.margin_ratio))
        return max(0, self.limit - margin) // _MIB * _MIB

    def describe(self) -> str:
        """The limit as it was set."""
        if self.pod_limit is None:
            return f"memory.max {mib(self.limit)}"
        return f"memory.max {mib(self.pod_limit)} of its pod"


class GuardDecision(Struct, frozen=True):
    """What to do and why; ``value`` is the new memory.high, or the bytes to reclaim. ``rule`` is the kind of
    ``because``, which has numbers, where nothing is done."""

    answer: Answer
    because: str
    value: int = 0
    rule: Rule = ""

    @property
    def key(self) -> str:
        """What two decisions have in common of which the second is no news."""
        return f"{self.answer}:{self.rule}"


def spare_bytes(node: NodeMemory, policy: GuardPolicy = GUARD_POLICY) -> int:
    """Bytes of the node that a cgroup may still be given."""
    return max(
        0, node.available - max(policy.min_reserve_bytes, int(node.total * policy.reserve_ratio))
    )


def answer(
    override: HighOverride | None,
    verdict: StallVerdict,
    sample: MemorySample,
    room: Headroom,
    bounds: GrowthBounds,
    policy: GuardPolicy = GUARD_POLICY,
    *,
    refused: bool = False,
) -> GuardDecision:
    """What to do about a stalled cgroup, with the values in force as they are. ``refused``: the
    kernel was asked to reclaim and could free nothing."""
    signs = verdict.signals
    reclaimable = 0 if signs is None else signs.reclaimable
    if reclaimable >= policy.min_reclaim_bytes and not (
        override is not None and override.reclaimed
    ):
        return _reclaim(verdict, reclaimable, policy)
    has = f"{mib(room.free)} free"
    if room.granted_unused >= _MIB:
        has += f", without {mib(room.granted_unused)} granted to others and not used yet"
    high = sample.high or 0
    at = max(high, sample.current)
    if bounds.limit < UNLIMITED and bounds.limit - sample.current <= room.free:
        return _to_limit(bounds, at, signs, has, policy)
    wanted = min(bounds.limit, at + max(policy.min_step_bytes, int(high * policy.step_ratio)))
    value = min(wanted, sample.current + room.free)
    if value - at >= policy.min_step_bytes:
        value = value // _MIB * _MIB
        return GuardDecision("raise", f"to {mib(value)}, {has}", value)
    if bounds.killable and signs is not None and signs.swaps:
        return _none("swap", f"{has}; its swap moves, so something in it gets on: it is not killed")
    if signs is not None and verdict.doubtful:
        left, rule, what = _doubt(verdict, signs, dirty_bytes(sample), policy, refused=refused)
        if left > 0:
            why = f"{what}, waiting {left:.0f} s more for that"
            return _none(rule, f"{has}; {why}")
    blind = signs is not None and signs.waiting_ratio is None and computes(signs)
    if signs is not None and blind and signs.idle_seconds < policy.doubt_seconds:
        left = policy.doubt_seconds - signs.idle_seconds
        why = f"it computes, and without PSI the kernel does not tell whether a task waits: {left:.0f} s more"
        return _none("blind", f"{has}; {why}")
    if bounds.killable and signs is not None and _frees_files(signs, policy):
        rate = f"{signs.freed_per_second / _MIB:.1f} MiB/s of its files"
        why = f"{rate} are reclaimed, so something in it gets on: it is not killed"
        return _none("files", f"{has}; {why}")
    if bounds.killable:
        return GuardDecision("end", f"no memory to grant, {has}")
    return _none("unkillable", f"{has}, and no container to kill")


def _to_limit(
    bounds: GrowthBounds, at: int, signs: StallSignals | None, has: str, policy: GuardPolicy
) -> GuardDecision:
    """Leave a cgroup that uses ``at`` bytes to its limit, or first raise memory.high close to it, where that gives at
    least half of what is left."""
    close = bounds.close_high(policy)
    if signs is not None and _reclaim_still_takes(signs, policy) and 2 * close >= at + bounds.limit:
        why = f"close to {bounds.describe()}, since reclaim still takes something, {has}"
        return GuardDecision("raise", f"to {mib(close)}, {why}", close)
    return GuardDecision("limit", f"up to {bounds.describe()}, {has}", UNLIMITED)


def _none(rule: Rule, why: str) -> GuardDecision:
    return GuardDecision("none", f"no memory to grant, {why}", rule=rule)


def _doubt(
    verdict: StallVerdict, signs: StallSignals, dirty: int, policy: GuardPolicy, *, refused: bool
) -> tuple[float, Rule, str]:
    """Seconds for which a container is not killed yet whose memory looks reclaimable, and what is waited
    for. A disk, or a file server, that takes no pages is not the container's doing."""
    if dirty >= max(policy.min_reclaim_bytes, signs.reclaimable // 2):
        left = policy.disk_seconds - signs.idle_seconds
        return left, "disk", f"{mib(dirty)} of its files wait to be written to a disk"
    doubt = policy.relief_seconds if verdict.in_vain else policy.doubt_seconds
    left = 0.0 if refused else doubt - signs.idle_seconds
    return left, "reclaim", f"{mib(signs.reclaimable)} look reclaimable"


def _reclaim_still_takes(signs: StallSignals, policy: GuardPolicy) -> bool:
    """Whether reclaim takes page cache of others beside the one that needs memory, or just did: they are held up as
    well. What is read back may be its own text."""
    just = 0 < signs.not_freed_seconds < policy.just_freed_seconds
    return (just or signs.freed_per_second >= freed_enough(signs.high)) and not signs.rereads


def _frees_files(signs: StallSignals, policy: GuardPolicy) -> bool:
    """Whether somebody gets through files in the cgroup, beside a task that waits or by itself: reclaim takes page
    cache that is not read again, or that system calls, or tasks that hardly wait, read again; its own text is."""
    waits = 1 - (signs.cpu or 0.0) if signs.waiting_ratio is None else signs.waiting_ratio
    mapped = signs.reclaimable >= policy.min_reclaim_bytes and waits < WAITING_RATIO
    gets_on = mapped or signs.by_calls
    returned = signs.rereads or (signs.refault_ratio or 0.0) >= RETURNED_RATIO
    returns = returned and not gets_on
    enough = freed_enough(signs.high) * STALL_TUNING.exhausted_factor
    return signs.freed_per_second >= enough > 0 and not returns


def probe_bytes(signs: StallSignals, policy: GuardPolicy = GUARD_POLICY) -> int:
    """Bytes that the kernel is asked for to learn whether memory that looks reclaimable is; 0 if
    there is too little to ask for."""
    amount = max(policy.min_reclaim_bytes, int(signs.high * policy.probe_ratio))
    return min(amount, signs.reclaimable) if signs.reclaimable >= policy.min_reclaim_bytes else 0


def _reclaim(verdict: StallVerdict, reclaimable: int, policy: GuardPolicy) -> GuardDecision:
    """Ask the kernel: for all that is reclaimable, or for a little where that is in doubt."""
    if not verdict.doubtful or verdict.signals is None:
        return GuardDecision("reclaim", f"{mib(reclaimable)} of it are reclaimable", reclaimable)
    amount = probe_bytes(verdict.signals, policy)
    because = f"{mib(reclaimable)} of it look reclaimable, asking the kernel for {mib(amount)}"
    return GuardDecision("reclaim", because, amount)


class StallSituation(Struct, frozen=True):
    """Everything that one decision reads."""

    path: str
    """The stalled cgroup."""
    pod: str
    """The cgroup of its pod; empty for a QoS cgroup."""
    verdict: StallVerdict
    override: HighOverride
    """Its own override, or one that raises nothing."""
    node: NodeMemory
    samples: Mapping[str, MemorySample]
    """Of the stalled cgroup, of every raised one, and of all above these."""
    overrides: Mapping[str, HighOverride]
    reclaim: Literal["idle", "busy", "absent"] = "idle"
    """Whether the kernel can be asked to reclaim, or does so for another cgroup."""
    queued: float = 0.0
    """Seconds for which this cgroup has waited for that."""
    killed: str = ""
    """A container whose memory is still being freed."""
    refused: bool = False
    """Whether the kernel was asked to reclaim from this cgroup and could free nothing."""
    asked: bool = False
    """Whether it was asked a while ago, and nothing has been freed since, however long it goes on."""
    short_for: float | None = None
    """Seconds for which there has been no memory to give; None: there was, the last time."""
    evicted: str = ""
    """A pod that is being evicted."""


class Resolution(Struct, frozen=True):
    """What to do."""

    decision: GuardDecision | None
    """None: wait for the reclaim of another cgroup, or for another pod to be evicted."""
    lowered: Mapping[str, int] = {}
    """memory.high values to write before, by cgroup."""
    queued: bool = False
    """Whether the reclaim of another cgroup is in the way."""
    no_memory: bool = False
    """Whether the container would be killed if nothing came from another pod."""
    wanted: int = 0
    """Bytes that it would be given then, where it is the node that has no memory."""


def decide(situation: StallSituation, policy: GuardPolicy = GUARD_POLICY) -> Resolution:
    """What to do about a stalled cgroup. Lowers each other cgroup at most once."""
    override = situation.override
    verdict = situation.verdict
    in_vain = verdict.in_vain or (situation.asked and verdict.doubtful)
    # what can be taken is its text, without which it gets nowhere
    in_vain |= verdict.signals is not None and verdict.signals.rereads
    if situation.reclaim == "absent" or situation.refused or in_vain:
        override = replace(override, reclaimed=True)
    decision, lowered = _search(situation, override, policy)
    queued = situation.reclaim == "busy" and decision.answer == "reclaim"
    if queued:
        if situation.queued < policy.queue_seconds:
            return Resolution(None, queued=True)
        decision, lowered = _search(situation, replace(override, reclaimed=True), policy)
        decision = _more(decision, "reclaim skipped: another cgroup is being reclaimed")
    if situation.refused and decision.answer != "none":
        decision = _more(decision, "the kernel was asked to reclaim and could free nothing")
    found = Resolution(decision, lowered, queued)
    return found if decision.answer != "end" else _end(situation, found, decision, policy)


def _end(
    situation: StallSituation, found: Resolution, decision: GuardDecision, policy: GuardPolicy
) -> Resolution:
    """Whether a container is ended now, or what is waited for."""
    if situation.killed:
        waits = f"{situation.killed} was killed; waiting for its memory to be freed"
        return replace(
            found, decision=_more(replace(decision, answer="none", rule="killed"), waits)
        )
    if situation.short_for is None:
        return found
    if situation.evicted and situation.short_for < policy.doubt_seconds:
        waits = f"{situation.evicted} is being evicted; waiting for its memory"
        none = _more(replace(decision, answer="none", rule="evicted"), waits)
        return replace(found, decision=none, no_memory=True)
    if situation.short_for < policy.relief_seconds:
        of_node = not _assess(situation, situation.overrides, policy).room.within
        return Resolution(None, no_memory=True, wanted=policy.min_step_bytes if of_node else 0)
    return found


def _more(decision: GuardDecision, why: str) -> GuardDecision:
    return replace(decision, because=f"{decision.because}; {why}")


def _search(
    situation: StallSituation, override: HighOverride, policy: GuardPolicy
) -> tuple[GuardDecision, dict[str, int]]:
    """The first answer that helps, and the memory.high of others that it lowers: grants are taken back, the
    least used one first, until there is one."""
    overrides, lowered = dict(situation.overrides), dict[str, int]()
    sample, first = situation.samples[situation.path], None
    while True:
        assessment = _assess(situation, overrides, policy)
        found = answer(
            override,
            situation.verdict,
            sample,
            assessment.room,
            assessment.bounds,
            policy,
            refused=situation.refused,
        )
        if found.answer not in ("end", "none"):
            return found, lowered
        first = first or found
        rest = {at: sampled for at, sampled in overrides.items() if at not in lowered}
        path, value = _least_used(situation, assessment, rest, policy)
        if not path:
            return first, {}
        lowered[path] = value
        overrides[path] = replace(overrides[path], value=value)


class _Assessment(Struct, frozen=True):
    """How far the cgroup may grow, and what is free for it."""

    bounds: GrowthBounds
    room: Headroom
    shares: dict[str, GrantedShare]


def _assess(
    situation: StallSituation, overrides: Mapping[str, HighOverride], policy: GuardPolicy
) -> _Assessment:
    """What is free with these overrides in force."""
    path, pod = situation.path, situation.pod
    sample = situation.samples[path]
    shares = {
        at: _share(sampled, overrides[at] if at in overrides and overrides[at].raised else None)
        for at, sampled in situation.samples.items()
    }
    own = UNLIMITED if sample.max is None else sample.max
    pod_limit = None
    if pod in shares and pod != path and shares[pod].limit_headroom + sample.current < own:
        own = shares[pod].limit_headroom + sample.current
        pod_limit = situation.samples[pod].max
    room = headroom.headroom_for(path, pod, spare_bytes(situation.node, policy), shares)
    return _Assessment(GrowthBounds(own, bool(pod), pod_limit), room, shares)


def _least_used(
    situation: StallSituation,
    assessment: _Assessment,
    overrides: Mapping[str, HighOverride],
    policy: GuardPolicy,
) -> tuple[str, int]:
    """The cgroup that can give back most of its grant, with the memory.high that it keeps; an empty
    path if none can give back a whole step."""
    unused = headroom.unused_grants(assessment.shares)
    most, giver, kept_high = policy.min_step_bytes, "", 0
    for path, override in overrides.items():
        sample = situation.samples.get(path)
        if sample is None or not override.raised or headroom.is_related(path, situation.path):
            continue
        if not is_below(path, assessment.room.within):
            continue
        high = lowered_high(override, sample, policy)
        given_back = unused[path] - _share(sample, replace(override, value=high)).granted
        most, giver, kept_high = max((most, giver, kept_high), (given_back, path, high))
    return giver, kept_high


def _share(sample: MemorySample, override: HighOverride | None) -> GrantedShare:
    """The share of a cgroup; a grant counts only if it was made to this very cgroup."""
    if override is None or override.identity != sample.identity:
        return headroom.share_of(sample)
    return headroom.share_of(sample, override.planned, override.value)
