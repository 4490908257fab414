"""What a run came to: the result of each pod, and the exit code that follows.

Both are taken just before the run stops its pods, so that what the stop does counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

from msgspec import Struct

from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import HOOK_ERROR
from qoslet.core.workload.pod_status import PodRow
from qoslet.errors import EXIT_NO, EXIT_OK


class EndCause(Enum):
    """Why a run stopped."""

    REQUESTED = "requested"
    """A signal, or nobody watches any more."""
    TIME = "time"
    """``--for`` is over."""
    PODS_ENDED = "podsEnded"
    """Every pod ended or was rejected."""


PodResult = Literal["succeeded", "running", "failed", "rejected", "notStarted"]
"""``running``: until the run was stopped. The last three are failures."""

FAILURES: frozenset[PodResult] = frozenset(("failed", "rejected", "notStarted"))


class PodOutcome(Struct, frozen=True):
    """One pod, what it came to, and why it failed in a sentence, empty for one that did not."""

    pod: PodRow
    result: PodResult
    why: str = ""


class RunOutcome(Struct, frozen=True):
    """All pods, and the exit code of the run."""

    pods: tuple[PodOutcome, ...]
    cause: EndCause
    exit_code: int

    @property
    def failed(self) -> tuple[PodOutcome, ...]:
        """The pods that failed, were rejected or were not started."""
        return tuple(one for one in self.pods if one.result in FAILURES)


def run_outcome(pods: Sequence[PodRow], cause: EndCause, *, errors: bool = False) -> RunOutcome:
    """The outcome of a run of ``pods`` as they were when it was stopped. ``errors``: manifests or
    the node have an error."""
    outcomes = tuple(pod_outcome(row, cause) for row in pods)
    wrong = errors or any(one.result in FAILURES for one in outcomes)
    return RunOutcome(outcomes, cause, EXIT_NO if wrong else EXIT_OK)


def pod_outcome(row: PodRow, cause: EndCause) -> PodOutcome:
    """The result of one pod.

    A container that is down after a failure counts, one that failed before and runs again does
    not, nor one that was OOM-killed and is always restarted: the limit did its work. A pod that is
    still starting counts once the time was over, and where something is in its way.
    """
    down = next((one for one in row.containers if _is_down(row, one)), None)
    began = any(
        (one.running and not one.starting) or one.exit_code is not None for one in row.containers
    )
    why, held = row.message.removeprefix(f"{row.key}: ") or row.reason, _held_up(row)
    match row.phase:
        case "Succeeded" | "Terminating":
            return PodOutcome(row, "succeeded" if row.phase == "Succeeded" else "running")
        case "Failed" if not began:
            return PodOutcome(row, "rejected", why)
        case "Failed":
            return PodOutcome(row, "failed", _exited(down) if down else why)
    if down is not None:
        return PodOutcome(row, "failed", _exited(down))
    if began:
        return PodOutcome(row, "failed" if held else "running", held)
    if row.reason or held or cause is EndCause.TIME:
        return PodOutcome(row, "notStarted", why or held or "not started in time")
    return PodOutcome(row, "running")


def _is_down(row: PodRow, state: ContainerState) -> bool:
    """Whether a container has failed and does not run."""
    limited = state.reason == "OOMKilled" and row.restart_policy == "Always"
    failed = bool(state.exit_code) or state.reason == HOOK_ERROR
    return not state.running and failed and not limited


def _held_up(row: PodRow) -> str:
    """What is in the way of the first container that has never run; empty where nothing is."""
    held = (one for one in row.containers if not one.running and one.exit_code is None)
    return next(
        (f"container {one.name}: {one.message or one.reason}" for one in held if one.reason), ""
    )


def _exited(state: ContainerState) -> str:
    """How a container failed."""
    how = "was OOM-killed, exit code" if state.reason == "OOMKilled" else "exited with"
    probe = state.killing.partition(",")[0].removeprefix(f"Container {state.name} ")
    plain = probe if state.probe_ended else ""
    why = state.message or (plain if state.reason in ("OOMKilled", "Error") else state.reason)
    times = f" after {state.restarts} restarts" if state.restarts > 1 else ""
    return f"container {state.name} {how} {state.exit_code}{times}{f': {why}' if why else ''}"
