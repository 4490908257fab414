"""Takes in the desired state: pods that came, changed or went become due work."""

from __future__ import annotations

from collections.abc import Collection

from qoslet.agent.pods.manifest_reasons import no_longer, why_kept
from qoslet.agent.pods.resize import PodResizer
from qoslet.agent.pods.teardown import VOLUME_SECONDS, PodTeardown
from qoslet.agent.ports import DesiredPod, DesiredState
from qoslet.agent.state.pod_phases import WorkerPhase, enter
from qoslet.agent.state.pod_worker import PodWorker, adopted_worker, container_paths, never_restarts
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.api.pod import Pod
from qoslet.core.reconcile.resize import allocated_pod, decode_allocation, resizable_fields
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.errors import QosletError


class Admission:
    """Turns changes of the desired state into phases of pods."""

    def __init__(self, context: SyncContext, teardown: PodTeardown, resizer: PodResizer) -> None:
        self._context = context
        self._teardown = teardown
        self._resizer = resizer
        self._version: int | None = None
        self._adopted = False
        self._edited_while_away: list[PodWorker] = []

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
            self._decide_kept(desired)
            for uid in sorted(desired.changed & desired.pods.keys()):
                self._desired(uid, desired.pods[uid])
        return False

    def _admit_all(self, desired: DesiredState) -> None:
        """Take in the first desired state, or one on another node configuration."""
        context = self._context
        if not self._adopted:
            self._adopt_all(desired)
        self._decide_kept(desired)
        for uid in (context.workers.keys() | desired.removed) - desired.pods.keys():
            if uid not in context.kept:
                self._not_desired(uid)
        for uid, desired_pod in desired.pods.items():
            self._desired(uid, desired_pod)
        for worker in context.workers.values():
            if worker.pod is not None and worker.cgroups and not worker.cleanup_done:
                self._plan_as_running(worker, worker.pod)

    def _plan_as_running(self, worker: PodWorker, pod: Pod) -> None:
        """Plan on this node a pod that has cgroups and is not desired as it is: it terminates, or
        its edit was rejected. It counts until its cgroups are gone."""
        live, places = self._context.plan, (worker.container_cgroups, worker.top_cgroups)
        if worker.uid in live:
            return
        found = live.add(pod)
        if found.refused is None:
            worker.plan(found.pod, found.qos, found.groups)
        if worker.container_cgroups != places[0]:
            worker.container_cgroups, worker.top_cgroups = places
            worker.cgroups = ()
        if found.refused is not None or not worker.cgroups:
            live.remove(worker.uid)

    def _adopt_all(self, desired: DesiredState) -> None:
        """Adopt the pods that the runtime kept from an earlier agent."""
        context = self._context
        wall = context.clock.wall()
        runtime_pods = context.runtime.list_pods()
        self._remove_stale_volumes(runtime_pods.keys())
        for uid, runtime_pod in runtime_pods.items():
            worker = adopted_worker(runtime_pod, wall)
            context.add_worker(worker)
            desired_pod = desired.pods.get(uid)
            if desired_pod is not None:
                self._adopt(worker, runtime_pod, desired_pod)
            else:
                self._keep_or_stop(worker, runtime_pod, desired)
        self._resize_edited()
        self._adopted = True

    def _resize_edited(self) -> None:
        """Resize adopted pods that were edited while no agent knew: judged by what all pods have."""
        edited, self._edited_while_away = self._edited_while_away, []
        for worker in edited:
            self._resizer.request(worker)

    def _keep_or_stop(
        self, worker: PodWorker, runtime_pod: RuntimePod, desired: DesiredState
    ) -> None:
        """Stop a pod of an earlier agent that no manifest has, unless its manifest may have it and
        cannot be read: then it stays as it is. It counts until its cgroups are gone."""
        pod = allocated_pod(worker.key, worker.uid, runtime_pod.roles, runtime_pod.allocation)
        if pod is not None and not runtime_pod.ended:
            worker.pod = pod
            self._plan_as_running(worker, pod)
        if runtime_pod.terminating:
            self._teardown.stop(worker)
            return
        names = {one.pod.key for one in desired.pods.values()}
        message = "" if worker.key in names else why_kept(worker.key, runtime_pod.manifest, desired)
        if not message:
            self._log_stop(worker, runtime_pod.manifest, desired)
            self._teardown.stop(worker)
            return
        worker.kept_manifest = runtime_pod.manifest
        self._context.kept.add(worker.uid)
        if runtime_pod.ended:
            enter(worker, WorkerPhase.TERMINATED)
        worker.set_reason("ManifestUnread", message, self._context.clock.wall())
        self._context.log.notes.append(f"{worker.key}: {message}")

    def _log_stop(self, worker: PodWorker, manifest: str, desired: DesiredState) -> None:
        """Log why a pod of an earlier agent ends."""
        why = no_longer(worker.key, manifest, desired)
        self._context.log.notes.append(f"{worker.key}: {why}: stopping it")

    def _decide_kept(self, desired: DesiredState) -> None:
        """Go on with the pods that were kept though nobody knew whether they are desired, as far as
        that is known now."""
        context = self._context
        names = {one.pod.key for one in desired.pods.values()} if context.kept else set()
        for worker in [context.workers[uid] for uid in sorted(context.kept)]:
            desired_pod = desired.pods.get(worker.uid)
            manifest = worker.kept_manifest or ""
            if desired_pod is not None:
                self._decided(worker)
                worker.set_reason("", "", context.clock.wall())
                self._adopt_kept(worker, desired_pod)
            elif worker.key in names or not (why := why_kept(worker.key, manifest, desired)):
                self._log_stop(worker, manifest, desired)
                self._decided(worker)
                self._not_desired(worker.uid)
            else:
                worker.set_reason("ManifestUnread", why, context.clock.wall())
        self._resize_edited()

    def _decided(self, worker: PodWorker) -> None:
        """It is known whether a kept pod is desired."""
        worker.kept_manifest = None
        self._context.kept.discard(worker.uid)

    def _adopt_kept(self, worker: PodWorker, desired_pod: DesiredPod) -> None:
        """Adopt a pod that turned out to be desired."""
        if worker.phase not in (WorkerPhase.RUNNING, WorkerPhase.TERMINATED):
            self._desired(worker.uid, desired_pod)
            return
        runtime_pod = self._context.runtime.list_pods().get(worker.uid)
        if runtime_pod is None:
            self._context.remove_worker(worker)
        else:
            self._adopt(worker, runtime_pod, desired_pod)

    def _remove_stale_volumes(self, runtime_pods: Collection[str]) -> None:
        """Remove volumes of desired pods that were not started: they may want others. Those of
        other pods are orphans."""
        context = self._context
        desired_pod = context.desired.pods if context.desired is not None else {}
        try:
            for uid in context.volumes.existing():
                if uid in desired_pod and uid not in runtime_pods:
                    while not context.volumes.remove(uid):
                        context.clock.sleep(VOLUME_SECONDS)
        except (QosletError, OSError) as error:
            context.log.errors.append(f"volumes: {error}")

    def _adopt(self, worker: PodWorker, runtime_pod: RuntimePod, desired_pod: DesiredPod) -> None:
        """Adopt a kept pod that is desired: it goes on where it is right."""
        worker.desired = desired_pod
        if desired_pod.rejection is not None:
            if runtime_pod.ended:
                enter(worker, WorkerPhase.TERMINATED)
            else:
                old = decode_allocation(desired_pod.pod, runtime_pod.allocation)
                self._plan_as_running(worker, old)
            self._reject(worker, desired_pod)
            return
        places = dict(worker.container_cgroups), worker.top_cgroups
        old = decode_allocation(desired_pod.pod, runtime_pod.allocation)
        edited = resizable_fields(old) != resizable_fields(desired_pod.pod)
        found = self._context.plan.add(old) if edited else desired_pod.planned
        worker.plan(old, found.qos, found.groups)
        moved = (
            (worker.container_cgroups, worker.top_cgroups) != places
            if runtime_pod.top_cgroups
            else worker.container_cgroups != places[0]
        )
        if runtime_pod.terminating:
            worker.container_cgroups, worker.top_cgroups = places
            self._adopt_terminating(worker, runtime_pod, desired_pod, moved)
            return
        replaced = _why_replaced(worker, desired_pod)
        if runtime_pod.ended:
            worker.container_cgroups, worker.top_cgroups = places
            if replaced:
                self.restart(worker, replaced)
                return
            enter(worker, WorkerPhase.TERMINATED)
            return
        if not moved and not replaced:
            self._edited_while_away += [worker] if edited else []
            return
        worker.container_cgroups, worker.top_cgroups = places
        if not replaced and never_restarts(desired_pod.spec):
            self._end_as_failed(worker)
            return
        self.restart(worker, replaced or "it runs outside its cgroup")

    def _end_as_failed(self, worker: PodWorker) -> None:
        """Stop a pod that may neither stay where it is nor be restarted."""
        worker.failed = True
        self._context.log.notes.append(
            f"{worker.key} runs outside its cgroup and cannot restart (restartPolicy Never): failing it"
        )
        self._teardown.stop(worker)

    def _adopt_terminating(
        self, worker: PodWorker, runtime_pod: RuntimePod, desired_pod: DesiredPod, moved: bool
    ) -> None:
        """Adopt a kept pod that is desired and was asked to stop by an earlier agent."""
        replaced = _why_replaced(worker, desired_pod)
        if replaced or not (moved and never_restarts(desired_pod.spec)):
            self.restart(worker, replaced or "it was already stopping")
        elif runtime_pod.ended:
            enter(worker, WorkerPhase.TERMINATED)
            worker.failed = True
        else:
            self._end_as_failed(worker)

    def adopt_unknown(self, runtime_pod: RuntimePod) -> PodWorker:
        """Stop a pod that the runtime keeps and no agent here started: a request came late."""
        context = self._context
        worker = adopted_worker(runtime_pod, context.clock.wall())
        context.add_worker(worker)
        context.log.notes.append(
            f"{worker.key}: started by a previous agent and not desired: stopping it"
        )
        self._teardown.stop(worker)
        return worker

    def restart(self, worker: PodWorker, why: str) -> None:
        """Stop the pod and start what is desired now: it again, or who has its UID."""
        worker.restart_pending = True
        stays = worker.desired is None or worker.desired.pod.key == worker.key
        verb = "restarting" if stays else "stopping"
        self._context.log.notes.append(f"{worker.key}: {why}; {verb} it")
        self._teardown.stop(worker)

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
                self._reject(worker, desired_pod)
            return
        renamed = worker.key != desired_pod.pod.key
        if renamed and worker.phase is WorkerPhase.REJECTED:
            context.rename(worker, desired_pod.pod.key)
        if desired_pod.rejection is not None and worker.phase in (
            WorkerPhase.RUNNING,
            WorkerPhase.TERMINATED,
            WorkerPhase.REJECTED,
        ):
            self._reject(worker, desired_pod)
            return
        before, worker.desired = worker.desired, desired_pod
        if worker.rejected_edit:
            worker.rejected_edit = ""
            worker.set_reason("", "", context.clock.wall())
        match worker.phase:
            case WorkerPhase.TERMINATING | WorkerPhase.CLEANING_UP:
                # a pod that failed for good stays so until its processes would differ
                if before is None or not worker.failed or _why_replaced(worker, desired_pod):
                    worker.restart_pending = True
            case WorkerPhase.TERMINATED:
                if why := _why_replaced(worker, desired_pod):
                    self.restart(worker, why)
                else:
                    context.drop_from_plan(uid)
            case WorkerPhase.REJECTED:
                worker.plan(desired_pod.pod, desired_pod.planned.qos, desired_pod.planned.groups)
                context.start_pending(worker)
            case WorkerPhase.PENDING:
                self._pending_changed(worker, desired_pod)
            case WorkerPhase.RUNNING:
                self._running_changed(worker, desired_pod, is_back=before is None)

    def _reject(self, worker: PodWorker, desired_pod: DesiredPod) -> None:
        """Reject a pod that may not run here; one that was started before the edit stays as it
        is."""
        reason, message = desired_pod.rejection or ("Refused", "")
        if worker.phase in (WorkerPhase.RUNNING, WorkerPhase.TERMINATED):
            worker.rejected_edit = message
            message = f"edit rejected, the running pod is unchanged: {message}"
        else:
            enter(worker, WorkerPhase.REJECTED)
            worker.desired = desired_pod
            self._context.rejected.add(worker.uid)
        worker.set_reason(reason, message, self._context.clock.wall())

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
        if why := _why_replaced(worker, desired_pod):
            self.restart(worker, why)
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


def _why_replaced(worker: PodWorker, desired_pod: DesiredPod) -> str:
    """Why what was started must end before the pod is as desired; empty: it may go on."""
    if worker.key != desired_pod.pod.key:
        return f"{desired_pod.pod.key} has its UID now"
    changed = desired_pod.spec.digest() != worker.spec_digest
    return "its containers have changed" if changed else ""
