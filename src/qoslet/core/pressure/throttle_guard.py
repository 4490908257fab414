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
    """``reserve`` is the share of the node's memory that is left alone (``least_reserve`` bytes
    at least). A group without a limit gets ``step`` of its memory.high more each time
    (``least_step`` bytes at least); less than ``least_step`` is not worth a raise. ``cold`` bytes
    are worth a reclaim. What was raised stays at least ``hold`` seconds, twice as long each time
    that it stalls again within ``forget`` seconds, at most ``longest``; it comes back when what
    cannot be taken back is below ``fits`` of what is planned. The same is not said again before
    ``quiet`` seconds are over. A group waits for the reclaim of another one for ``queue``
    seconds."""

    reserve: float = 0.05
    least_reserve: int = 64 * _MIB
    step: float = 0.25
    least_step: int = 16 * _MIB
    cold: int = 4 * _MIB
    hold: float = 30.0
    longest: float = 600.0
    forget: float = 300.0
    fits: float = 0.9
    quiet: float = 60.0
    queue: float = 0.5


GUARD_POLICY = GuardPolicy()


class HighOverride(Struct, frozen=True):
    """A group whose memory.high is ours for a while. ``planned`` is what it was before, ``value``
    what it is. Times are monotonic seconds: when it was last changed, since when the group would
    fit again. ``times`` is how often it was raised. ``reclaimed``: that was tried."""

    planned: int
    value: int
    at: float
    identity: int
    times: int = 0
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
    at = max(hold.planned, sample.current) + policy.least_step
    return -(-at // _MIB) * _MIB


def with_fit(
    hold: HighOverride, sample: MemorySample, swap_room: int, policy: GuardPolicy = GUARD_POLICY
) -> HighOverride:
    """The hold after one more look at its group: whether it would fit again, and since when."""
    pinned = sample.current - reclaimable_bytes(sample, swap_room)
    if pinned >= hold.planned * policy.fits:
        return hold if hold.fits_since is None else replace(hold, fits_since=None)
    return replace(hold, fits_since=sample.at) if hold.fits_since is None else hold


def raised_seconds(hold: HighOverride, policy: GuardPolicy = GUARD_POLICY) -> float:
    """Seconds for which the group has to fit before what is planned comes back."""
    return float(min(policy.longest, policy.hold * 2 ** min(max(0, hold.times - 1), 10)))


def may_restore(hold: HighOverride, now: float, policy: GuardPolicy = GUARD_POLICY) -> bool:
    """Whether what is planned may come back."""
    return hold.fits_since is not None and now - hold.fits_since >= raised_seconds(hold, policy)
