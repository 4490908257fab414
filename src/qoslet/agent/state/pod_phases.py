"""The phases of a pod in the agent, and the only way from one to the next."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from msgspec import Struct


class WorkerPhase(Enum):
    """Where the agent is with a pod. A kubelet's pod phase is derived from it and from the
    containers (``pod_worker.status_phase_of``)."""

    REJECTED = "Rejected"
    """The pod may not run here; nothing of it is created."""
    PENDING = "Pending"
    """Its cgroups are created and its containers started next."""
    RUNNING = "Running"
    """The runtime has its containers."""
    TERMINATED = "Terminated"
    """Its containers have ended for good; it is still desired. Its volumes and cgroups go."""
    TERMINATING = "Terminating"
    """The runtime was asked to stop its containers."""
    CLEANING_UP = "CleaningUp"
    """No container runs; its volumes and cgroups are removed next."""


class Transition(Struct, frozen=True):
    """One way from a phase to another, and when a pod goes it."""

    source: WorkerPhase
    target: WorkerPhase
    when: str


_REJECTED, _PENDING, _RUNNING, _TERMINATED, _TERMINATING, _CLEANING_UP = WorkerPhase

TRANSITIONS = (
    Transition(_PENDING, _REJECTED, "it cannot run here or does not fit"),
    Transition(_PENDING, _RUNNING, "the runtime started it, or kept it from an earlier agent"),
    Transition(_PENDING, _CLEANING_UP, "no longer desired, or desired elsewhere"),
    Transition(_REJECTED, _PENDING, "its manifest changed, or there is room now"),
    Transition(_REJECTED, _CLEANING_UP, "no longer desired"),
    Transition(_RUNNING, _PENDING, "the runtime lost it"),
    Transition(_RUNNING, _TERMINATED, "its containers ended and are not restarted"),
    Transition(_RUNNING, _CLEANING_UP, "the runtime lost it before it could be stopped to restart"),
    Transition(_RUNNING, _TERMINATING, "no longer desired, restarted or evicted"),
    Transition(_TERMINATING, _CLEANING_UP, "the runtime says that its containers ended"),
    Transition(_TERMINATED, _CLEANING_UP, "no longer desired, or restarted"),
    Transition(_CLEANING_UP, _PENDING, "it starts again"),
    Transition(_CLEANING_UP, _REJECTED, "it was to start again and may not run here"),
    Transition(_CLEANING_UP, _TERMINATED, "desired, but failed for good"),
)
"""Every transition there is. A pod begins as PENDING; a CLEANING_UP one that is not desired is
forgotten."""

_ALLOWED = frozenset((one.source, one.target) for one in TRANSITIONS)


class HasPhase(Protocol):
    """What a transition changes."""

    phase: WorkerPhase


def enter(pod: HasPhase, target: WorkerPhase) -> None:
    """Set the phase; the same one again is no transition. Raises ValueError for one that is not
    in the table."""
    if target is pod.phase:
        return
    if (pod.phase, target) not in _ALLOWED:
        raise ValueError(f"no transition from {pod.phase.value} to {target.value}")
    pod.phase = target
