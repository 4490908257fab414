"""Resizes running pods in place: checks, allows or defers, and tells the runtime."""

from __future__ import annotations

from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.reconcile.resize import (
    ResizeDecision,
    ResizeState,
    amounts,
    check_resize,
    restarting,
)
from qoslet.core.resources.node_policy import NodePolicy, node_policy
from qoslet.core.workload.life import Backoff
from qoslet.errors import QosletError

DEFERRED_BACKOFF = Backoff(first=5.0, longest=60.0, reset_after=0.0)
"""Spaces the checks of a resize that does not fit yet; it is also checked whenever a pod goes."""
START_SECONDS = 0.1
"""Between two looks at a container whose start a resize waits for."""


class PodResizer:
    """Allocates edited resources to running pods."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._basis: tuple[Node, NodePolicy] | None = None
        self._deferred: set[str] = set()

    @property
    def policy(self) -> NodePolicy:
        """What rules need of the node."""
        node = self._context.node
        if self._basis is None or self._basis[0] is not node:
            self._basis = node, node_policy(node)
        return self._basis[1]

    def request(self, worker: PodWorker) -> None:
        """Check the edited resources of a running pod: allocate them, or let it keep what it
        has."""
        context = self._context
        assert worker.desired is not None
        assert worker.pod is not None
        desired_pod = worker.desired
        found = context.plan.add(desired_pod.pod)
        context.work_queue |= found.others
        verdict = check_resize(
            self.policy,
            (worker.pod, worker.qos),
            (desired_pod.pod, found.qos),
            self._other_requests(worker.uid),
        )
        self._deferred.discard(worker.uid)
        if verdict.state == "InProgress" and _is_being_made(worker):
            verdict = ResizeDecision("Proposed", "")
        if verdict.state != "InProgress":
            back = context.plan.add(worker.pod)
            context.work_queue |= back.others
            worker.plan(back.pod, back.qos, back.groups)
            self._set_state(worker, verdict.state, verdict.reason)
            if verdict.state != "Infeasible":
                self._deferred.add(worker.uid)
                is_short = verdict.state == "Deferred"
                context.wake_in(worker.uid, DEFERRED_BACKOFF.longest if is_short else START_SECONDS)
            return
        old = worker.pod
        worker.plan(found.pod, found.qos, found.groups)
        self._set_state(worker, "InProgress", "")
        self._update_runtime(worker, old)

    def retry_deferred(self, uid: str | None = None) -> None:
        """Check deferred resizes again: of one pod, or of all because a pod went."""
        for one in [uid] if uid is not None else sorted(self._deferred):
            worker = self._context.workers.get(one)
            if one not in self._deferred or worker is None:
                continue
            if (
                worker.phase is not WorkerPhase.RUNNING
                or worker.desired is None
                or worker.resize_state not in ("Deferred", "Proposed")
            ):
                self._deferred.discard(one)
                continue
            self.request(worker)
            self._context.work_queue.add(one)

    def _set_state(self, worker: PodWorker, state: ResizeState, reason: str) -> None:
        """Set the state of a resize; one that is not done now is logged, but for one that waits for
        a start."""
        changed = (state, reason) != (worker.resize_state, worker.resize_reason)
        if changed and state not in ("InProgress", "Proposed"):
            why = f": {reason}" if reason else ""
            self._context.log.notes.append(f"{worker.key}: resize {state}{why}")
        worker.resize_state, worker.resize_reason = state, reason

    def _other_requests(self, uid: str) -> dict[str, int]:
        """What all other pods request that count."""
        total = {"cpu": 0, "memory": 0}
        for worker in self._context.workers.values():
            if (
                worker.uid == uid
                or worker.pod is None
                or worker.phase is WorkerPhase.REJECTED
                or (worker.phase is WorkerPhase.TERMINATED and worker.cleanup_done)
            ):
                continue
            for name, amount in amounts(self.policy, worker.pod).items():
                total[name] += amount
        return total

    def _update_runtime(self, worker: PodWorker, old: Pod) -> None:
        """Let later starts use the new values; restart containers whose policy says so."""
        context = self._context
        assert worker.desired is not None
        assert worker.pod is not None
        context.update_runtime(worker)
        try:
            for name in restarting(old, worker.pod, worker.desired.spec.resize_restarts):
                context.log.notes.append(f"{worker.key}/{name}: restarted by its resizePolicy")
                context.runtime.restart(worker.uid, name)
        except (QosletError, OSError) as error:
            context.fail(worker, "RestartFailed", f"restarting {worker.key}: {error}")


def _is_being_made(worker: PodWorker) -> bool:
    """Whether a runtime is making a container of the pod, or may be: with the values that it had,
    which the kernel refuses below the new ones of the pod (``cpu.cfs_quota_us``)."""
    unseen = worker.adopted and not worker.container_states
    return unseen or any(one.starting and one.pid is None for one in worker.container_states)
