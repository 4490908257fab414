"""What is done about a group that is stalled at its memory.high, and when it is as planned again.

The answers grow: what is cold is reclaimed, memory.high is raised as far as the node allows, the
kernel's own limit takes over, and where that cannot be had the container is ended. What was raised
comes back once the group has fitted below what is planned for a while.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import NO_LIMIT
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure.headroom import Room
from qoslet.core.pressure.throttle_stall import Verdict, cold_of, mib
from qoslet.core.versions.kubernetes import MemoryQosForm

Mode = Literal["off", "observe", "act"]
MODES: tuple[Mode, ...] = ("off", "observe", "act")


def by_form(form: MemoryQosForm) -> Mode:
    """The mode where nobody named one: act with the program's own form, watch with the
    others."""
    if form == "off":
        return "off"
    return "act" if form == "qoslet" else "observe"


Answer = Literal["reclaim", "raise", "limit", "end", "lower", "restore", "none"]
"""``limit``: memory.high goes, the kernel kills at memory.max. ``lower``: of what was given a part
is taken back for another group. ``none``: nothing is done, and why."""

REASON = "MemoryStall"
"""Why a container was ended, as its state tells it."""

_MIB = 1 << 20


class Policy(Struct, frozen=True):
    """``reserve`` is the share of the node's memory that is left alone (``least_reserve`` bytes
    at least). A group without a limit gets ``step`` of its memory.high more each time
    (``least_step`` bytes at least); less than ``least_step`` is not worth a raise. ``cold`` bytes
    are worth a reclaim. What was raised stays at least ``hold`` seconds, twice as long each time
    that it stalls again within ``forget`` seconds, at most ``longest``; it comes back when what
    cannot be taken back is below ``fits`` of what is planned. The same is not said again before
    ``quiet`` seconds are over."""

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


POLICY = Policy()


class Bounds(Struct, frozen=True):
    """How far a group may go in bytes, by its own limit or its pod's, whichever it meets first.
    ``ends``: a container can be ended for it."""

    max: int
    ends: bool


class Hold(Struct, frozen=True):
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


class Decision(Struct, frozen=True):
    """What is to be done and why; ``value`` is the new memory.high, or the bytes to reclaim."""

    answer: Answer
    because: str
    value: int = 0


def spare(node: NodeMemory, policy: Policy = POLICY) -> int:
    """Bytes of the node that a group may still be given."""
    return max(0, node.available - max(policy.least_reserve, int(node.total * policy.reserve)))


def answer(
    hold: Hold | None,
    verdict: Verdict,
    sample: MemorySample,
    room: Room,
    bounds: Bounds,
    policy: Policy = POLICY,
) -> Decision:
    """What to do about a group whose verdict is ``stalled``."""
    signs = verdict.signs
    cold = 0 if signs is None else signs.cold
    if cold >= policy.cold and not (hold is not None and hold.reclaimed):
        return Decision("reclaim", f"{mib(cold)} of it are cold", cold)
    has = f"there are {mib(room.free)} to spare"
    if room.given >= _MIB:
        has += f" beside {mib(room.given)} that others were given and do not use yet"
    if bounds.max < NO_LIMIT and bounds.max - sample.current <= room.free:
        return Decision("limit", f"memory.max {mib(bounds.max)} decides, {has}", NO_LIMIT)
    high = sample.high or 0
    at = max(high, sample.current)
    wanted = min(bounds.max, at + max(policy.least_step, int(high * policy.step)))
    value = min(wanted, sample.current + room.free)
    if value - at >= policy.least_step:
        value = value // _MIB * _MIB
        return Decision("raise", f"to {mib(value)}, {has}", value)
    if bounds.ends:
        return Decision("end", f"it cannot be given more, {has}")
    return Decision("none", f"it cannot be given more, {has}, and no container is to blame")


def lowered(hold: Hold, sample: MemorySample, policy: Policy = POLICY) -> int:
    """The memory.high of a group that keeps what it uses and the least step beyond."""
    at = max(hold.planned, sample.current) + policy.least_step
    return -(-at // _MIB) * _MIB


def held_on(hold: Hold, sample: MemorySample, swap_room: int, policy: Policy = POLICY) -> Hold:
    """The hold after one more look at its group: whether it would fit again, and since when."""
    pinned = sample.current - cold_of(sample, swap_room)
    if pinned >= hold.planned * policy.fits:
        return hold if hold.fits_since is None else replace(hold, fits_since=None)
    return replace(hold, fits_since=sample.at) if hold.fits_since is None else hold


def stays(hold: Hold, policy: Policy = POLICY) -> float:
    """Seconds for which the group has to fit before what is planned comes back."""
    return float(min(policy.longest, policy.hold * 2 ** min(max(0, hold.times - 1), 10)))


def is_over(hold: Hold, now: float, policy: Policy = POLICY) -> bool:
    """Whether what is planned may come back."""
    return hold.fits_since is not None and now - hold.fits_since >= stays(hold, policy)


class GuardRow(Struct, frozen=True):
    """A decision as it is kept and shown. ``at`` is wall-clock seconds; ``value`` as of
    ``Decision``; ``numbers`` is what the verdict stood on; ``error`` is empty where it worked."""

    at: float
    path: str
    pod: str
    container: str
    mode: Mode
    answer: Answer
    value: int
    because: str
    numbers: str
    error: str = ""

    def describe(self) -> str:
        """The decision in one line."""
        who = f"{self.pod}/{self.container}".strip("/") or self.path
        done = _DONE[self.answer] if self.mode == "act" else f"would {_WOULD[self.answer]}"
        text = f"{who}: stalled at memory.high: {done}: {self.because}"
        if self.answer in ("lower", "restore"):
            text = f"{who}: {done}: {self.because}"
        numbers = f" ({self.numbers})" if self.numbers else ""
        return f"{text}{numbers}" + (f"; it failed: {self.error}" if self.error else "")


_DONE: dict[Answer, str] = {
    "reclaim": "what is cold is reclaimed",
    "raise": "memory.high is raised",
    "limit": "memory.high is lifted",
    "end": "the container is ended",
    "lower": "memory.high is lowered",
    "restore": "memory.high is as planned again",
    "none": "nothing is done",
}
_WOULD: dict[Answer, str] = {
    "reclaim": "reclaim what is cold",
    "raise": "raise memory.high",
    "limit": "lift memory.high",
    "end": "end the container",
    "lower": "lower memory.high",
    "restore": "restore memory.high",
    "none": "do nothing",
}


class HeldRow(Struct, frozen=True):
    """A memory.high that is another one than planned, for a while. ``since`` is wall-clock
    seconds."""

    path: str
    planned: int
    value: int
    since: float
    because: str


class GuardReport(Struct, frozen=True):
    """What the guard did: the last decisions, what it holds, and how often it answered how by
    ``mode/answer``."""

    decisions: tuple[GuardRow, ...] = ()
    held: tuple[HeldRow, ...] = ()
    counts: dict[str, int] = {}


NO_REPORT = GuardReport()
