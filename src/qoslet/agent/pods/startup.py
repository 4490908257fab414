"""Starts pods: creates and writes their cgroups, provides volumes, starts containers.

The same pass keeps the cgroups of running pods true.
"""

from __future__ import annotations

from collections.abc import Sequence

from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import LEFTOVER_BACKOFF, PodWorker
from qoslet.agent.state.step_results import BatchResult, CgroupDiff
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.tree_owner import advice
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.resize import resize_phases
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.errors import QosletError

START_SECONDS = 0.5
"""Seconds of one sync in which further pods are started; the others follow in the next one."""
FIRST_PODS = 4
"""Pods that are started at once to see how long one takes."""


class PodStartup:
    """Starts as many pods as one sync has time for, and maintains all, in few batches of steps."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context

    def sync(self, workers: Sequence[PodWorker], blocked: set[str]) -> list[PodWorker]:
        """Make the cgroups of these pods true and start the pending ones. ``blocked`` are cgroups
        that could not be created, so nothing can be created in them. Returns the pods that were
        started.

        Once the starts have taken ``START_SECONDS``, the rest is due in the next sync: the guard
        gets its turn in between."""
        context = self._context
        pending = [worker for worker in workers if worker.phase is WorkerPhase.PENDING]
        others = [worker for worker in workers if worker.phase is not WorkerPhase.PENDING]
        begun = context.now
        started = self._sync_batch([*others, *pending[:FIRST_PODS]], blocked)
        done = FIRST_PODS
        while done < len(pending):
            spent = context.now - begun
            if spent >= START_SECONDS:
                for worker in pending[done:]:
                    context.wake_in(worker.uid, 0.0)
                break
            # as many as the time left is enough for, at the pace so far
            fit = int((START_SECONDS - spent) * done / spent) if spent else len(pending)
            batch = pending[done : done + max(1, fit)]
            started += self._sync_batch(batch, blocked)
            done += len(batch)
        return started

    def _sync_batch(self, workers: Sequence[PodWorker], blocked: set[str]) -> list[PodWorker]:
        """Make the cgroups of these pods true, in one batch, and start the pending ones."""
        context = self._context
        free = [worker for worker in workers if not self._is_blocked(worker, blocked)]
        if not free:
            return []
        groups = [one for worker in free for one in self._existing(worker)]
        diff = context.executor.diff(context.node, groups)
        owners = {
            one.path: worker.uid for worker in free for one in worker.placed_cgroups if one.path
        }
        ready = [worker for worker in free if not self._is_obstructed(worker, diff)]
        names = {worker.uid for worker in ready}

        def owner_of(step: Step) -> str:
            return owners.get(step.path, "")

        steps = [step for step in self._steps(ready, diff, owners) if owner_of(step) in names]
        batch = context.executor.perform(steps, owner_of)
        self._log(diff, batch)
        return [worker for worker in ready if self._finish(worker, batch, diff, owners)]

    def _existing(self, worker: PodWorker) -> Sequence[Cgroup]:
        """The pod's cgroups that qoslet creates or writes: all but those that the runtime has yet to create,
        or that it put where nothing of ours is. Of a kept pod whose manifest cannot be read, so that its
        values are not known, only the absent ones."""
        if worker.desired is None:
            identity = self._context.executor.observer.identity
            return [one for one in worker.existing_cgroups if one.path and not identity(one.path)]
        return (
            *worker.existing_cgroups,
            *self._context.executor.runtime_cgroups.among(worker.placed_cgroups),
        )

    def maintain(self, workers: Sequence[PodWorker]) -> None:
        """Write what differs in the cgroups of these pods, which terminate; nothing is created."""
        executor = self._context.executor
        diff = executor.diff(
            self._context.node, [one for worker in workers for one in worker.cgroups]
        )
        rows = [
            row for row in diff.differences if row.verdict == "differs" and row.path in diff.cgroups
        ]
        if rows:
            owners = {
                one.path: worker.uid for worker in workers for one in worker.cgroups if one.path
            }
            steps = executor.order_phases([rows], diff.cgroups)
            batch = executor.perform(steps, lambda step: owners.get(step.path, ""))
            log = self._context.log
            log.differences += len(rows)
            log.outcomes += batch.outcomes
            log.errors += batch.failed.values()

    def _is_blocked(self, worker: PodWorker, blocked: set[str]) -> bool:
        """Whether the pod has to wait: for an earlier pod of its name, for a ConfigMap or Secret, or
        for a cgroup above its own that could not be created."""
        context = self._context
        before = context.predecessor(worker) if worker.phase is WorkerPhase.PENDING else None
        if before is not None:
            message = f"{worker.key}: waiting for pod {before} of the same name to terminate"
            worker.set_reason("PodBefore", message, context.clock.wall())
            return True
        if worker.phase is WorkerPhase.PENDING and worker.desired and worker.desired.spec.unmet:
            lacks = worker.desired.spec.unmet[0]
            worker.set_reason(lacks.reason, lacks.message, context.clock.wall())
            return True
        if not any(is_at_or_below(path, one) for path in worker.top_cgroups for one in blocked):
            return False
        message = f"{worker.key}: waiting for the parent cgroup, which could not be created"
        worker.set_reason("FailedToCreatePodContainer", message, context.clock.wall())
        context.wake_in(worker.uid, context.config.retry_backoff.first)
        return True

    def _is_obstructed(self, worker: PodWorker, diff: CgroupDiff) -> bool:
        """Whether another process has a cgroup where the pod's is to be, or one of its containers'
        cgroups holds processes that nobody started."""
        for path in (one.path for one in worker.cgroups):
            if path in diff.foreign:
                self._context.fail(
                    worker,
                    "GroupNotOurs",
                    f"{path}: another process created this cgroup: it is not in the journal ({advice(self._context.config.root, diff.foreign)})",
                )
                return True
        if worker.phase is not WorkerPhase.PENDING:
            return False
        taken = [
            p
            for p in worker.container_cgroups.values()
            if p in diff.cgroups and diff.cgroups[p].pids
        ]
        return any(self._has_leftovers(worker, path, diff.cgroups[path].pids) for path in taken)

    def _has_leftovers(self, worker: PodWorker, path: str, pids: Sequence[int]) -> bool:
        """Whether leftover processes are still in a container's cgroup; they are killed."""
        context = self._context
        context.log.notes.append(
            f"{path}: killed leftover {context.killer.describe_processes(path, pids)}"
        )
        try:
            if context.killer.kill(path):
                return False
        except (QosletError, OSError) as error:
            context.fail(worker, "ProcessesLeft", f"{path}: {error}")
            return True
        context.retry_later(
            worker,
            "ProcessesLeft",
            f"{path}: waiting for leftover processes to exit",
            LEFTOVER_BACKOFF,
        )
        return True

    def _steps(
        self, workers: Sequence[PodWorker], diff: CgroupDiff, owners: dict[str, str]
    ) -> Sequence[Step]:
        """The steps in their order: those of a resize go pod by pod, in a kubelet's order."""
        resizing = {worker.uid: worker for worker in workers if worker.resize_state == "InProgress"}
        if not resizing:
            return diff.steps
        plain: list[Difference] = []
        own: dict[str, list[Difference]] = {}
        for row in diff.differences:
            uid = owners.get(row.path, "")
            (own.setdefault(uid, []) if uid in resizing else plain).append(row)
        steps = self._context.executor.order_phases([plain], diff.cgroups)
        for uid, rows in own.items():
            steps += self._context.executor.order_phases(
                resize_phases(rows, resizing[uid].top_cgroups), diff.cgroups
            )
        return steps

    def _log(self, diff: CgroupDiff, batch: BatchResult) -> None:
        log = self._context.log
        log.differences += len(diff.differences)
        log.outcomes += batch.outcomes
        log.waiting += [one.describe() for one in diff.waiting]

    def _finish(
        self, worker: PodWorker, batch: BatchResult, diff: CgroupDiff, owners: dict[str, str]
    ) -> bool:
        """Take in what became of a pod's cgroups; returns whether it was started."""
        context = self._context
        wrong = batch.failed.get(worker.uid)
        if wrong is not None:
            up = worker.phase is WorkerPhase.PENDING
            reason = "FailedToCreatePodContainer" if up else "FailedToWriteGroup"
            context.fail(worker, reason, wrong)
            return False
        if worker.resize_state == "InProgress":
            self._check_resize_done(worker, batch, diff, owners)
        if worker.phase is not WorkerPhase.PENDING:
            if worker.retries:
                worker.enter_phase(worker.phase, context.clock.wall())
            return False
        return self._start(worker)

    def _check_resize_done(
        self, worker: PodWorker, batch: BatchResult, diff: CgroupDiff, owners: dict[str, str]
    ) -> None:
        """Finish a resize, or note what it waits for."""
        context = self._context
        waits = [one.describe() for one in diff.waiting if owners.get(one.path) == worker.uid]
        waits += [
            f"{one.step.describe()}: write in progress"
            for one in batch.outcomes
            if one.pending and owners.get(one.step.path) == worker.uid
        ]
        waits += [one.not_updated for one in worker.container_states if one.not_updated]
        if waits:
            worker.resize_reason = "; ".join(waits)
            context.wake_in(worker.uid, context.config.retry_backoff.first)
            return
        worker.resize_state, worker.resize_reason = "Done", ""
        worker.set_reason("", "", context.clock.wall())

    def _start(self, worker: PodWorker) -> bool:
        """Provide the volumes and start the containers."""
        context = self._context
        assert worker.desired is not None
        try:
            spec = context.ready_spec(worker)
        except (QosletError, OSError) as error:
            context.fail(worker, "FailedMount", f"volumes of {worker.key}: {error}")
            return False
        try:
            context.runtime.start(spec, worker.container_cgroups)
        except (QosletError, OSError) as error:
            context.fail(worker, "StartError", f"starting {worker.key}: {error}")
            return False
        worker.spec_digest, worker.grace_seconds = spec.digest(), worker.desired.grace_seconds
        worker.enter_phase(WorkerPhase.RUNNING, context.clock.wall())
        return True
