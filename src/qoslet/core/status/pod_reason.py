"""The word that kubectl prints as STATUS, from a pod's phase and its containers.

Source: kubernetes pkg/printers/internalversion/printers.go printPod; kubelet
kuberuntime_container.go (``CrashLoopBackOff``), kubelet container/sync_result.go
(``RunContainerError``), containerd's ``StartError``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import UNKNOWN_REASON
from qoslet.core.workload.pod_status import PodPhase, PodRow

CRASH_LOOP = "CrashLoopBackOff"
CREATING = "ContainerCreating"
START_ERROR = "StartError"
NOT_RUN = "RunContainerError"
"""A container that was never run, for a reason of this machine's that is a sentence."""
_COMPLETED = "Completed"

_ENDED = frozenset(("OOMKilled", _COMPLETED, "Error", UNKNOWN_REASON))
"""Reasons of containers that ran."""

Roles = Mapping[str, str]
"""Container name to its role; one without an entry is a regular container."""


def exit_reason(state: ContainerState) -> str:
    """Why a container ended, in the kubelet's words; empty for one that has not ended, or is being
    started again."""
    if state.running or state.starting or state.exit_code is None:
        return ""
    return end_word(state.reason)


def last_reason(state: ContainerState) -> str:
    """Why a container ended last, in the kubelet's words, also while it runs again."""
    return end_word(state.end_reason or ("Error" if state.exit_code else _COMPLETED))


def end_word(reason: str) -> str:
    """The kubelet's word for a runtime's reason of an end."""
    return reason if reason in _ENDED or reason.isidentifier() else START_ERROR


def waiting_reason(state: ContainerState) -> str:
    """Why a container has not started; empty for one that runs or ended for good."""
    if state.starting or (state.awaits_cgroup and not state.backoff):
        return CREATING
    if state.running:
        return ""
    if state.backoff:
        return CRASH_LOOP
    if state.exit_code is not None:
        return ""
    return state.reason if not state.reason or state.reason.isidentifier() else NOT_RUN


def pod_reason(phase: PodPhase, states: Sequence[ContainerState], roles: Roles) -> str:
    """The word: a reason of the containers, else the phase."""
    if phase == "Terminating":
        return phase
    initial = [one for one in states if roles.get(one.name) in ("init", "sidecar")]
    regular = [one for one in states if roles.get(one.name, "regular") == "regular"]
    # what has run was not held up, whatever became of a sidecar since
    begun = any(one.running or one.exit_code is not None for one in regular)
    blocked = _init_reason(initial, roles) if phase in ("Pending", "Failed") and not begun else ""
    if blocked:
        return blocked
    reasons = [waiting_reason(one) or exit_reason(one) for one in regular]
    word = next(filter(None, reasons), phase)
    return "Running" if word == _COMPLETED and phase == "Running" else word


def _init_reason(states: Sequence[ContainerState], roles: Roles) -> str:
    """What holds up the first container that initializes and is not done; empty if all are, or
    none has begun."""
    for at, state in enumerate(states):
        if (state.running and roles.get(state.name) == "sidecar") or _succeeded(state):
            continue
        why = waiting_reason(state) or exit_reason(state)
        if why:
            return f"Init:{why}"
        return f"Init:{at}/{len(states)}" if at or state.running else ""
    return ""


def _succeeded(state: ContainerState) -> bool:
    return not state.running and not state.backoff and state.exit_code == 0


def deciding(row: PodRow) -> ContainerState | None:
    """The container that the status is about: the first that waits after an end, else the first
    that failed, else the last that ended."""
    ended = [one for one in row.containers if exit_reason(one)]
    waits = next((one for one in ended if one.backoff), None)
    failed = next((one for one in ended if one.exit_code), None)
    return waits or failed or (ended[-1] if ended else None)


def retry_at(state: ContainerState) -> float | None:
    """When a container that is in its back-off starts again, in wall-clock seconds."""
    if not state.backoff or state.finished_at is None:
        return None
    return state.finished_at + state.backoff
