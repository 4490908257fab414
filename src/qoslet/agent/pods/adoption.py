"""Adopts the pods of an earlier agent: they go on where they are right, and stay while nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Collection

from qoslet.agent.pods.manifest_reasons import no_longer, why_kept
from qoslet.agent.pods.pod_changes import PodChanges, why_replaced
from qoslet.agent.pods.resize import PodResizer
from qoslet.agent.pods.teardown import VOLUME_SECONDS, PodTeardown
from qoslet.agent.ports import DesiredPod, DesiredState
from qoslet.agent.state.pod_phases import WorkerPhase, enter
from qoslet.agent.state.pod_worker import PodWorker, adopted_worker, never_restarts
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.reconcile.resize import allocated_pod, decode_allocation, resizable_fields
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.errors import QosletError


class Adoption:
    """Turns what the runtime kept into pods of this agent. ``on_desired`` and ``on_gone`` take in
    one whose manifest is known at last."""

    def __init__(
        self,
        context: SyncContext,
        teardown: PodTeardown,
        resizer: PodResizer,
        changes: PodChanges,
        on_desired: Callable[[str, DesiredPod], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._context = context
        self._teardown = teardown
        self._resizer = resizer
        self._changes = changes
        self._on_desired = on_desired
        self._on_gone = on_gone
        self._edited_while_away: list[PodWorker] = []

    def adopt_all(self, desired: DesiredState) -> None:
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

    def decide_kept(self, desired: DesiredState) -> None:
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
                self._on_gone(worker.uid)
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
            self._on_desired(worker.uid, desired_pod)
            return
        runtime_pod = self._context.runtime.list_pods().get(worker.uid)
        if runtime_pod is None:
            self._context.remove_worker(worker)
        else:
            self._adopt(worker, runtime_pod, desired_pod)

    def _keep_or_stop(
        self, worker: PodWorker, runtime_pod: RuntimePod, desired: DesiredState
    ) -> None:
        """Stop a pod of an earlier agent that no manifest has, unless its manifest may have it and
        cannot be read: then it stays as it is. It counts until its cgroups are gone."""
        pod = allocated_pod(worker.key, worker.uid, runtime_pod.roles, runtime_pod.allocation)
        if pod is not None and not runtime_pod.ended:
            worker.pod = pod
            self._changes.plan_as_running(worker, pod)
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
                self._changes.plan_as_running(worker, old)
            self._changes.reject(worker, desired_pod)
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
        replaced = why_replaced(worker, desired_pod)
        if runtime_pod.ended:
            worker.container_cgroups, worker.top_cgroups = places
            if replaced:
                self._changes.restart(worker, replaced)
                return
            enter(worker, WorkerPhase.TERMINATED)
            return
        if not moved and not replaced:
            self._edited_while_away += [worker] if edited else []
            return
        worker.container_cgroups, worker.top_cgroups = places
        if not replaced and never_restarts(desired_pod.spec):
            self._changes.fail(worker)
            return
        self._changes.restart(worker, replaced or "it runs outside its cgroup")

    def _adopt_terminating(
        self, worker: PodWorker, runtime_pod: RuntimePod, desired_pod: DesiredPod, moved: bool
    ) -> None:
        """Adopt a kept pod that is desired and was asked to stop by an earlier agent."""
        replaced = why_replaced(worker, desired_pod)
        if replaced or not (moved and never_restarts(desired_pod.spec)):
            self._changes.restart(worker, replaced or "it was already stopping")
        elif runtime_pod.ended:
            enter(worker, WorkerPhase.TERMINATED)
            worker.failed = True
        else:
            self._changes.fail(worker)

    def _resize_edited(self) -> None:
        """Resize adopted pods that were edited while no agent knew: judged by what all pods have."""
        edited, self._edited_while_away = self._edited_while_away, []
        for worker in edited:
            self._resizer.request(worker)
