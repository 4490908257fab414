"""How a worker counts: the cases of the kubelet's own pkg/kubelet/prober/worker_test.go, as facts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.workload.probe_spec import KINDS, Kind, Probe
from qoslet.core.workload.probes.worker import (
    ProbeWorker,
    Result,
    Seen,
    counted,
    looked,
    new_worker,
    wants_look,
)

UP = Seen(1, True)


class Run:
    """A worker over ticks of 1 s; ``probed`` counts the probes."""

    def __init__(self, kind: Kind, **fields: float) -> None:
        self.probe = Probe(kind, command=("x",), period=1.0, **fields)  # type: ignore[arg-type]
        self.worker: ProbeWorker = new_worker(0.0)
        self.now = 0.0
        self.probed = 0

    def tick(self, outcome: Result, seen: Seen = UP) -> Result:
        """One tick with this outcome, if it probes; the result that stands after it."""
        if self.probe.kind == "startup" and seen is UP:
            seen = replace(seen, started=False)
        self.worker, due = looked(self.worker, self.probe, seen, self.now)
        if due:
            self.probed += 1
            self.worker = counted(self.worker, self.probe, outcome)
        self.now += 1.0
        return self.worker.result


@pytest.mark.parametrize("kind", KINDS)
def test_the_initial_delay(kind: Kind) -> None:
    """TestInitialDelay: success for liveness, failure for readiness, unknown for startup."""
    run = Run(kind, delay=10)
    first = {"liveness": "success", "readiness": "failure", "startup": "unknown"}
    seen = Seen(1, True, started=kind != "startup", ran=9.9)
    assert run.tick("success", seen) == first[kind]
    assert run.probed == 0
    assert run.tick("success", replace(seen, ran=100.0)) == "success"
    assert run.probed == 1


def test_the_failure_threshold() -> None:
    """TestFailureThreshold."""
    run = Run("readiness", success=1, failure=3)
    for _ in range(2):
        assert [run.tick("success") for _ in range(3)] == ["success"] * 3
        assert [run.tick("failure") for _ in range(2)] == ["success"] * 2
        assert [run.tick("failure") for _ in range(3)] == ["failure"] * 3


def test_the_success_threshold() -> None:
    """TestSuccessThreshold."""
    run = Run("readiness", success=3, failure=1)
    for _ in range(2):
        assert [run.tick("success") for _ in range(2)] == ["failure"] * 2
        assert [run.tick("success") for _ in range(3)] == ["success"] * 3
        assert run.tick("failure") == "failure"


def test_a_startup_probe_succeeds_or_fails_at_its_thresholds() -> None:
    """TestStartupProbeSuccessThreshold, TestStartupProbeFailureThreshold."""
    run = Run("startup", success=1, failure=3)
    assert run.tick("success") == "success"
    run = Run("startup", success=1, failure=3)
    assert [run.tick("failure") for _ in range(3)] == ["unknown", "unknown", "failure"]
    assert (run.worker.on_hold, run.worker.run) == (True, 0)


@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_a_failure_holds_the_worker_until_another_run(kind: Kind) -> None:
    """TestOnHoldOnLivenessOrStartupCheckFailure."""
    run = Run(kind, success=1, failure=1)
    assert run.tick("failure") == "failure"
    assert run.worker.on_hold
    assert run.tick("success") == "failure"
    assert run.probed == 1
    again = Seen(2, True, started=kind != "startup")
    assert run.tick("success", again) == "success"
    assert not run.worker.on_hold


def test_the_run_begins_anew_after_a_failure() -> None:
    """TestResultRunOnLivenessCheckFailure."""
    run = Run("liveness", success=1, failure=3)
    assert (run.tick("success"), run.worker.run) == ("success", 1)
    assert (run.tick("failure"), run.worker.run) == ("success", 1)
    assert (run.tick("failure"), run.worker.run) == ("success", 2)
    assert (run.tick("failure"), run.worker.run) == ("failure", 0)


def test_started_decides_which_probes_are_made() -> None:
    """TestLivenessProbeDisabledByStarted, TestStartupProbeDisabledByStarted."""
    for kind, when in (("liveness", True), ("readiness", True), ("startup", False)):
        run = Run(kind)  # type: ignore[arg-type]
        run.tick("success", Seen(1, True, started=not when))
        assert run.probed == 0
        run.tick("success", Seen(1, True, started=when))
        assert run.probed == 1


@pytest.mark.parametrize(
    ("kind", "seen", "result"),
    [
        ("liveness", Seen(0, False), "unknown"),
        ("liveness", Seen(1, False), "failure"),
        ("readiness", Seen(1, False), "failure"),
        ("liveness", Seen(1, True, stopping=True), "success"),
        ("startup", Seen(1, True, started=False, stopping=True), "success"),
    ],
)
def test_what_does_not_run_or_is_stopping_is_not_probed(
    kind: Kind, seen: Seen, result: Result
) -> None:
    """TestDoProbe, and the graceful shutdown of a pod."""
    run = Run(kind)
    assert run.tick("success", seen) == result
    assert run.probed == 0


def test_readiness_goes_on_while_a_pod_stops() -> None:
    run = Run("readiness")
    run.tick("success", Seen(1, True, stopping=True))
    assert run.probed == 1


def test_an_error_of_the_prober_counts_nothing() -> None:
    run = Run("liveness", failure=1)
    assert [run.tick("unknown") for _ in range(3)] == ["success"] * 3
    assert (run.probed, run.worker.run) == (3, 0)


def test_ticks_that_were_missed_come_once() -> None:
    """A Go ticker keeps one tick for a slow reader."""
    probe = Probe("liveness", command=("x",), period=2.0)
    worker = new_worker(1.0)
    assert not wants_look(worker, probe, UP, 0.9)
    worker, due = looked(worker, probe, UP, 8.5)
    assert due
    assert worker.next_at == 9.0


def test_readiness_is_probed_as_soon_as_a_container_has_started() -> None:
    """UpdatePodStatus triggers it; after that the period counts."""
    probe = Probe("readiness", command=("x",), period=10.0)
    worker, due = looked(new_worker(0.0), probe, Seen(0, False), 0.0)
    assert not due
    assert wants_look(worker, probe, UP, 0.5)
    worker, due = looked(worker, probe, UP, 0.5)
    assert due
    assert not wants_look(worker, probe, UP, 0.6)
    assert worker.next_at == 10.0
    assert wants_look(replace(worker, triggered=False), probe, UP, 0.6)
    assert not wants_look(replace(worker, triggered=False), probe, replace(UP, started=False), 0.6)
