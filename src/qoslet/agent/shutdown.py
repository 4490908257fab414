"""The end of a run: stop every pod, remove our cgroups, give values of others back."""

from __future__ import annotations

from collections.abc import Callable

from qoslet.agent.pods.teardown import deepest_first
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError

POLL_SECONDS = 0.05
"""Time between two checks of what is terminating."""


def end(
    reconciler: Reconciler, hurry: Callable[[], bool], undo: Callable[[], list[str]] = list
) -> list[str]:
    """Stop all pods and remove our cgroups below the root. Returns what is left, a sentence each.

    ``hurry`` is asked on the way: once true, grace periods end at once. ``undo`` restores values in
    cgroups of others and returns what it could not.
    """
    context = reconciler.context
    if context.desired is None:
        return []
    hurried = False
    deadline: float | None = None
    for worker in context.workers.values():
        worker.restart_pending = False
    while context.workers:
        if hurry() and not hurried:
            hurried = True
            for worker in context.workers.values():
                if worker.phase is WorkerPhase.TERMINATING:
                    reconciler.teardown.stop(worker, 0.0)
        reconciler.drain()
        left = [
            worker
            for worker in context.workers.values()
            if worker.phase is not WorkerPhase.TERMINATING
        ]
        if reconciler.teardown.freeing:
            deadline = None
        elif context.workers and len(left) == len(context.workers):
            # nothing but removals are left, which are over within moments or not at all
            deadline = deadline or context.now + context.config.removal_seconds
            if context.now >= deadline:
                break
        if context.workers:
            context.clock.sleep(POLL_SECONDS)
    wrong = [
        worker.message or f"{worker.key} is {worker.phase.value}"
        for worker in context.workers.values()
    ]
    try:
        return wrong + _remove_all(reconciler) + undo()
    except (QosletError, OSError) as error:
        return [*wrong, str(error)]


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
