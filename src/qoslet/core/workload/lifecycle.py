"""The life of a pod's containers: what to start, signal or kill next. Pure; time is a number.

A runtime keeps one ``Life`` per container, asks ``actions`` what is due, does it, and records
what happened with ``begun``, ``began``, ``ended`` and ``failed_to_start``. The real and the
simulated runtime share these rules.

Source: kubelet kuberuntime_manager.go computePodActions, KEP-753 (sidecars), client-go backoff.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.workload.process_spec import PodSpec, ProcessSpec

Phase = Literal["waiting", "starting", "running", "ended"]
"""``starting``: there is a process, which does not execute the container's command yet."""

Verb = Literal["start", "signal", "kill"]

UNKNOWN_CODE = 137
UNKNOWN_REASON = "ContainerStatusUnknown"
"""What is told of a container that ended where nobody could see it, as a kubelet does."""

SIDECAR_GRACE = 2.0
"""Seconds that a sidecar gets at least, even where the pod's grace is used up (KEP-753)."""


class Backoff(Struct, frozen=True):
    """Delays between restarts in seconds: none before the first, then ``first``, doubled each time,
    reset after a long run.

    Source: kubelet MaxContainerBackOff 300 s, initial 10 s, reset after 10 min; doBackOff lets the first
    restart pass and counts it (client-go flowcontrol.Backoff IsInBackOffSince, Next).
    """

    first: float = 10.0
    longest: float = 300.0
    reset_after: float = 600.0


class Life(Struct, frozen=True, omit_defaults=True):
    """One container so far. Times are monotonic seconds; ``not_before`` is the end of its
    back-off, ``delay`` how long the next one is. ``signalled_at`` tells that it was asked to end, ``again``
    that it is to be started anew whatever its policy: until then, when it is killed. ``ran_at`` is
    when it began to run; ``started``, ``ready`` and ``unhealthy`` are what its probes came to, the
    last by kind and in words. ``end_by``: a probe failed, and it is killed then; ``failed_probe`` was
    the last such, ``probe_kills`` counts them. ``ended_at`` and ``end_reason`` are the last end's and stay
    when it runs again."""

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

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self.phase in ("starting", "running")

    @property
    def restarts(self) -> int:
        """Starts after the first."""
        return max(0, self.starts - 1)


NEW = Life()


class ContainerState(Struct, frozen=True, gc=False, omit_defaults=True):
    """A container as its runtime sees it. ``exit_code`` is set once it ended; ``oom_killed``
    tells that the kernel killed it at its memory limit. ``started_at`` and ``finished_at`` are
    wall-clock seconds of the last start and the last end, ``log`` is the file of its output.
    ``message`` is a sentence for people about the reason. ``end_reason`` is that of the last end, also
    while it runs again. ``backoff`` is how many seconds after its
    end it starts again, 0 for one that does not wait to. ``starting``: there is a process, which does
    not execute the command yet. ``ready`` is what its probes say, None: as it runs; ``unhealthy`` is
    what they say in words. ``probe_kills`` counts how often one had it ended, ``killing`` tells the last in words,
    ``probe_ended`` whether the last end was such a one."""

    pod_uid: str
    name: str
    cgroup: str
    running: bool
    pid: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    reason: str = ""
    oom_killed: bool = False
    started_at: float | None = None
    finished_at: float | None = None
    log: str = ""
    message: str = ""
    backoff: float = 0.0
    starting: bool = False
    ready: bool | None = None
    unhealthy: tuple[str, ...] = ()
    probe_kills: int = 0
    killing: str = ""
    probe_ended: bool = False
    end_reason: str = ""


class Ending(Struct, frozen=True, omit_defaults=True):
    """A pod is being stopped: since when, and how many seconds its containers have."""

    begun_at: float
    grace: float


class Action(Struct, frozen=True):
    """What a runtime is to do with a container."""

    verb: Verb
    name: str


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
    )


