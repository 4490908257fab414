"""What happened to pods and containers: one event for each transition, as fields and as a line.

A pod's events come from its status before and after a sync (``pod_events``), a container's from its
states (``container_events``). How often a container that crashes is told of is bounded by its
back-off.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.problem import Severity
from qoslet.core.status.pod_reason import START_ERROR, end_word, exit_reason
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.hook_spec import HookKind
from qoslet.core.workload.life import UNKNOWN_REASON
from qoslet.core.workload.pod_status import PodPhase

EventName = Literal[
    "PodStarting",
    "PodAdopted",
    "PodRunning",
    "PodSucceeded",
    "PodFailed",
    "PodRejected",
    "PodEditRejected",
    "PodResize",
    "PodStopping",
    "PodRemoved",
    "ContainerStarted",
    "ContainerRestarted",
    "ContainerExited",
    "ContainerStartFailed",
    "ContainerUnhealthy",
    "ContainerHookFailed",
    "ContainerKilling",
]


LATELY = 600.0
"""Seconds for which the restart of a container is news for the next agent."""
NAMED = 3
"""Pods or containers that a line about many names."""


class PodEvent(Struct, frozen=True):
    """One event. ``pod`` is ``namespace/name``, ``text`` what happened to it; ``restart_seconds`` is
    how long after its end a container starts again, None where it does not."""

    event: EventName
    pod: str
    text: str
    severity: Severity = "info"
    container: str = ""
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    restarts: int = 0
    restart_seconds: float | None = None
    unseen: bool = False
    """A container ended before this agent began, nobody knows how, and runs again."""

    @property
    def line(self) -> str:
        """The event in a line, the pod and container first."""
        place = f"{self.pod}/{self.container}" if self.container else self.pod
        return f"{place}: {self.text}"

    @property
    def fields(self) -> dict[str, object]:
        """The event for programs."""
        namespace, _, name = self.pod.partition("/")
        return {
            "event": self.event,
            "namespace": namespace,
            "pod": name,
            "container": self.container or None,
            "exitCode": self.exit_code,
            "signal": self.signal or None,
            "reason": self.reason or None,
            "restarts": self.restarts if self.container else None,
            "restartInSeconds": self.restart_seconds,
        }


class PodStatus(Struct, frozen=True):
    """What events of a pod follow from. ``began``: it was started, by this agent or an earlier
    one."""

    phase: PodPhase
    began: bool = False
    adopted: bool = False
    reason: str = ""
    message: str = ""
    resize: str = ""
    resize_reason: str = ""
    edit_rejected: str = ""


_PHASES: dict[PodPhase, tuple[EventName, str, Severity]] = {
    "Pending": ("PodStarting", "starting", "info"),
    "Running": ("PodRunning", "running", "info"),
    "Succeeded": ("PodSucceeded", "succeeded", "info"),
    "Failed": ("PodFailed", "failed", "warning"),
    "Terminating": ("PodStopping", "stopping", "info"),
}
_RESIZES: dict[str, Severity] = {"Deferred": "warning", "Infeasible": "warning"}


def pod_events(pod: str, before: PodStatus | None, after: PodStatus | None) -> list[PodEvent]:
    """What happened to a pod between two statuses; None: there was, or is, no such pod."""
    if after is None:
        return [] if before is None else [PodEvent("PodRemoved", pod, "removed")]
    found: list[PodEvent] = []
    if before is None or before.phase != after.phase:
        found += _phase_events(pod, before, after)
    if after.edit_rejected and (before is None or before.edit_rejected != after.edit_rejected):
        text = f"edit rejected, the running pod is unchanged: {after.edit_rejected}"
        found.append(PodEvent("PodEditRejected", pod, text, "warning", reason=after.reason))
    if after.resize and (before is None or _resize_of(before) != _resize_of(after)):
        why = f": {after.resize_reason}" if after.resize_reason else ""
        severity = _RESIZES.get(after.resize, "info")
        text = f"resize {after.resize}{why}"
        found.append(PodEvent("PodResize", pod, text, severity, reason=after.resize))
    return found


def _resize_of(status: PodStatus) -> tuple[str, str]:
    """What is news about a resize: what one in progress waits for changes all the time."""
    return status.resize, status.resize_reason if status.resize in _RESIZES else ""


def _phase_events(pod: str, before: PodStatus | None, after: PodStatus) -> list[PodEvent]:
    """What the phase of a pod tells."""
    if before is None and after.adopted:
        text = f"adopted from an earlier agent, {after.phase}"
        return [PodEvent("PodAdopted", pod, text, reason=after.reason)]
    why = after.message.removeprefix(f"{pod}: ") or after.reason
    if after.phase == "Failed" and not after.began:
        text = f"rejected: {why}" if why else "rejected"
        return [PodEvent("PodRejected", pod, text, "error", reason=after.reason)]
    event, text, severity = _PHASES[after.phase]
    tells = after.phase in ("Failed", "Terminating") and why
    return [
        PodEvent(event, pod, f"{text}: {why}" if tells else text, severity, reason=after.reason)
    ]


def container_events(
    pod: str, before: ContainerState | None, after: ContainerState, *, stopping: bool = False
) -> list[PodEvent]:
    """What happened to a container between two states; ``stopping``: its pod was asked to stop."""
    exited, started = _has_exited(before, after), _has_started(before, after)
    probed = [
        *_failed_hooks(pod, before, after),
        *_unhealthy(pod, before, after),
        *_killing(pod, before, after),
    ]
    exits = [*probed, *([_exit(pod, before, after, stopping=stopping)] if exited else [])]
    starts = [_start(pod, after)] if started else []
    return exits + starts if _is_up(after) else starts + exits


def adopted_events(pod: str, state: ContainerState, now: float) -> list[PodEvent]:
    """What is amiss with a container that an agent finds at ``now``, in wall-clock seconds: it failed
    and has not run again since, or it was restarted lately, maybe while no agent ran."""
    if state.running and state.restarts and state.exit_code is not None:
        if state.finished_at is None or now - state.finished_at > LATELY:
            return []
        more = [_start(pod, state)] if not state.starting else []
    elif not state.running and state.exit_code:
        more = []
    else:
        return []
    ended = _exit(pod, None, replace(state, backoff=0.0), stopping=False)
    text = f"{ended.text} ({before_agent(state.finished_at)})"
    unseen = state.running and ended.reason == UNKNOWN_REASON
    return [replace(ended, text=text, unseen=unseen), *more]


def unseen_exits(events: Sequence[PodEvent]) -> str:
    """One line for the containers that ended unseen, as all do in a soft-reboot; empty where at most
    one did."""
    places = [f"{event.pod}/{event.container}" for event in events if event.unseen]
    if len(places) < 2:
        return ""
    text = f"{len(places)} containers exited before this agent began and run again, their exit codes are unknown"
    return f"{text}: {_first_of(places)}"


def unknown_pods(pods: Sequence[str]) -> list[str]:
    """The line for pods that the runtime lost, as it loses all of them in a soft-reboot."""
    if len(pods) < 2:
        return [f"{pod}: the runtime no longer knows it; restarting it" for pod in pods]
    return [f"the runtime no longer knows {len(pods)} pods; restarting them: {_first_of(pods)}"]


def _first_of(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def before_agent(at: float | None) -> str:
    """When something happened that an agent has found, in wall-clock seconds."""
    if at is None:
        return "before this agent began"
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"at {moment}, before this agent began"


def _unhealthy(pod: str, before: ContainerState | None, after: ContainerState) -> list[PodEvent]:
    """Probes that began to fail, once for each row of failures."""
    known = {text.partition(" ")[0] for text in before.unhealthy} if before is not None else set()
    return [
        PodEvent(
            "ContainerUnhealthy", pod, text, "warning", container=after.name, reason="Unhealthy"
        )
        for text in after.unhealthy
        if text.partition(" ")[0] not in known
    ]


def _failed_hooks(pod: str, before: ContainerState | None, after: ContainerState) -> list[PodEvent]:
    """Hooks of this run that failed."""
    same = before is not None and before.restarts == after.restarts
    known = {*dict(before.failed_hooks)} if before is not None and same else set[HookKind]()
    return [
        PodEvent(
            "ContainerHookFailed",
            pod,
            text,
            "warning",
            container=after.name,
            reason=f"Failed{kind[:1].upper()}{kind[1:]}Hook",
        )
        for kind, text in after.failed_hooks
        if kind not in known
    ]


def _killing(pod: str, before: ContainerState | None, after: ContainerState) -> list[PodEvent]:
    """A probe that has the container ended."""
    if before is None or after.probe_kills <= before.probe_kills:
        return []
    event = PodEvent("ContainerKilling", pod, after.killing, container=after.name, reason="Killing")
    return [event]


def _is_up(state: ContainerState | None) -> bool:
    """Whether the container's command runs."""
    return state is not None and state.running and not state.starting


