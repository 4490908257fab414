"""What there is to say about the input, beside what runs already: nobody says that a pod waits which
runs on, or that a container stalls which the guard helps."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.problem import Problem, ProblemCode

RUNS_ON = "add it to the input; the running pod is unchanged, a new start of the pod would wait"


class ManifestStatus:
    """Keeps the rows as long as they are the same ones."""

    def __init__(self) -> None:
        self._rows: tuple[Problem, ...] = ()
        self._lacking: frozenset[Problem] = frozenset()
        self._running: frozenset[Problem] = frozenset()
        self._told: tuple[Problem, ...] = ()
        self._relevant: tuple[Problem, ...] = ()
        self._guarded = False

    def of(
        self, rows: tuple[Problem, ...], workers: Iterable[PodWorker], *, guarded: bool
    ) -> tuple[Problem, ...]:
        """The rows as they are true of the pods, where the guard acts if ``guarded``; the same object while
        nothing is another."""
        if rows is not self._rows or guarded is not self._guarded:
            self._lacking = frozenset(row for row in rows if row.code is ProblemCode.UNMET)
            self._rows, self._guarded = rows, guarded
            self._told = self._relevant = as_guarded(rows, acts=guarded)
            self._running = frozenset()
        if not self._lacking:
            return self._told
        running = self._lacking & _of_running(workers)
        if running != self._running:
            self._running = running
            self._told = tuple(
                replace(row, hint=RUNS_ON) if row in running else row for row in self._relevant
            )
        return self._told


def as_guarded(rows: tuple[Problem, ...], *, acts: bool) -> tuple[Problem, ...]:
    """The rows without those that the guard makes untrue where it ``acts``; the same object if there are none."""
    kept = tuple(row for row in rows if row.code is not ProblemCode.UNGUARDED)
    return kept if acts and len(kept) < len(rows) else rows


def _of_running(workers: Iterable[PodWorker]) -> frozenset[Problem]:
    """The problems of the pods that run."""
    return frozenset(
        row
        for worker in workers
        if worker.phase is WorkerPhase.RUNNING and worker.desired and worker.desired.spec.unmet
        for row in worker.desired.spec.problems
    )