def began(life: Life, now: float) -> Life:
    """The container was started."""
    known = life if life.phase == "starting" else begun(life, now)
    return replace(known, phase="running", ran_at=now)


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
    delay = _next_delay(waits, backoff)
    if life.again is not None:
        waits = 0.0
    elif life.end_by is not None:
        # no container had ended before the first of these: nothing to count from, nothing counted
        delay = 0.0 if life.starts == 1 else delay
        last_end = life.began_at if life.ended_at is None else life.ended_at
        waits = waits if now - last_end < waits else 0.0
    reason = "OOMKilled" if oom_killed else "Completed" if code == 0 else "Error"
    return replace(
        life,
        phase="ended",
        exit_code=code,
        oom_killed=oom_killed or life.oom_killed,
        reason=reason,
        end_reason=reason,
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
        delay=_next_delay(life.delay, backoff),
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


def _next_delay(delay: float, backoff: Backoff) -> float:
    """Twice the last delay within the bounds."""
    return min(delay * 2, backoff.longest) if delay else min(backoff.first, backoff.longest)


def actions(
    spec: PodSpec, lives: Mapping[str, Life], now: float, ending: Ending | None
) -> list[Action]:
    """What is due for the pod now. Empty means: wait for an exit or for time to pass."""
    if ending is not None:
        return _ending_actions(spec, lives, now, ending)
    if finished(spec, lives):
        return _ending_actions(
            spec, lives, now, Ending(_first_signal(spec, lives, now), spec.grace)
        )
    due: list[Action] = []
    for launch in spec.launches:
        life = lives[launch.name]
        if launch.role == "init" and life.phase == "ended" and life.exit_code == 0:
            continue
        if life.alive and (deadline := deadline_of(life)) is not None:
            due += filter(None, [_end(launch, life, now, deadline)])
        elif _may_start(launch, life, now):
            due.append(Action("start", launch.name))
        if launch.role == "init" or (launch.role == "sidecar" and not _lets_on(launch, life)):
            return due
    return due


def deadline_of(life: Life) -> float | None:
    """Until when a container that is to be ended has, None for one that is not."""
    return life.end_by if life.again is None else life.again


def _lets_on(launch: ProcessSpec, life: Life) -> bool:
    """Whether a sidecar lets the containers after it begin."""
    waits = any(probe.kind == "startup" for probe in launch.probes)
    return life.started if waits else life.starts > 0 and life.phase != "starting"


def _may_start(launch: ProcessSpec, life: Life, now: float) -> bool:
    """Whether its policy and back-off let the container start."""
    if life.alive:
        return False
    if life.phase == "waiting":
        return now >= life.not_before
    return _restarts(launch, life) and now >= life.not_before


def _restarts(launch: ProcessSpec, life: Life) -> bool:
    """Whether the policy, or a wish, asks for another start after this end."""
    if life.again is not None:
        return True
    if life.end_by is not None:
        return launch.restart != "Never"
    return launch.restart == "Always" or (launch.restart == "OnFailure" and life.exit_code != 0)


def backoff_seconds(launch: ProcessSpec, life: Life) -> float:
    """How long after its end an ended container starts again; 0 for one that does not wait to."""
    if life.phase != "ended" or life.again is not None or not _restarts(launch, life):
        return 0.0
    if life.waits is not None:
        return life.waits
    return 0.0 if launch.role == "init" and life.exit_code == 0 else life.delay


def finished(spec: PodSpec, lives: Mapping[str, Life]) -> bool:
    """Whether the pod's work is over: nothing but sidecars would ever run again."""
    work = [launch for launch in spec.launches if launch.role == "regular"]
    if any(_gave_up(launch, lives[launch.name]) for launch in spec.launches):
        return True
    return all(
        lives[launch.name].phase == "ended" and not _restarts(launch, lives[launch.name])
        for launch in work
    )


def _gave_up(launch: ProcessSpec, life: Life) -> bool:
    """Whether an init container failed for good."""
    failed = launch.role == "init" and life.phase == "ended" and life.exit_code != 0
    return failed and not _restarts(launch, life)


def next_due(
    spec: PodSpec, lives: Mapping[str, Life], now: float, ending: Ending | None = None
) -> float | None:
    """Seconds until time alone makes something due, after all that is due now was done: until
    the end of a back-off or of a grace period. None where nothing waits for time."""
    if ending is None and finished(spec, lives):
        ending = Ending(_first_signal(spec, lives, now), spec.grace)
    if ending is not None:
        times = [when for _, when in _deadlines(spec, lives, now, ending)]
    else:
        times = [
            deadline
            if life.alive and (deadline := deadline_of(life)) is not None
            else life.not_before
            for launch in spec.launches
            if deadline_of(life := lives[launch.name]) is not None
            or (life.phase == "ended" and _restarts(launch, life))
            or life.phase == "waiting"
        ]
    # One whose back-off is over waits for those before it, which no time ends.
    return min((when - now for when in times if when > now), default=None)


def _first_signal(spec: PodSpec, lives: Mapping[str, Life], now: float) -> float:
    """When the pod's remaining containers were first asked to end."""
    asked = [lives[launch.name].signalled_at for launch in spec.launches]
    return min((at for at in asked if at is not None), default=now)


def _ending_actions(
    spec: PodSpec, lives: Mapping[str, Life], now: float, ending: Ending
) -> list[Action]:
    """Regular and init containers first, all at once; then sidecars, the last one first."""
    return [
        action
        for launch, deadline in _deadlines(spec, lives, now, ending)
        if (action := _end(launch, lives[launch.name], now, deadline)) is not None
    ]


def _deadlines(
    spec: PodSpec, lives: Mapping[str, Life], now: float, ending: Ending
) -> list[tuple[ProcessSpec, float]]:
    """The containers whose turn it is to end, each with the time at which it is killed."""
    running = [launch for launch in spec.launches if lives[launch.name].alive]
    work = [launch for launch in running if launch.role != "sidecar"]
    deadline = ending.begun_at + ending.grace
    if work or not running:
        return [(launch, deadline) for launch in work]
    last = running[-1]
    if ending.grace > 0:
        signalled = lives[last.name].signalled_at
        deadline = max(deadline, (now if signalled is None else signalled) + SIDECAR_GRACE)
    return [(last, deadline)]


def _end(launch: ProcessSpec, life: Life, now: float, deadline: float) -> Action | None:
    """Ask first, kill at the deadline."""
    if now >= deadline:
        return Action("kill", launch.name)
    return Action("signal", launch.name) if life.signalled_at is None else None