def _has_exited(before: ContainerState | None, after: ContainerState) -> bool:
    """Whether it ended in between, or could not be started."""
    if after.exit_code is None:
        return False
    if after.finished_at is not None:
        return before is None or before.finished_at != after.finished_at
    # a runtime without times
    if _is_up(before):
        return not after.running or (before is not None and after.restarts > before.restarts)
    return not after.running and (before is None or before.exit_code is None)


def _has_started(before: ContainerState | None, after: ContainerState) -> bool:
    """Whether its command began to run in between."""
    if after.starting:
        return False
    if after.running:
        return before is None or not _is_up(before) or before.restarts != after.restarts
    unseen = not _is_up(before) and _has_exited(before, after)
    return unseen and _reason(after) != START_ERROR


def _reason(state: ContainerState) -> str:
    """Why it ended, also before it was started again, or a start since then had to wait; empty where the
    runtime does not say."""
    if state.end_reason:
        return end_word(state.end_reason)
    return exit_reason(state) if state.reason else ""


def _start(pod: str, state: ContainerState) -> PodEvent:
    """It runs."""
    process = f"process {state.pid}" if state.pid and state.running else ""
    if not state.restarts:
        text = f"started ({process})" if process else "started"
        return PodEvent("ContainerStarted", pod, text, container=state.name)
    text = f"restarted ({', '.join(filter(None, [f'restart {state.restarts}', process]))})"
    return PodEvent("ContainerRestarted", pod, text, container=state.name, restarts=state.restarts)


