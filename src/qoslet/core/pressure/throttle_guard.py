"""The guard's policy, and a memory.high that it overrides: by how much, and for how long.

What was raised comes back once the group has fitted below what is planned for a while.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.memory.breakdown import reclaimable_bytes
from qoslet.core.memory.sample import MemorySample
from qoslet.core.versions.kubernetes import MemoryQosForm

Mode = Literal["off", "observe", "act"]
MODES: tuple[Mode, ...] = ("off", "observe", "act")


def default_mode(form: MemoryQosForm) -> Mode:
    """The mode where nobody named one: act with the program's own form, watch with the
    others."""
    if form == "off":
        return "off"
    return "act" if form == "qoslet" else "observe"


_MIB = 1 << 20


class GuardPolicy(Struct, frozen=True):
    """``reserve_ratio`` is the share of the node's memory that is left alone (``min_reserve_bytes`` bytes
    at least). A group without a limit gets ``step_ratio`` of its memory.high more each time
    (``min_step_bytes`` bytes at least); less than ``min_step_bytes`` is not worth a raise. ``min_reclaim_bytes`` bytes
    are worth a reclaim. What was raised stays at least ``min_raised_seconds`` seconds, twice as long each time
    that it stalls again within ``forget_seconds`` seconds, at most ``max_raised_seconds``; it comes back when what
    cannot be taken back is below ``fits_ratio`` of what is planned. The same is not said again before
    ``log_repeat_seconds`` seconds are over. A group waits for the reclaim of another one for ``queue_seconds``
    seconds."""

    reserve_ratio: float = 0.05
    min_reserve_bytes: int = 64 * _MIB
    step_ratio: float = 0.25
    min_step_bytes: int = 16 * _MIB
    min_reclaim_bytes: int = 4 * _MIB
    min_raised_seconds: float = 30.0
    max_raised_seconds: float = 600.0
    forget_seconds: float = 300.0
    fits_ratio: float = 0.9
    log_repeat_seconds: float = 60.0
    queue_seconds: float = 0.5


GUARD_POLICY = GuardPolicy()


class HighOverride(Struct, frozen=True):
    """A group whose memory.high is ours for a while. ``planned`` is what it was before, ``value``
    what it is. Times are monotonic seconds: when it was last changed, since when the group would
    fit again. ``raises`` is how often it was raised. ``reclaimed``: that was tried."""

    planned: int
    value: int
    changed_at: float
    identity: int
    raises: int = 0
    reclaimed: bool = False
    fits_since: float | None = None

    @property
    def raised(self) -> bool:
        """Whether memory.high is another one than planned."""
        return self.value != self.planned


def lowered_high(
    hold: HighOverride, sample: MemorySample, policy: GuardPolicy = GUARD_POLICY
) -> int:
    """The memory.high of a group that keeps what it uses and the least step beyond."""
    at = max(hold.planned, sample.current) + policy.min_step_bytes
    return -(-at // _MIB) * _MIB


def with_fit(
    hold: HighOverride, sample: MemorySample, swap_room: int, policy: GuardPolicy = GUARD_POLICY
) -> HighOverride:
    """The hold after one more look at its group: whether it would fit again, and since when."""
    pinned = sample.current - reclaimable_bytes(sample, swap_room)
    if pinned >= hold.planned * policy.fits_ratio:
        return hold if hold.fits_since is None else replace(hold, fits_since=None)
    return replace(hold, fits_since=sample.at) if hold.fits_since is None else hold


def raised_seconds(hold: HighOverride, policy: GuardPolicy = GUARD_POLICY) -> float:
    """Seconds for which the group has to fit before what is planned comes back."""
    return float(
        min(
            policy.max_raised_seconds,
            policy.min_raised_seconds * 2 ** min(max(0, hold.raises - 1), 10),
        )
    )


def may_restore(hold: HighOverride, now: float, policy: GuardPolicy = GUARD_POLICY) -> bool:
    """Whether what is planned may come back."""
    return hold.fits_since is not None and now - hold.fits_since >= raised_seconds(hold, policy)
