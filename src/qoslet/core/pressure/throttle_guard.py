"""The guard's policy, and how long it overrides a memory.high.

The planned value comes back once the cgroup has fitted below it for a while.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.memory.breakdown import reclaimable_bytes
from qoslet.core.memory.sample import MemorySample

_MIB = 1 << 20


class GuardPolicy(Struct, frozen=True):
    """What the guard may give, and for how long."""

    reserve_ratio: float = 0.05
    """Share of the node's memory that is never given."""
    min_reserve_bytes: int = 64 * _MIB
    """Lower bound of that reserve."""
    step_ratio: float = 0.25
    """Share of memory.high by which one raise without a limit goes up."""
    min_step_bytes: int = 16 * _MIB
    """Lower bound of that step; less is not worth a raise."""
    margin_ratio: float = 1 / 32
    """Share of memory.max that a memory.high close to it leaves."""
    min_margin_bytes: int = 2 * _MIB
    """Lower bound of that."""
    just_freed_seconds: float = 0.9
    """Time since reclaim took something for which a memory.high close to memory.max comes first."""
    min_reclaim_bytes: int = 4 * _MIB
    """Reclaimable bytes from which the kernel is asked to reclaim first."""
    probe_ratio: float = 1 / 32
    """Share of memory.high that the kernel is asked for where memory only looks reclaimable; at
    least ``min_reclaim_bytes``."""
    doubt_seconds: float = 10.0
    """Time without progress before a container is killed whose memory looks reclaimable, and which
    the kernel has not been asked to reclaim or did not refuse to; or while a pod is being evicted."""
    relief_seconds: float = 2.0
    """Time without memory to give before a container is killed for it: where the node is short,
    another pod may be evicted first. Also instead of ``doubt_seconds``, where the kernel scanned in vain."""
    disk_seconds: float = 60.0
    """The same where half of that memory waits to be written to a disk, whatever the kernel said."""
    min_raised_seconds: float = 30.0
    """Time that a raised value stays at least; doubles with each raise."""
    max_raised_seconds: float = 600.0
    """Upper bound of that time."""
    forget_seconds: float = 300.0
    """Time without a raise after which the number of raises is forgotten."""
    fits_ratio: float = 0.9
    """Share of the planned value below which the unreclaimable memory fits again."""
    close_fit_ratio: float = 0.97
    """Share of it below which it fits closely: a load that settles there has to stay for
    ``close_fit_factor`` times as long."""
    close_fit_factor: int = 4
    log_repeat_seconds: float = 60.0
    """Time before the same decision is logged again."""
    queue_seconds: float = 0.5
    """Time for which a cgroup waits for the reclaim of another one."""


GUARD_POLICY = GuardPolicy()


class HighOverride(Struct, frozen=True):
    """A memory.high that the guard has changed, or changed back. Times are monotonic seconds.
    ``reclaimed``: the kernel was asked to reclaim; ``doubted``: memory looked reclaimable and nothing
    was freed, so all of it counts; ``fits_since``: since when the cgroup would fit below the planned
    value again, ``close_since``: or closely. ``kills``: what was OOM-killed in it by the last sample; None
    before the first."""

    planned: int
    value: int
    changed_at: float
    identity: int
    raises: int = 0
    reclaimed: bool = False
    doubted: bool = False
    fits_since: float | None = None
    close_since: float | None = None
    kills: int | None = None

    @property
    def raised(self) -> bool:
        """Whether memory.high differs from the plan."""
        return self.value != self.planned


def lowered_high(
    override: HighOverride, sample: MemorySample, policy: GuardPolicy = GUARD_POLICY
) -> int:
    """The memory.high that leaves a cgroup its usage and the smallest step."""
    at = max(override.planned, sample.current) + policy.min_step_bytes
    return -(-at // _MIB) * _MIB


def with_fit(
    override: HighOverride, sample: MemorySample, swap_room: int, policy: GuardPolicy = GUARD_POLICY
) -> HighOverride:
    """The override after one more sample: whether the cgroup would fit again, and since when. What was killed
    between two samples did not fit, however little is used by now."""
    unreclaimable = sample.current
    if not override.doubted:
        unreclaimable -= reclaimable_bytes(sample, swap_room)
    kills = sample.events.get("oom_kill", 0)
    killed = override.kills is not None and kills > override.kills

    def since(before: float | None, ratio: float) -> float | None:
        if killed or unreclaimable >= override.planned * ratio:
            return None
        return sample.at if before is None else before

    fits = since(override.fits_since, policy.fits_ratio)
    close = since(override.close_since, policy.close_fit_ratio)
    if (fits, close, kills) == (override.fits_since, override.close_since, override.kills):
        return override
    return replace(override, fits_since=fits, close_since=close, kills=kills)


def raised_seconds(override: HighOverride, policy: GuardPolicy = GUARD_POLICY) -> float:
    """Seconds for which the cgroup has to fit before the planned value comes back."""
    return float(
        min(
            policy.max_raised_seconds,
            policy.min_raised_seconds * 2 ** min(max(0, override.raises - 1), 10),
        )
    )


def may_restore(override: HighOverride, now: float, policy: GuardPolicy = GUARD_POLICY) -> bool:
    """Whether the planned value may come back: the cgroup has fitted below it for long enough, or
    closely for several times as long."""
    seconds = raised_seconds(override, policy)
    longer = min(seconds * policy.close_fit_factor, policy.max_raised_seconds)
    fits, close = override.fits_since, override.close_since
    return (fits is not None and now - fits >= seconds) or (
        close is not None and now - close >= longer
    )