def _exit(
    pod: str, before: ContainerState | None, after: ContainerState, *, stopping: bool
) -> PodEvent:
    """It ended, or could not be started."""
    assert after.exit_code is not None
    reason = _reason(after)
    if after.running and after.oom_killed and not (before is not None and before.oom_killed):
        reason = "OOMKilled"
    name = _signal(after.exit_code)
    event: EventName = "ContainerExited"
    if reason == START_ERROR:
        event = "ContainerStartFailed"
        why = after.message or after.reason or after.end_reason
        text = f"could not start, exit code {after.exit_code}: {why}"
        name = ""
    elif reason == UNKNOWN_REASON:
        text, name = "exited, its exit code is unknown", ""
    elif reason == "OOMKilled":
        text = f"OOM-killed, exit code {after.exit_code}"
    else:
        text = f"exited with {after.exit_code}{f' ({name})' if name else ''}"
    waits = after.backoff if after.backoff and not after.running else None
    if waits is not None:
        text += f"; restarts in {waits:g} s"
    return PodEvent(
        event,
        pod,
        text,
        "info" if after.exit_code == 0 or stopping else "warning",
        container=after.name,
        exit_code=after.exit_code,
        signal=name,
        reason=reason or ("Completed" if after.exit_code == 0 else "Error"),
        restarts=after.restarts,
        restart_seconds=waits,
    )


def _signal(code: int) -> str:
    """The signal that an exit code above 128 stands for."""
    try:
        return signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        return ""
