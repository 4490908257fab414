"""Terminates pods: stops their containers, removes their volumes and cgroups, forgets them."""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.agent.state.pod_phases import WorkerPhase, enter
from qoslet.agent.state.pod_worker import LEFTOVER_BACKOFF, PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError

VOLUME_SECONDS = 0.2
"""Between two looks at volumes that are being removed."""
LIFT_SECONDS, LIFT_AGAIN_SECONDS = 1.0, 10.0
"""After how long a pod that does not end is looked at for what holds it back, and the longest time
between two looks: the second is as long after the first, which tells what stays frozen."""


class PodTeardown:
    """Terminates pods. ``last_observed`` keeps the last observation of terminated pods' cgroups."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self.last_observed: dict[str, ObservedCgroup] = {}
        self.freeing: set[str] = set()
        """UIDs of pods whose volumes are still being removed."""
        self._lifts: dict[str, tuple[float, float]] = {}
        """By UID, when to look at what holds back a pod that ends."""

    def stop(self, worker: PodWorker, grace: float | None = None) -> None:
        """Ask the pod's containers to stop within ``grace`` seconds, by default its own."""
        stop(self._context, worker, grace)

    def sync(self, worker: PodWorker) -> bool:
        """Go on as far as possible now; returns whether the pod's cgroups went with this sync."""
        context = self._context
        if worker.phase is WorkerPhase.TERMINATING:
            if self._has_ended(worker):
                self._lifts.pop(worker.uid, None)
                context.terminating.discard(worker.uid)
                worker.enter_phase(WorkerPhase.CLEANING_UP, context.clock.wall())
            else:
                self._lift(worker)
        if (
            worker.phase not in (WorkerPhase.CLEANING_UP, WorkerPhase.TERMINATED)
            or worker.cleanup_done
            or worker.in_backoff(context.now)
        ):
            return False
        if not self._remove_volumes(worker) or not self._remove_cgroups(worker):
            return False
        worker.cleanup_done = True
        worker.clear_backoff()
        worker.set_reason("", "", context.clock.wall())
        return True

    def _has_ended(self, worker: PodWorker) -> bool:
        """Whether the runtime says that no container runs and none will be started."""
        try:
            kept = self._context.runtime_pods().get(worker.uid)
        except (QosletError, OSError) as error:
            self._context.fail(worker, "KillFailed", f"stopping {worker.key}: {error}")
            return False
        return kept is None or kept.ended

    def _lift(self, worker: PodWorker) -> None:
        """Lift what holds back a pod that takes long to end."""
        context, now = self._context, self._context.now
        begun, due = self._lifts.setdefault(worker.uid, (now, now + LIFT_SECONDS))
        if now >= due:
            grace = worker.grace_seconds if worker.stop_seconds is None else worker.stop_seconds
            overdue = now >= begun + grace + LIFT_SECONDS
            for top in worker.top_cgroups:
                context.log.notes += context.killer.lift(top, overdue=overdue)
            worker.not_ended = self._what_remains(worker) if overdue else ""
            due = now + min(max(now - begun, LIFT_SECONDS), LIFT_AGAIN_SECONDS)
            self._lifts[worker.uid] = begun, due
        context.wake_in(worker.uid, due - now)

    def _what_remains(self, worker: PodWorker) -> str:
        """What of a pod has not ended though it should have."""
        observer, killer = self._context.executor.observer, self._context.killer
        for top in worker.top_cgroups:
            seen = observer.observe(top, values=False).cgroups
            pids = sorted({pid for one in seen.values() for pid in one.pids or ()})
            if pids:
                return f"{top}: {killer.describe_processes(top, pids, killed=True)} has not ended"
        return "no process of it is left, and its runtime does not say that it ended"

    def _remove_volumes(self, worker: PodWorker) -> bool:
        """Remove the pod's volumes; False while that goes on or fails."""
        self.freeing.discard(worker.uid)
        try:
            gone = self._context.volumes.remove(worker.uid)
        except (QosletError, OSError) as error:
            self._context.fail(worker, "VolumeInUse", f"volumes of {worker.key}: {error}")
            return False
        if not gone:
            self.freeing.add(worker.uid)
            self._context.wake_in(worker.uid, VOLUME_SECONDS)
        return gone

    def _remove_cgroups(self, worker: PodWorker) -> bool:
        """Remove the pod's cgroups with all below them, once they are empty. Those that another
        process made where a pod was to start stay, with what is in them."""
        context, executor = self._context, self._context.executor
        below: dict[str, ObservedCgroup] = {}
        tops = []
        for top in worker.top_cgroups:
            seen = executor.observer.observe(top, values=False).cgroups
            started = bool(worker.container_states)
            if started or (top in seen and executor.is_owned(top, seen[top].identity)):
                tops.append(top)
                below |= seen
        taken = {path: one.pids for path, one in below.items() if one.pids}
        if taken:
            return self._kill_leftovers(worker, tops, taken)
        if worker.phase is WorkerPhase.TERMINATED:
            looks = (
                executor.observer.read_cgroup(path) for path in worker.container_cgroups.values()
            )
            self.last_observed |= {one.path: one for one in looks if one is not None}
        steps = [
            Step("remove", path, why="its pod has terminated") for path in deepest_first(below)
        ]
        batch = executor.perform(steps, lambda step: worker.uid)
        context.log.outcomes += batch.outcomes
        wrong = batch.failed.get(worker.uid)
        if wrong is not None:
            context.fail(worker, "FailedToRemoveGroup", wrong)
        return wrong is None

    def _kill_leftovers(
        self, worker: PodWorker, tops: Iterable[str], taken: dict[str, tuple[int, ...]]
    ) -> bool:
        """Kill what is still in the pod's cgroups though its containers ended. Returns False: not
        done yet."""
        context = self._context
        path = min(taken, key=len)
        who = context.killer.describe_processes(path, taken[path])
        message = f"{path}: killed {who}, which was still in it"
        try:
            for top in tops:
                context.killer.kill(top)
        except (QosletError, OSError) as error:
            context.fail(worker, "ProcessesLeft", f"{path}: {error}")
            return False
        context.retry_later(worker, "ProcessesLeft", message, LEFTOVER_BACKOFF)
        return False

    def finish(self, worker: PodWorker) -> None:
        """Decide what follows once the pod's cgroups are gone."""
        context = self._context
        if worker.desired is not None and not worker.restart_pending:
            enter(worker, WorkerPhase.TERMINATED)
            context.drop_from_plan(worker.uid)
            return
        # it may have ended by itself before the runtime could stop it for a restart
        enter(worker, WorkerPhase.CLEANING_UP)
        try:
            context.runtime.remove_pod(worker.uid)
        except (QosletError, OSError) as error:
            context.fail(worker, "KillFailed", f"forgetting {worker.key}: {error}")
            return
        for path in worker.container_cgroups.values():
            self.last_observed.pop(path, None)
        if worker.desired is None:
            context.drop_from_plan(worker.uid)
            context.remove_worker(worker)
            return
        worker.restart_pending = worker.cleanup_done = worker.failed = False
        worker.eviction_reason = ("", "")
        worker.resize_state, worker.resize_reason = "", ""
        context.set_container_states(worker, ())
        if worker.key != worker.desired.pod.key:
            context.rename(worker, worker.desired.pod.key)
        if not worker.desired.spec.runnable:
            context.drop_from_plan(worker.uid)
            worker.plan(worker.desired.pod, worker.qos, ())
            worker.enter_phase(WorkerPhase.REJECTED, context.clock.wall())
            context.rejected.add(worker.uid)
            return
        found = context.plan.add(worker.desired.pod)
        if found.refused is not None:
            worker.plan(found.pod, found.qos, ())
            worker.enter_phase(WorkerPhase.REJECTED, context.clock.wall())
            worker.set_reason(found.refused.reason, found.refused.message, context.clock.wall())
            context.rejected.add(worker.uid)
            return
        worker.plan(found.pod, found.qos, found.groups)
        context.start_pending(worker)


