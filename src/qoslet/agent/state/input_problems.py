"""The problems of the input as they apply to the pods that run: a pod that runs on does not wait, and a
container that the guard helps does not stall."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.problem import Problem, ProblemCode

RUNS_ON = "add it to the input; the running pod is unchanged, a new start of the pod would wait"


class ManifestStatus:
    """Gives the problems that apply; the result is kept until its input changes."""

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
        """The rows, each as it applies to the pods of ``workers``; ``guarded`` says whether the guard acts.
        The same object is returned until something changes."""
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
