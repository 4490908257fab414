"""What is said about the input beside what runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.state.input_problems import ManifestStatus
from qoslet.core.pressure.guard_mode import Mode
from qoslet.core.problem import Problem, ProblemCode
from qoslet.core.workload.config.references import UnmetReference
from qoslet.core.workload.fields import unmet_row
from qoslet.core.workload.process_spec import PodSpec
from tests.agent.fixtures import ROOT, Bench, pod_of, spec_of


def lacking(name: str) -> PodSpec:
    lacks = UnmetReference(f"spec.{name}", "FailedMount", 'configmap "c" not found')
    row = unmet_row(pod_of(name), lacks)
    return replace(spec_of(pod_of(name)), unmet=(lacks,), problems=(row,))


def test_nobody_says_that_a_pod_waits_which_runs_on() -> None:
    bench = Bench()
    waits = "add it to the input; the pod waits"
    bench.put("a")
    bench.source.put(pod_of("b"), lacking("b"))
    bench.turn()
    assert [row.hint for row in bench.reconciler.problems] == [waits]
    bench.source.put(pod_of("a"), lacking("a"))
    bench.turn(1.0)
    assert bench.keeper.running == {"a"}
    runs = "add it to the input; the running pod is unchanged, a new start of the pod would wait"
    assert [row.hint for row in bench.reconciler.problems] == [runs, waits]
    assert bench.reconciler.problems is bench.reconciler.problems


STALLS = Problem("warning", "node n", "one stalls", "use a guard", ProblemCode.UNGUARDED)


@pytest.mark.parametrize(("guard", "said"), [("act", False), ("observe", True), ("off", True)])
def test_nobody_is_told_to_use_the_guard_that_acts(guard: Mode, said: bool) -> None:
    bench = Bench(config=Config(root=ROOT, guard=guard))
    bench.put("a")
    bench.source.put(pod_of("b"), replace(spec_of(pod_of("b")), problems=(STALLS,)))
    bench.turn()
    assert (STALLS in bench.reconciler.problems) is said


def test_a_guard_that_is_switched_says_it_again() -> None:
    rows, status = (STALLS, replace(STALLS, code=ProblemCode.OTHER)), ManifestStatus()
    assert status.of(rows, (), guarded=True) == rows[1:]
    assert status.of(rows, (), guarded=True) is status.of(rows, (), guarded=True)
    assert status.of(rows, (), guarded=False) is rows
