"""What the results of probes do to a pod's containers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.workload.life import NEW, Backoff, Life, began, begun, ended, failed_to_start
from qoslet.core.workload.lifecycle import actions, backoff_seconds, next_due
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.probes.pod import PodProbes
from qoslet.core.workload.probes.verdict import (
    has_started,
    is_ready,
    probe_kill_text,
)
from qoslet.core.workload.probes.worker import Result
from qoslet.core.workload.process_spec import PodSpec
from tests.core.workload.test_process_spec import document_of, pod_of

COMMAND = {"exec": {"command": ["x"]}}


def spec_of(container: dict[str, Any], **spec: Any) -> PodSpec:
    document = document_of(container, **spec)
    return read(pod_of(document), document)


class Driver:
    """A pod whose probes answer as ``answers`` say, by kind; a tick is a second."""

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.probes = PodProbes()
        self.lives: dict[str, Life] = {launch.name: NEW for launch in spec.launches}
        self.now = 0.0
        self.answers: dict[str, Result] = {}
        self.backoff = Backoff()

    def tick(self) -> list[str]:
        """What was done in a second."""
        done = []
        for action in actions(self.spec, self.lives, self.now, None):
            life, name = self.lives[action.name], action.name
            if action.verb == "start":
                self.lives[name] = began(begun(life, self.now), self.now)
            elif action.verb == "signal":
                self.lives[name] = replace(life, signalled_at=self.now)
            else:
                self.lives[name] = ended(life, 137, False, self.now, self.backoff)
            done.append(f"{action.verb} {name}")
        for due in self.probes.due(self.spec, self.lives, None, self.now):
            name = due.launch.name
            answer = self.answers.get(due.probe.kind, "success")
            self.lives[name] = self.probes.took(
                self.spec, self.lives[name], due, answer, "said so", self.now
            )
        self.now += 1.0
        return done

    def run(self, seconds: int) -> list[str]:
        """What was done in some seconds, each with its time."""
        return [f"{self.now - 1:.0f} {one}" for _ in range(seconds) for one in self.tick()]


def test_a_failing_liveness_probe_restarts_with_the_probes_own_grace() -> None:
    probe = {**COMMAND, "periodSeconds": 5, "terminationGracePeriodSeconds": 3}
    run = Driver(spec_of({"livenessProbe": probe}, terminationGracePeriodSeconds=60))
    run.answers["liveness"] = "failure"
    done = run.run(24)
    assert done == ["0 start app", "16 signal app", "18 kill app", "19 start app"]
    life = run.lives["app"]
    assert (life.restarts, life.probe_kills, life.failed_probe) == (1, 1, "liveness")
    (launch,) = run.spec.launches
    assert probe_kill_text(launch, life) == "Container app failed liveness probe, will be restarted"


@pytest.mark.parametrize(
    ("policy", "restarts"), [("Always", True), ("OnFailure", True), ("Never", False)]
)
def test_the_restart_policy_counts_whatever_the_exit_code(policy: str, restarts: bool) -> None:
    """Source: kuberuntime_manager.go shouldRestartOnFailure."""
    probe = {**COMMAND, "periodSeconds": 1, "failureThreshold": 1}
    run = Driver(spec_of({"livenessProbe": probe}, restartPolicy=policy))
    run.answers["liveness"] = "failure"
    run.run(4)
    life = ended(run.lives["app"], 0, False, run.now, run.backoff)
    again = began(begun(life, run.now), run.now)
    assert life.after_probe
    assert again.after_probe
    assert not ended(again, 0, False, run.now, run.backoff).after_probe
    assert not failed_to_start(again, 127, "StartError", run.now, run.backoff).after_probe
    due = actions(run.spec, {"app": life}, run.now, None)
    assert [one.verb for one in due] == (["start"] if restarts else [])
    (launch,) = run.spec.launches
    assert probe_kill_text(launch, run.lives["app"]).endswith("restarted") is restarts


@pytest.mark.parametrize(
    ("runs_for", "expected"),
    [(3.0, [0, 0, 10, 20, 40, 80]), (15.0, [0, 0, 0, 20, 40, 80]), (601.0, [0, 0, 0, 0])],
)
def test_the_back_off_of_a_probe_looks_at_the_end_before(
    runs_for: float, expected: list[float]
) -> None:
    """The sync that kills it sees the end before only, and starts it again where that is longer ago
    than the delay; else a later sync starts it, which counts from this end: doBackOff."""
    (launch,) = spec_of({"livenessProbe": COMMAND}).launches
    life, now, waits = NEW, 0.0, []
    for _ in expected:
        life = began(begun(life, now), now)
        now += runs_for
        life = ended(replace(life, end_by=now), 143, False, now, Backoff())
        waits.append(life.not_before - now)
        assert backoff_seconds(launch, life) == waits[-1]
        now = life.not_before
    assert waits == expected


def test_startup_gates_the_others_and_has_its_own_failures() -> None:
    container = {
        "startupProbe": {**COMMAND, "periodSeconds": 1, "failureThreshold": 5},
        "livenessProbe": {**COMMAND, "periodSeconds": 1, "failureThreshold": 1},
        "readinessProbe": {**COMMAND, "periodSeconds": 1},
    }
    run = Driver(spec_of(container))
    run.answers = {"startup": "failure", "liveness": "failure"}
    (launch,) = run.spec.launches
    run.run(4)
    assert not has_started(launch, run.lives["app"])
    assert run.lives["app"].end_by is None
    assert dict(run.lives["app"].unhealthy) == {"startup": "Startup probe failed: said so"}
    run.answers["startup"] = "success"
    run.answers["liveness"] = "success"
    run.run(3)
    assert is_ready(launch, run.lives["app"])
    assert run.lives["app"].unhealthy == {}
    run.answers["readiness"] = "failure"
    run.run(5)
    assert not is_ready(launch, run.lives["app"])
    assert run.lives["app"].end_by is None


def test_a_container_waits_until_the_sidecar_before_it_has_started() -> None:
    side = {
        "name": "side",
        "command": ["s"],
        "restartPolicy": "Always",
        "startupProbe": {**COMMAND, "periodSeconds": 1, "failureThreshold": 100},
    }
    run = Driver(spec_of({}, initContainers=[side]))
    run.answers["startup"] = "failure"
    assert run.run(6) == ["0 start side"]
    run.answers["startup"] = "success"
    assert run.run(3) == ["7 start app"]


def test_a_result_of_another_run_counts_nothing() -> None:
    run = Driver(spec_of({"livenessProbe": {**COMMAND, "failureThreshold": 1}}))
    run.run(1)
    (due,) = run.probes.due(run.spec, run.lives, None, 10.0)
    life = began(begun(ended(run.lives["app"], 1, False, 11.0, run.backoff), 12.0), 12.0)
    assert run.probes.took(run.spec, life, due, "failure", "", 13.0) == life


def test_a_probe_under_way_is_not_begun_again() -> None:
    run = Driver(spec_of({"livenessProbe": {**COMMAND, "periodSeconds": 1}}))
    run.run(1)
    (due,) = run.probes.due(run.spec, run.lives, None, 1.0)
    assert run.probes.due(run.spec, run.lives, None, 5.0) == []
    assert run.probes.next_at(run.spec, run.lives) is None
    run.probes.took(run.spec, run.lives["app"], due, "success", "", 5.0)
    assert run.probes.due(run.spec, run.lives, None, 5.0)


def test_an_error_is_told_and_counts_nothing() -> None:
    run = Driver(spec_of({"livenessProbe": {**COMMAND, "periodSeconds": 1, "failureThreshold": 1}}))
    run.answers["liveness"] = "unknown"
    run.run(5)
    said = "Liveness probe errored and resulted in unknown state: said so"
    assert run.lives["app"].unhealthy["liveness"] == said
    assert run.lives["app"].end_by is None


def test_time_alone_ends_what_a_probe_gave_up() -> None:
    spec = spec_of({"livenessProbe": COMMAND})
    life = replace(began(begun(NEW, 0.0), 0.0), end_by=9.0, signalled_at=5.0)
    assert next_due(spec, {"app": life}, 5.0) == 4.0


def test_probes_change_without_a_restart() -> None:
    assert spec_of({"livenessProbe": COMMAND}).digest() == spec_of({}).digest()
