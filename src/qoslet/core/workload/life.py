"""One container's life so far, and what happens in it. The real and the simulated runtime share these
rules; time is a number of seconds.

Source: kubelet kuberuntime_manager.go, client-go backoff.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.workload.hook_spec import HookKind

Phase = Literal["waiting", "starting", "running", "ended"]
"""``starting``: there is a process, which does not execute the container's command yet."""

HookState = Literal["", "due", "running", "done", "failed"]
"""How far a hook of a run has come; empty: nothing asks for it."""

UNKNOWN_CODE = 137
UNKNOWN_REASON = "ContainerStatusUnknown"
"""What is told of a container that ended where nobody could see it, as a kubelet does."""

HOOK_ERROR = "PostStartHookError"


class Backoff(Struct, frozen=True):
    """Delays between restarts in seconds: none before the first, then ``first``, doubled each time,
    reset after a long run.

    Source: kubelet MaxContainerBackOff 300 s, initial 10 s, reset after 10 min; doBackOff lets the first
    restart pass and counts it (client-go flowcontrol.Backoff IsInBackOffSince, Next).
    """

    first: float = 10.0
    longest: float = 300.0
    reset_after: float = 600.0

    def after(self, delay: float) -> float:
        """The delay after one of so many seconds; after none, the first."""
        return min(delay * 2 or self.first, self.longest)


class Life(Struct, frozen=True, omit_defaults=True):
    """One container so far. Times are monotonic seconds; ``not_before`` is the end of its
    back-off, ``delay`` how long the next one is. ``signalled_at`` tells that it was asked to end, ``again``
    that it is to be started anew whatever its policy: until then, when it is killed. ``ran_at`` is
    when it began to run; ``started``, ``ready`` and ``unhealthy`` are what its probes came to, the
    last by kind and in words. ``end_by``: a probe failed, and it is killed then; ``failed_probe`` was
    the last such, ``probe_kills`` counts them. ``post_start`` and ``pre_stop`` tell of its hooks, ``pre_stop_at``
    when that began, ``failed_hooks`` in words which failed. ``ended_at``, ``end_reason`` and ``after_probe``, whether a
    probe had it ended, are the last end's and stay when it runs again."""

    phase: Phase = "waiting"
    began_at: float = 0.0
    starts: int = 0
    exit_code: int | None = None
    oom_killed: bool = False
    reason: str = ""
    delay: float = 0.0
    not_before: float = 0.0
    signalled_at: float | None = None
    again: float | None = None
    ran_at: float = 0.0
    started: bool = False
    ready: bool = False
    unhealthy: Mapping[str, str] = {}
    end_by: float | None = None
    failed_probe: str = ""
    probe_kills: int = 0
    waits: float | None = None
    """Seconds from its end to its next start; None: ``delay``, as records of earlier versions have it."""
    ended_at: float | None = None
    end_reason: str = ""
    after_probe: bool = False
    post_start: HookState = ""
    pre_stop: HookState = ""
    pre_stop_at: float | None = None
    failed_hooks: Mapping[HookKind, str] = {}

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self.phase in ("starting", "running")

    @property
    def restarts(self) -> int:
        """Starts after the first."""
        return max(0, self.starts - 1)

    @property
    def is_ended_by_probe(self) -> bool:
        """Whether a probe has this run ended; a failed ``postStart`` goes first."""
        return self.end_by is not None and self.post_start != "failed"


NEW = Life()


def begun(life: Life, now: float) -> Life:
    """A process was made; ``began`` or ``failed_to_start`` tells what came of it."""
    return replace(
        life,
        phase="starting",
        began_at=now,
        starts=life.starts + 1,
        reason="",
        signalled_at=None,
        again=None,
        started=False,
        ready=False,
        unhealthy={},
        end_by=None,
        waits=None,
        post_start="",
        pre_stop="",
        pre_stop_at=None,
        failed_hooks={},
    )


def began(life: Life, now: float, *, hooked: bool = False) -> Life:
    """The container was started; ``hooked``: it has a ``postStart``, which is due then."""
    known = life if life.phase == "starting" else begun(life, now)
    return replace(known, phase="running", ran_at=now, post_start="due" if hooked else "")


def restarted(life: Life, now: float, grace: float) -> Life:
    """The container is to be ended and started anew; one that does not run stays as it is."""
    return replace(life, again=now + grace) if life.alive and life.again is None else life


def ended(life: Life, code: int, oom_killed: bool, now: float, backoff: Backoff) -> Life:
    """The container ended with ``code`` (0-255, 128 + signal); its back-off begins. One that a
    probe had ended waits if the end before is not longer ago than the delay. Source: kubelet
    kuberuntime_manager.go doBackOff, which sees the end before only, as the container is started in the
    sync that killed it; the syncs after that see this end."""
    ran_long = now - life.began_at >= backoff.reset_after
    waits = 0.0 if ran_long else life.delay
    delay = backoff.after(waits)
    if life.again is not None:
        waits = 0.0
    elif life.is_ended_by_probe:
        # no container had ended before the first of these: nothing to count from, nothing counted
        delay = 0.0 if life.starts == 1 else delay
        last_end = life.began_at if life.ended_at is None else life.ended_at
        waits = waits if now - last_end < waits else 0.0
    reason = "OOMKilled" if oom_killed else "Completed" if code == 0 else "Error"
    reason = HOOK_ERROR if life.post_start == "failed" and not oom_killed else reason
    return replace(
        life,
        phase="ended",
        exit_code=code,
        oom_killed=oom_killed or life.oom_killed,
        reason=reason,
        end_reason=reason,
        after_probe=life.is_ended_by_probe,
        delay=delay,
        not_before=now + waits,
        waits=waits,
        ended_at=now,
        ready=False,
        unhealthy={},
    )


def lost(life: Life, oom_killed: bool, now: float, backoff: Backoff) -> Life:
    """The container ended, and its exit code is not known."""
    over = ended(life, UNKNOWN_CODE, oom_killed, now, backoff)
    return over if oom_killed else with_reason(over, UNKNOWN_REASON)


def with_reason(life: Life, reason: str) -> Life:
    """An ended container whose runtime gives the reason."""
    return replace(life, reason=reason, end_reason=reason)


def failed_to_start(life: Life, code: int, reason: str, now: float, backoff: Backoff) -> Life:
    """No process came to be; ``code`` is 126 or 127 as runtimes report it. It backs off as after an end:
    runtimes show the kubelet an exited container."""
    return replace(
        life,
        phase="ended",
        starts=life.starts if life.phase == "starting" else life.starts + 1,
        exit_code=code,
        reason=reason,
        end_reason=reason,
        after_probe=False,
        delay=backoff.after(life.delay),
        not_before=now + life.delay,
        waits=life.delay,
        ended_at=now,
        again=None,
    )


def postponed(life: Life, reason: str, until: float) -> Life:
    """What the container needs is not there: it is started later, and that is no failure."""
    return replace(life, reason=reason, not_before=max(life.not_before, until))


def withdrawn(life: Life, reason: str, until: float) -> Life:
    """A start that came to nothing for want of what is this machine's: as if it had not begun."""
    starts = max(0, life.starts - 1)
    phase: Phase = "ended" if starts else "waiting"
    before = replace(life, phase=phase, starts=starts, not_before=0.0)
    # what its policy would not start again was to be started all the same
    before = replace(before, again=until) if starts else before
    return postponed(before, reason, until)
