"""Takes in the desired state: pods that came, changed or went become due work."""

from __future__ import annotations

from qoslet.agent.pods.adoption import Adoption
from qoslet.agent.pods.manifest_reasons import no_longer
from qoslet.agent.pods.pod_changes import PodChanges, why_replaced
from qoslet.agent.pods.resize import PodResizer
from qoslet.agent.pods.teardown import PodTeardown
from qoslet.agent.ports import DesiredPod, DesiredState
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker, container_paths
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.reconcile.resize import resizable_fields
from qoslet.core.workload.pod_status import RuntimePod


class Admission:
    """Turns changes of the desired state into phases of pods."""

    def __init__(self, context: SyncContext, teardown: PodTeardown, resizer: PodResizer) -> None:
        self._context = context
        self._teardown = teardown
        self._resizer = resizer
        self._changes = PodChanges(context, teardown)
        self._adoption = Adoption(
            context, teardown, resizer, self._changes, self._desired, self._not_desired
        )
        self._version: int | None = None
        self._adopted = False

    def admit(self, desired: DesiredState) -> bool:
        """Take in what changed since the last call; returns whether this is another plan
        altogether."""
        context = self._context
        before = context.desired
        replanned = before is None or before.plan is not desired.plan
        context.desired = desired
        if replanned:
            self._version = desired.version
            self._admit_all(desired)
            return True
        if desired.version != self._version:
            self._version = desired.version
            for uid in desired.removed - desired.pods.keys():
                self._not_desired(uid)
            self._adoption.decide_kept(desired)
            for uid in sorted(desired.changed & desired.pods.keys()):
                self._desired(uid, desired.pods[uid])
        return False

    def _admit_all(self, desired: DesiredState) -> None:
        """Take in the first desired state, or one on another node configuration."""
        context = self._context
        if not self._adopted:
            self._adoption.adopt_all(desired)
            self._adopted = True
        self._adoption.decide_kept(desired)
        for uid in (context.workers.keys() | desired.removed) - desired.pods.keys():
            if uid not in context.kept:
                self._not_desired(uid)
        for uid, desired_pod in desired.pods.items():
            self._desired(uid, desired_pod)
        for worker in context.workers.values():
            if worker.pod is not None and worker.cgroups and not worker.cleanup_done:
                self._changes.plan_as_running(worker, worker.pod)

    def adopt_unknown(self, runtime_pod: RuntimePod) -> PodWorker:
        """Stop a pod that the runtime keeps and no agent here started: a request came late."""
        return self._adoption.adopt_unknown(runtime_pod)

    def restart(self, worker: PodWorker, why: str) -> None:
        """Stop the pod and start what is desired now: it again, or who has its UID."""
        self._changes.restart(worker, why)

    def _not_desired(self, uid: str) -> None:
        """A pod is no longer desired."""
        worker = self._context.workers.get(uid)
        if worker is None:
            # it went before it was seen
            self._context.drop_from_plan(uid)
            return
        if worker.desired is None and worker.phase in (
            WorkerPhase.TERMINATING,
            WorkerPhase.CLEANING_UP,
        ):
            return
        manifest = worker.desired.manifest if worker.desired is not None else ""
        worker.desired, worker.restart_pending = None, False
        worker.resize_state, worker.resize_reason = "", ""
        self._context.work_queue.add(uid)
        if worker.phase not in (WorkerPhase.TERMINATING, WorkerPhase.CLEANING_UP):
            self._teardown.stop(worker)
            desired = self._context.desired
            if manifest and desired is not None and uid in self._context.terminating:
                message = no_longer(worker.key, manifest, desired, desired.changed)
                self._context.report_reason(worker, "ManifestRemoved", message)

    def _desired(self, uid: str, desired_pod: DesiredPod) -> None:
        """A pod came or changed."""
        context = self._context
        context.work_queue.add(uid)
        worker = context.workers.get(uid)
        if worker is None:
            worker = PodWorker(
                uid,
                desired_pod.pod.key,
                since_wall_seconds=context.clock.wall(),
                created_wall_seconds=context.clock.wall(),
                desired=desired_pod,
            )
            worker.plan(desired_pod.pod, desired_pod.planned.qos, desired_pod.planned.groups)
            context.add_worker(worker)
            if desired_pod.rejection is not None:
                self._changes.reject(worker, desired_pod)
            return
        renamed = worker.key != desired_pod.pod.key
        if renamed and worker.phase is WorkerPhase.REJECTED:
            context.rename(worker, desired_pod.pod.key)
        if desired_pod.rejection is not None and worker.phase in (
            WorkerPhase.RUNNING,
            WorkerPhase.TERMINATED,
            WorkerPhase.REJECTED,
        ):
            self._changes.reject(worker, desired_pod)
            return
        before, worker.desired = worker.desired, desired_pod
        if worker.rejected_edit:
            worker.rejected_edit = ""
            worker.set_reason("", "", context.clock.wall())
        match worker.phase:
            case WorkerPhase.TERMINATING | WorkerPhase.CLEANING_UP:
                # a pod that failed for good stays so until its processes would differ
                if before is None or not worker.failed or why_replaced(worker, desired_pod):
                    worker.restart_pending = True
            case WorkerPhase.TERMINATED:
                if why := why_replaced(worker, desired_pod):
                    self._changes.restart(worker, why)
                else:
                    context.drop_from_plan(uid)
            case WorkerPhase.REJECTED:
                worker.plan(desired_pod.pod, desired_pod.planned.qos, desired_pod.planned.groups)
                context.start_pending(worker)
            case WorkerPhase.PENDING:
                self._pending_changed(worker, desired_pod)
            case WorkerPhase.RUNNING:
                self._running_changed(worker, desired_pod, is_back=before is None)

    def _pending_changed(self, worker: PodWorker, desired_pod: DesiredPod) -> None:
        """A pod changed before it started: what was created elsewhere is removed first."""
        if desired_pod.rejection is not None or worker.key != desired_pod.pod.key:
            self._teardown.stop(worker)
            worker.restart_pending = True
            return
        places = worker.container_cgroups, worker.top_cgroups
        worker.plan(desired_pod.pod, desired_pod.planned.qos, desired_pod.planned.groups)
        if worker.container_cgroups != places[0]:
            worker.container_cgroups, worker.top_cgroups = places
            worker.restart_pending = True
            self._teardown.stop(worker)
            return
        # what was refused may be right now
        worker.clear_backoff()

    def _running_changed(self, worker: PodWorker, desired_pod: DesiredPod, is_back: bool) -> None:
        """A running pod's manifest changed, or ``is_back`` before the pod could be stopped."""
        if why := why_replaced(worker, desired_pod):
            self._changes.restart(worker, why)
            return
        if worker.refused_stop_seconds is not None:
            worker.restart_pending |= is_back
            stays = container_paths(desired_pod.planned.groups) == worker.container_cgroups
            is_over = worker.failed or worker.eviction_reason[0]
            if not worker.restart_pending or is_over or not stays:
                return
            # what runs is wanted again before it could be stopped
            worker.restart_pending, worker.refused_stop_seconds = False, None
        if desired_pod.grace_seconds != worker.grace_seconds:
            worker.grace_seconds = desired_pod.grace_seconds
        if worker.pod is not None and resizable_fields(worker.pod) != resizable_fields(
            desired_pod.pod
        ):
            self._resizer.request(worker)
            return
        if worker.resize_state in ("Proposed", "Deferred", "Infeasible"):
            worker.resize_state, worker.resize_reason = "", ""
        worker.plan(desired_pod.pod, desired_pod.planned.qos, desired_pod.planned.groups)
        # what could not be written may be right now
        worker.retry_at = None
        self._context.update_runtime(worker)
