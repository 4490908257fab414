"""The exit code of a run: a table of pods and what each comes to."""

from __future__ import annotations

import pytest

from qoslet.core.status.run_outcome import EndCause, PodResult, pod_outcome, run_outcome
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import PodPhase, PodRow

REQUESTED, TIME, ENDED = EndCause.REQUESTED, EndCause.TIME, EndCause.PODS_ENDED


def container(code: int | None = None, *, running: bool = False, **more: object) -> ContainerState:
    return ContainerState("u", "app", "/q/app", running, exit_code=code, **more)  # type: ignore[arg-type]


RUNS = container(running=True)
WAITS = container()
REFUSED = container(reason="CreateContainerError", message="no such file")
NO_IMAGE = container(reason="image x cannot be found")
MADE = container(running=True, starting=True)
DONE = container(0, reason="Completed")
EXIT_3 = container(3, reason="Error")
KILLED = container(137, reason="OOMKilled", restarts=4)
NO_COMMAND = container(127, reason="nosuch: No such file or directory")
LIVENESS = "Container app failed liveness probe, will be restarted"
PROBED = container(143, reason="Error", killing=LIVENESS, probe_ended=True)
PROBED_BEFORE = container(3, reason="Error", killing=LIVENESS)
AGAIN = container(7, running=True, restarts=1)


def row(
    phase: PodPhase, *states: ContainerState, reason: str = "", message: str = "", policy: str = ""
) -> PodRow:
    return PodRow(
        "u",
        "d",
        "web",
        "Burstable",
        phase,
        reason,
        message,
        containers=states,
        restart_policy=policy,
    )


@pytest.mark.parametrize(
    ("pod", "cause", "result", "why"),
    [
        (row("Succeeded", DONE), ENDED, "succeeded", ""),
        (row("Running", RUNS), REQUESTED, "running", ""),
        (row("Running", RUNS), TIME, "running", ""),
        (row("Running", AGAIN), TIME, "running", ""),
        (row("Running", RUNS, DONE), TIME, "running", ""),
        (row("Terminating", EXIT_3), TIME, "running", ""),
        (row("Pending", DONE, WAITS), REQUESTED, "running", ""),
        (row("Pending", WAITS), REQUESTED, "running", ""),
        (row("Pending", MADE), REQUESTED, "running", ""),
        (row("Pending", MADE), TIME, "notStarted", "not started in time"),
        (row("Running", KILLED, policy="Always"), TIME, "running", ""),
        (row("Running", EXIT_3, policy="Always"), TIME, "failed", "container app exited with 3"),
        (row("Failed", EXIT_3), ENDED, "failed", "container app exited with 3"),
        (
            row("Failed", PROBED),
            ENDED,
            "failed",
            "container app exited with 143: failed liveness probe",
        ),
        (row("Failed", PROBED_BEFORE), ENDED, "failed", "container app exited with 3"),
        (row("Running", RUNS, EXIT_3), TIME, "failed", "container app exited with 3"),
        (row("Pending", EXIT_3, WAITS), TIME, "failed", "container app exited with 3"),
        (
            row("Running", KILLED, policy="OnFailure"),
            REQUESTED,
            "failed",
            "container app was OOM-killed, exit code 137 after 4 restarts",
        ),
        (
            row("Running", NO_COMMAND),
            REQUESTED,
            "failed",
            "container app exited with 127: nosuch: No such file or directory",
        ),
        (
            row("Failed", RUNS, reason="Evicted", message="the node is short of memory"),
            TIME,
            "failed",
            "the node is short of memory",
        ),
        (row("Failed", reason="Refused", message="no"), TIME, "rejected", "no"),
        (row("Failed", reason="UnexpectedAdmissionError"), ENDED, "rejected", "UnexpectedAdmissionError"),
        (row("Pending", NO_IMAGE), TIME, "notStarted", "container app: image x cannot be found"),
        (row("Pending", NO_IMAGE), REQUESTED, "notStarted", "container app: image x cannot be found"),
        (row("Running", RUNS, NO_IMAGE), REQUESTED, "failed", "container app: image x cannot be found"),
        (row("Pending", REFUSED), REQUESTED, "notStarted", "container app: no such file"),
        (row("Pending", WAITS), TIME, "notStarted", "not started in time"),
        (row("Pending"), TIME, "notStarted", "not started in time"),
        (
            row("Pending", reason="FailedToCreatePodContainer", message="d/web: no parent"),
            REQUESTED,
            "notStarted",
            "no parent",
        ),
        (row("Pending", WAITS, reason="ErrImagePull", message="no image"), TIME, "notStarted", "no image"),
    ],
)  # fmt: skip
def test_what_a_pod_comes_to(pod: PodRow, cause: EndCause, result: PodResult, why: str) -> None:
    made = pod_outcome(pod, cause)
    assert (made.result, made.why) == (result, why)
    bad = result in ("failed", "rejected", "notStarted")
    assert run_outcome([row("Succeeded", DONE), pod], cause).exit_code == int(bad)


def test_errors_and_nothing_at_all() -> None:
    assert run_outcome([], REQUESTED).exit_code == 0
    assert run_outcome([], REQUESTED, errors=True).exit_code == 1
    assert [one.pod.key for one in run_outcome([row("Failed", EXIT_3)], ENDED).failed] == ["d/web"]
