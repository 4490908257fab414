"""A pod's phases: only the table's transitions happen, each of them does, and nobody else sets one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoslet.agent.state import pod_phases
from qoslet.agent.state.pod_phases import TRANSITIONS, WorkerPhase, enter
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.problem import Problem
from qoslet.core.workload.process_spec import PodSpec
from tests.agent.fixtures import Bench, node, pod_of
from tests.paths import REPO

AGENT = REPO / "src" / "qoslet" / "agent"
OWNER = AGENT / "state" / "pod_phases.py"
Pair = tuple[WorkerPhase, WorkerPhase]


class Recorded(frozenset[Pair]):
    """The transitions that are allowed; keeps those that were looked up."""

    seen: set[Pair]

    def __contains__(self, pair: object) -> bool:
        assert isinstance(pair, tuple)
        self.seen.add(pair)
        return super().__contains__(pair)


def not_runnable() -> PodSpec:
    return PodSpec("a", "d/a", (), 5.0, (Problem("error", "t.yaml: Pod d/a", "not here", ""),))


def syncs(bench: Bench, count: int = 3) -> None:
    for _ in range(count):
        bench.turn(1.0)


def is_rejected_corrected_and_dropped() -> None:
    bench = Bench()
    bench.source.put(pod_of("a"), not_runnable())
    bench.turn()
    bench.put("a")
    bench.turn()
    bench.source.put(pod_of("b"), not_runnable())
    bench.turn()
    bench.source.drop("b")
    syncs(bench)
    assert bench.keeper.running == {"a"}


def is_dropped_before_it_starts() -> None:
    bench = Bench()
    bench.keeper.refuse.add("a")
    bench.put("a")
    bench.turn()
    bench.source.drop("a")
    syncs(bench)
    assert not bench.reconciler.context.workers


def is_lost_by_the_runtime() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    for pid in bench.keeper.kept.pop("a").pids.values():
        assert pid is not None
        bench.kernel.end(pid, 0)
    syncs(bench)
    assert bench.keeper.running == {"a"}


def is_lost_before_it_could_be_stopped() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.keeper.deaf.add("a")
    bench.put("a", command="other")
    bench.turn(1.0)
    bench.keeper.end("a")
    del bench.keeper.kept["a"]
    syncs(bench)
    assert bench.keeper.running == {"a"}


def ends_and_is_dropped() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.keeper.end("a")
    syncs(bench)
    bench.source.drop("a")
    syncs(bench)
    assert not bench.reconciler.context.workers


def restarts_and_may_not_run_any_more() -> None:
    bench = Bench()
    bench.keeper.slow.add("a")
    bench.put("a")
    bench.turn()
    bench.put("a", command="other")
    bench.turn(1.0)
    bench.source.put(pod_of("a"), not_runnable())
    bench.turn(1.0)
    bench.keeper.end("a", code=143)
    syncs(bench)
    assert bench.rows["a"].phase == "Failed"


def restarts() -> None:
    bench = Bench()
    bench.put("a")
    bench.turn()
    bench.put("a", command="other")
    syncs(bench)
    assert bench.keeper.running == {"a"}


def fails_for_good() -> None:
    bench = Bench(cgroups_per_qos=False, enforce_node_allocatable=())
    bench.put("a", restart="Never")
    bench.turn()
    bench.begin()
    bench.source.again(node())
    syncs(bench)
    assert bench.rows["a"].phase == "Failed"


LIVES: tuple[Callable[[], None], ...] = (
    is_rejected_corrected_and_dropped,
    is_dropped_before_it_starts,
    is_lost_by_the_runtime,
    is_lost_before_it_could_be_stopped,
    ends_and_is_dropped,
    restarts_and_may_not_run_any_more,
    restarts,
    fails_for_good,
)


def test_each_transition_of_the_table_happens_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {(one.source, one.target) for one in TRANSITIONS}
    recorded = Recorded(table)
    recorded.seen = set()
    monkeypatch.setattr(pod_phases, "_ALLOWED", recorded)
    for life in LIVES:
        life()
    assert recorded.seen == table


def test_another_transition_is_an_error() -> None:
    worker = PodWorker("a", "d/a")
    enter(worker, WorkerPhase.PENDING)
    with pytest.raises(ValueError, match="no transition from Pending to Terminating"):
        enter(worker, WorkerPhase.TERMINATING)
    assert worker.phase is WorkerPhase.PENDING


def phases_set(path: Path) -> Iterator[int]:
    """The lines of a module that set an attribute ``phase``, or make a worker with one."""
    for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(one, ast.Attribute)
            and one.attr == "phase"
            and isinstance(one.ctx, ast.Store)
        ):
            yield one.lineno
        if isinstance(one, ast.Call) and ast.unparse(one.func).endswith(("PodWorker", "replace")):
            keywords = {keyword.arg for keyword in one.keywords}
            if "phase" in keywords or (
                one.args and len(one.args) > 2 and "PodWorker" in ast.unparse(one.func)
            ):
                yield one.lineno
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "setattr":
            yield one.lineno


def test_nobody_else_sets_a_phase() -> None:
    assert list(phases_set(OWNER)), "the check finds what it looks for"
    others = {path: list(phases_set(path)) for path in AGENT.rglob("*.py") if path != OWNER}
    assert not {str(path): lines for path, lines in others.items() if lines}
