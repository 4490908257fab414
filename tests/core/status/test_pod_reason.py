"""The STATUS of a pod, as ``kubectl get pods`` prints it.

Source of the expectations: kubernetes pkg/printers/internalversion/printers_test.go and the
kubelet's waiting and terminated reasons.
"""

from __future__ import annotations

import pytest

from qoslet.core.api.pod import Role
from qoslet.core.status.pod_reason import exit_reason, pod_reason, retry_at
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import NEW, Backoff, began, ended, restarted
from qoslet.core.workload.lifecycle import backoff_seconds
from qoslet.core.workload.pod_status import PodPhase
from qoslet.core.workload.process_spec import ProcessSpec, RestartPolicy
from qoslet.core.workload.security.context import Credentials


def state(name: str, *, running: bool = False, code: int | None = None, reason: str = "",
          backoff: float = 0.0) -> ContainerState:  # fmt: skip
    return ContainerState(
        "u", name, "", running, exit_code=code, reason=reason, backoff=backoff, finished_at=100.0
    )


UP = state("app", running=True)
NOT_BEGUN = state("app")
CREATED = ContainerState("u", "app", "", True, starting=True)
AGAIN = ContainerState("u", "app", "", False, exit_code=137, restarts=1, starting=True)
CASES: list[tuple[str, PodPhase, list[ContainerState], str]] = [
    ("runs", "Running", [UP], "Running"),
    ("is being made", "Pending", [CREATED], "ContainerCreating"),
    ("is being made again", "Running", [AGAIN], "ContainerCreating"),
    ("crash loop", "Running", [state("app", code=7, reason="Error", backoff=10)], "CrashLoopBackOff"),
    ("OOM, not restarted", "Failed", [state("app", code=137, reason="OOMKilled")], "OOMKilled"),
    ("OOM, in back-off", "Running", [state("app", code=137, reason="OOMKilled", backoff=20)], "CrashLoopBackOff"),
    ("exit 4", "Failed", [state("app", code=4, reason="Error")], "Error"),
    ("exit 0", "Succeeded", [state("app", code=0, reason="Completed")], "Completed"),
    ("one of two done", "Running", [state("app", code=0, reason="Completed"), state("b", running=True)], "Running"),
    ("no such command", "Failed", [state("app", code=127, reason="nosuch: No such file or directory")], "StartError"),
    ("refused by runc", "Failed", [state("app", code=128, reason="StartError")], "StartError"),
    ("refused by docker", "Failed", [state("app", code=127, reason="ContainerCannotRun")], "ContainerCannotRun"),
    ("image missing", "Pending", [state("app", reason="ErrImagePull")], "ErrImagePull"),
    ("no process to be had", "Pending", [state("app", reason="no process can be made: cgroup /x has 5")], "RunContainerError"),
    ("nothing yet", "Pending", [NOT_BEGUN], "Pending"),
    ("first init runs", "Pending", [state("i", running=True), state("j"), NOT_BEGUN], "Init:0/2"),
    ("second init waits", "Pending", [state("i", code=0, reason="Completed"), state("j"), NOT_BEGUN], "Init:1/2"),
    ("init failed", "Failed", [state("i", code=3, reason="Error"), state("j"), NOT_BEGUN], "Init:Error"),
    ("init loops", "Pending", [state("i", code=3, reason="Error", backoff=10), NOT_BEGUN], "Init:CrashLoopBackOff"),
    ("init OOM", "Failed", [state("i", code=137, reason="OOMKilled"), NOT_BEGUN], "Init:OOMKilled"),
    ("sidecar up, init runs", "Pending", [state("s", running=True), state("i", running=True), NOT_BEGUN], "Init:1/2"),
    ("sidecar up", "Running", [state("s", running=True), UP], "Running"),
    ("work failed, then its sidecar", "Failed", [state("s", code=137, reason="ContainerStatusUnknown"), state("app", code=4, reason="Error")], "Error"),
    ("sidecar failed before the work", "Failed", [state("s", code=2, reason="Error"), NOT_BEGUN], "Init:Error"),
    ("ends", "Terminating", [state("app", code=7, reason="Error")], "Terminating"),
    ("evicted before it ran", "Failed", [], "Failed"),
]  # fmt: skip
ROLES = {"i": "init", "j": "init", "s": "sidecar", "app": "regular", "b": "regular"}


@pytest.mark.parametrize(
    ("phase", "states", "word"), [pytest.param(*rest, id=name) for name, *rest in CASES]
)
def test_the_reason_of_a_pod_is_that_of_the_container_that_decides(
    phase: PodPhase, states: list[ContainerState], word: str
) -> None:
    assert pod_reason(phase, states, ROLES) == word


def test_a_restarted_container_has_no_exit_reason() -> None:
    assert exit_reason(state("app", running=True, code=7, reason="Error")) == ""


def test_the_next_start_is_a_back_off_after_the_end() -> None:
    assert retry_at(state("app", code=7, reason="Error", backoff=20)) == 120.0
    assert retry_at(state("app", code=7, reason="Error")) is None


def test_who_waits_to_start_again() -> None:
    backoff = Backoff(first=10.0)

    def launch(restart: RestartPolicy, role: Role = "regular") -> ProcessSpec:
        return ProcessSpec(
            "c", role, ("x",), (), "/", Credentials(0, 0, (), frozenset(), False), restart
        )

    def of(restart: RestartPolicy, code: int, role: Role = "regular") -> float:
        first = ended(began(NEW, 0.0), code, False, 1.0, backoff)
        assert backoff_seconds(launch(restart, role), first) == 0.0, "the first comes at once"
        again = ended(began(first, 1.0), code, False, 2.0, backoff)
        return backoff_seconds(launch(restart, role), again)

    assert (of("Always", 0), of("Always", 1)) == (10.0, 10.0)
    assert (of("OnFailure", 0), of("OnFailure", 1)) == (0.0, 10.0)
    assert of("Never", 1) == 0.0
    assert (of("OnFailure", 0, "init"), of("OnFailure", 1, "init")) == (0.0, 10.0)
    asked = ended(restarted(began(NEW, 0.0), 0.5, 30.0), 143, False, 1.0, backoff)
    assert backoff_seconds(launch("Always"), asked) == 0.0
