"""The life of a pod's containers: what to start, signal or kill next. Pure; time is a number.

A runtime keeps one ``Life`` per container, asks ``actions`` what is due, does it, and records
what happened with ``begun``, ``began``, ``ended`` and ``failed_to_start``. The real and the
simulated runtime share these rules.

Source: kubelet kuberuntime_manager.go computePodActions, KEP-753 (sidecars), client-go backoff.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from qoslet.core.workload.life import Life
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec

Verb = Literal["start", "signal", "kill", "postStart", "preStop"]

SIDECAR_GRACE = 2.0
"""Seconds that a sidecar gets at least, even where the pod's grace is used up (KEP-753)."""

HOOK_GRACE = 2.0
"""Seconds that a container gets at least after its ``preStop``. Source: kubelet kuberuntime_container.go
killContainer, minimumGracePeriodInSeconds."""


class Ending(Struct, frozen=True, omit_defaults=True):
    """A pod is being stopped: since when, and how many seconds its containers have."""

    begun_at: float
    grace: float


class Patience:
    """How long to wait for pods to end: ``seconds`` beyond their grace period, and again ``seconds`` after
    each one that ended, because a runtime may end many one after the other."""

    def __init__(self, grace_seconds: float, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._fewest = math.inf
        self._ends_at = now + grace_seconds + seconds

    def lasts(self, left: int, now: float) -> bool:
        """Whether to go on with the wait; ``left`` is how many have not ended."""
        if left < self._fewest:
            self._fewest = left
            self._ends_at = max(self._ends_at, now + self._seconds)
        return now < self._ends_at

    def hurry(self, now: float) -> None:
        """Leave out what is left of the grace period."""
        self._ends_at = min(self._ends_at, now + self._seconds)


class Action(Struct, frozen=True):
    """What a runtime is to do with a container."""

    verb: Verb
    name: str


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
        elif life.phase == "running" and life.post_start == "due":
            due.append(Action("postStart", launch.name))
        elif _may_start(launch, life, now):
            due.append(Action("start", launch.name))
        if launch.role == "init" or (launch.role == "sidecar" and not _lets_on(launch, life)):
            return due
        if _holds_up(launch, life):
            return due
    return due


def deadline_of(life: Life) -> float | None:
    """Until when a container that is to be ended has, None for one that is not."""
    return life.end_by if life.again is None else life.again


def _lets_on(launch: ProcessSpec, life: Life) -> bool:
    """Whether a sidecar lets the containers after it begin."""
    if life.post_start == "failed":
        return False
    waits = launch.has_probe("startup")
    return life.started if waits else life.starts > 0 and life.phase != "starting"


def _holds_up(launch: ProcessSpec, life: Life) -> bool:
    """Whether the containers after it wait for its ``postStart``: a kubelet starts one after the other,
    and each start ends with it."""
    asked = launch.hook("postStart") is not None
    return (asked and life.phase == "starting") or in_post_start(life)


def in_post_start(life: Life) -> bool:
    """Whether a container runs whose ``postStart`` has not ended yet."""
    return life.phase == "running" and life.post_start in ("due", "running")


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
    if life.is_ended_by_probe:
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
        times = [
            _kill_at(lives[one.name], when) for one, when in _deadlines(spec, lives, now, ending)
        ]
        if any(life.pre_stop == "running" for life in lives.values()):
            times.append(ending.begun_at + ending.grace)
    else:
        times = [
            _kill_at(life, deadline)
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
    of = [lives[launch.name] for launch in spec.launches]
    asked = [at for life in of for at in (life.signalled_at, life.pre_stop_at) if at is not None]
    return min(asked, default=now)


def _ending_actions(
    spec: PodSpec, lives: Mapping[str, Life], now: float, ending: Ending
) -> list[Action]:
    """Regular and init containers first, all at once; then sidecars, the last one first. Hooks of
    sidecars do not wait for their turn."""
    turns = _deadlines(spec, lives, now, ending)
    hook_by = ending.begun_at + ending.grace
    due = [_end(launch, lives[launch.name], now, when, hook_by) for launch, when in turns]
    names = {launch.name for launch, _ in turns}
    others = [one for one in spec.launches if one.role == "sidecar" and one.name not in names]
    due += [_pre_stop(launch, lives[launch.name], now, hook_by) for launch in others]
    return [*filter(None, due)]


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


def _end(
    launch: ProcessSpec, life: Life, now: float, deadline: float, hook_by: float | None = None
) -> Action | None:
    """Run its hook first, ask then, kill at the deadline. ``hook_by`` is until when its hook has, where
    that is not the deadline."""
    hook_by = deadline if hook_by is None else hook_by
    hook = _pre_stop(launch, life, now, hook_by)
    if hook is not None or (life.pre_stop == "running" and now < hook_by):
        return hook
    if life.signalled_at is None and (now < deadline or life.pre_stop):
        return Action("signal", launch.name)
    return Action("kill", launch.name) if now >= _kill_at(life, deadline) else None


def _kill_at(life: Life, deadline: float) -> float:
    """When a container is killed, given its deadline."""
    if not life.pre_stop or life.signalled_at is None:
        return deadline
    return max(deadline, life.signalled_at + HOOK_GRACE)


def _pre_stop(launch: ProcessSpec, life: Life, now: float, hook_by: float) -> Action | None:
    """Its ``preStop``, where that is due: not for one that has ended, nor without time."""
    asked = launch.hook("preStop") is not None
    first = not life.pre_stop and life.signalled_at is None
    due = asked and first and life.phase == "running" and now < hook_by
    return Action("preStop", launch.name) if due else None