def stop(context: SyncContext, worker: PodWorker, grace: float | None = None) -> None:
    """Ask a pod's containers to stop within ``grace`` seconds, by default its own. A stop that the
    runtime refuses is repeated after a back-off."""
    if worker.phase is WorkerPhase.CLEANING_UP:
        context.work_queue.add(worker.uid)
        return
    if worker.phase in (WorkerPhase.REJECTED, WorkerPhase.PENDING, WorkerPhase.TERMINATED):
        worker.enter_phase(WorkerPhase.CLEANING_UP, context.clock.wall())
        context.work_queue.add(worker.uid)
        return
    within = worker.grace_seconds if grace is None else grace
    worker.stop_seconds = grace
    try:
        context.runtime.stop(worker.uid, within)
    except (QosletError, OSError) as error:
        worker.refused_stop_seconds = within
        context.fail(worker, "KillFailed", f"stopping {worker.key}: {error}")
        return
    worker.refused_stop_seconds = None
    if worker.phase is not WorkerPhase.TERMINATING:
        worker.enter_phase(WorkerPhase.TERMINATING, context.clock.wall())
    context.terminating.add(worker.uid)
    context.work_queue.add(worker.uid)


def deepest_first(paths: Iterable[str]) -> list[str]:
    """Cgroups, those below others first."""
    return sorted(paths, key=lambda path: (-path.count("/"), path))
