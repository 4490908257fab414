"""The end of a run: stop every pod, remove our cgroups, give values of others back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qoslet.agent.pods.teardown import deepest_first
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.lifecycle import Patience
from qoslet.errors import QosletError

POLL_SECONDS = 0.05
"""Time between two checks of what is terminating."""

KILL_SECONDS = 30.0
"""How long after its grace period a pod may take to die: a process in uninterruptible sleep, or one
in a cgroup that somebody froze, may never."""


def end(
    reconciler: Reconciler,
    hurry: Callable[[], bool],
    undo: Callable[[], list[str]] = list,
    log: Callable[[str], None] = lambda line: None,
    ending: Callable[[], None] = lambda: None,
) -> list[str]:
    """Stop all pods and remove our cgroups below the root. Returns what is left, a sentence each.

    ``hurry`` is asked on the way: once true, grace periods end at once. ``undo`` restores values in
    cgroups of others and returns what it could not. ``log`` takes, once each, what keeps pods from
    ending. ``ending`` is called after each look at them.
    """
    context = reconciler.context
    if context.desired is None:
        return []
    hurried = False
    deadline: float | None = None
    logged: set[str] = set()
    grace = max((one.grace_seconds for one in context.workers.values()), default=0.0)
    patience = Patience(grace, KILL_SECONDS, context.now)
    for worker in context.workers.values():
        worker.restart_pending = False
    while context.workers and patience.lasts(_running(context.workers), context.now):
        if hurry() and not hurried:
            hurried = True
            patience.hurry(context.now)
            for worker in context.workers.values():
                if worker.phase is WorkerPhase.TERMINATING:
                    reconciler.teardown.stop(worker, 0.0)
        reconciler.drain()
        _log_new({*context.log.notes, *context.log.errors}, logged, log)
        ending()
        if reconciler.teardown.freeing:
            deadline = None
        elif context.workers and not reconciler.count_in(WorkerPhase.TERMINATING):
            # nothing but removals are left, which are over within moments or not at all
            deadline = deadline or context.now + context.config.removal_seconds
            if context.now >= deadline:
                break
        if context.workers:
            context.clock.sleep(POLL_SECONDS)
    wrong = [_what_is_left(worker) for worker in context.workers.values()]
    try:
        return wrong + _remove_all(reconciler) + undo()
    except (QosletError, OSError) as error:
        return [*wrong, str(error)]


def _running(workers: Mapping[str, PodWorker]) -> int:
    """How many containers and pods are still there."""
    states = (state for worker in workers.values() for state in worker.container_states)
    return len(workers) + sum(state.running for state in states)


def _log_new(lines: set[str], logged: set[str], log: Callable[[str], None]) -> None:
    """Log lines that were not logged yet."""
    for line in sorted(lines - logged):
        logged.add(line)
        log(line)


def _what_is_left(worker: PodWorker) -> str:
    """Why a pod is still there."""
    if worker.phase is WorkerPhase.TERMINATING:
        return f"{worker.key}: its processes do not die"
    return worker.message or f"{worker.key} is {worker.phase.value}"


def _remove_all(reconciler: Reconciler) -> list[str]:
    """Remove the cgroups below the root, children first; busy ones are tried again."""
    context, executor = reconciler.context, reconciler.context.executor
    deadline = context.now + context.config.removal_seconds
    while True:
        seen = executor.observer.observe(executor.root, values=False).cgroups
        ours = [path for path, one in seen.items() if executor.is_owned(path, one.identity)]
        wrong = [
            failed
            for path in deepest_first(ours)
            for failed in executor.perform(
                [Step("remove", path, why="the run ends")]
            ).failed.values()
        ]
        if not wrong or context.now >= deadline:
            return wrong
        context.clock.sleep(POLL_SECONDS)
