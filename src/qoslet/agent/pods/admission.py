"""Takes in what is wanted: pods that came, changed or went become due work, each at its own pace."""

from __future__ import annotations

from collections.abc import Collection

from qoslet.agent.pods.resize import PodResizer
from qoslet.agent.pods.teardown import PodTeardown
from qoslet.agent.ports import DesiredPod, DesiredState
from qoslet.agent.state.pod_worker import PodWorker, adopted_worker, container_paths, never_restarts
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.api.pod import Pod
from qoslet.core.reconcile.resize import decode_allocation, resizable_fields
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.errors import QosletError


class Admission:
    """Turns the desired state into stages of pods."""

    def __init__(self, context: SyncContext, falling: PodTeardown, resizing: PodResizer) -> None:
        self._context = context
        self._falling = falling
        self._resizing = resizing
        self._version: int | None = None
        self._taken_over = False
        self._edited_before: list[PodWorker] = []

    def take(self, desired: DesiredState) -> bool:
        """Take in what changed since the last call; whether this is another plan altogether."""
        context = self._context
        before = context.desired
        anew = before is None or before.live is not desired.live
        context.desired = desired
        if anew:
            self._version = desired.version
            self._all(desired)
            return True
        if desired.version != self._version:
            self._version = desired.version
            for uid in desired.gone - desired.pods.keys():
                self._gone(uid)
            for uid in sorted(desired.changed & desired.pods.keys()):
                self._wanted(uid, desired.pods[uid])
        return False

    def _all(self, desired: DesiredState) -> None:
        """The first desired state, or one on another node configuration."""
        context = self._context
        if not self._taken_over:
            self._take_over(desired)
        for uid in context.workers.keys() - desired.pods.keys():
            self._gone(uid)
        for uid, wanted in desired.pods.items():
            self._wanted(uid, wanted)
        for worker in context.workers.values():
            if worker.pod is not None and worker.groups and not worker.cleared:
                self._as_it_stands(worker, worker.pod)

    def _as_it_stands(self, worker: PodWorker, pod: Pod) -> None:
        """Plan a pod on this node that has groups and is not wanted as it is: one that ends, or
        one that goes on because its edit was refused. It counts until its groups are gone."""
        live, places = self._context.live, (worker.cgroups, worker.tops)
        if worker.uid in live:
            return
        found = live.put(pod)
        if found.refused is None:
            worker.plan(found.pod, found.qos, found.groups)
        if worker.cgroups != places[0]:
            worker.cgroups, worker.tops = places
            worker.groups = ()
        if found.refused is not None or not worker.groups:
            live.drop(worker.uid)

    def _take_over(self, desired: DesiredState) -> None:
        """The pods that the runtime keeps from an earlier agent."""
        context = self._context
        wall = context.clock.wall()
        kept = context.runtime.held()
        self._give_back(kept.keys())
        for uid, held in kept.items():
            worker = adopted_worker(held, wall)
            context.add(worker)
            wanted = desired.pods.get(uid)
            if wanted is None:
                self._falling.stop(worker)
            else:
                self._take_up(worker, held, wanted)
        # judged by what all pods have
        for worker in self._edited_before:
            self._resizing.propose(worker)
        self._taken_over = True

    def _give_back(self, kept: Collection[str]) -> None:
        """Volumes of wanted pods that were not begun: they may want others. Those of pods that
        nobody wants are orphans."""
        context = self._context
        wanted = context.desired.pods if context.desired is not None else {}
        try:
            for uid in context.volumes.standing():
                if uid in wanted and uid not in kept:
                    context.volumes.remove(uid)
        except (QosletError, OSError) as error:
            context.said.errors.append(f"volumes: {error}")

    def _take_up(self, worker: PodWorker, held: RuntimePod, wanted: DesiredPod) -> None:
        """A kept pod that is wanted: it goes on where it is right."""
        worker.wanted = wanted
        if wanted.refused is not None:
            worker.stage = "over" if held.ended else "running"
            if not held.ended:
                self._as_it_stands(worker, decode_allocation(wanted.pod, held.memo))
            self._refuse(worker, wanted)
            return
        places = dict(worker.cgroups), worker.tops
        old = decode_allocation(wanted.pod, held.memo)
        edited = resizable_fields(old) != resizable_fields(wanted.pod)
        found = self._context.live.put(old) if edited else wanted.groups
        worker.plan(old, found.qos, found.groups)
        moved = (
            (worker.cgroups, worker.tops) != places if held.tops else worker.cgroups != places[0]
        )
        if held.ending:
            worker.cgroups, worker.tops = places
            self._ended_before(worker, held, wanted, moved)
            return
        if held.ended:
            worker.cgroups, worker.tops = places
            if held.digest != wanted.spec.digest():
                self.restart(worker, "its containers have changed")
                return
            worker.stage = "over"
            return
        if not moved and held.digest == wanted.spec.digest():
            self._edited_before += [worker] if edited else []
            return
        worker.cgroups, worker.tops = places
        if moved and never_restarts(wanted.spec):
            self._give_up(worker)
            return
        self.restart(
            worker, "it runs outside its group" if moved else "its containers have changed"
        )

    def _give_up(self, worker: PodWorker) -> None:
        """End a pod that may neither stay where it is nor be started again."""
        worker.failed = True
        self._context.said.notes.append(
            f"{worker.key} runs outside its group and is not restarted (restartPolicy Never): "
            "it is ended and has failed"
        )
        self._falling.stop(worker)

    def _ended_before(
        self, worker: PodWorker, held: RuntimePod, wanted: DesiredPod, moved: bool
    ) -> None:
        """A kept pod that is wanted and was asked to end: by an agent that did not live to begin
        it anew, or that no longer wanted it."""
        if not (moved and never_restarts(wanted.spec)):
            self.restart(worker, "it was asked to end before")
        elif held.ended:
            worker.stage, worker.failed = "over", True
        else:
            self._give_up(worker)

    def meet(self, held: RuntimePod) -> PodWorker:
        """A pod that the runtime keeps though nobody here asked for it, because the word of an
        agent before came late: it ends."""
        context = self._context
        worker = adopted_worker(held, context.clock.wall())
        context.add(worker)
        context.said.notes.append(f"{worker.key}: begun by an agent before; it is ended")
        self._falling.stop(worker)
        return worker

    def restart(self, worker: PodWorker, why: str) -> None:
        """End the pod and begin it anew as it is wanted now."""
        worker.again = True
        self._context.said.notes.append(f"{worker.key}: {why}; it is started anew")
        self._falling.stop(worker)

    def _gone(self, uid: str) -> None:
        """A pod is not wanted any more."""
        worker = self._context.workers.get(uid)
        if worker is None:
            # it went before it was seen
            self._context.drop(uid)
            return
        if worker.wanted is None and worker.stage in ("ending", "clearing"):
            return
        worker.wanted, worker.again = None, False
        worker.resize, worker.resize_reason = "", ""
        self._context.due.add(uid)
        if worker.stage not in ("ending", "clearing"):
            self._falling.stop(worker)

    def _wanted(self, uid: str, wanted: DesiredPod) -> None:
        """A pod came or changed."""
        context = self._context
        context.due.add(uid)
        worker = context.workers.get(uid)
        if worker is None:
            worker = PodWorker(uid, wanted.pod.key, since=context.clock.wall(), wanted=wanted)
            worker.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
            context.add(worker)
            if wanted.refused is not None:
                self._refuse(worker, wanted)
            return
        if wanted.refused is not None and worker.stage in ("running", "over", "refused"):
            self._refuse(worker, wanted)
            return
        before, worker.wanted = worker.wanted, wanted
        worker.key = wanted.pod.key
        match worker.stage:
            case "ending" | "clearing":
                # a pod that failed for good stays so until its processes would differ
                if before is None or not worker.failed:
                    worker.again = True
            case "over":
                if wanted.spec.digest() == worker.digest:
                    context.drop(uid)
                else:
                    self.restart(worker, "its containers have changed")
            case "refused":
                worker.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
                context.turn_to_waiting(worker)
            case "waiting":
                self._replanned(worker, wanted)
            case "running":
                self._edited(worker, wanted)

    def _refuse(self, worker: PodWorker, wanted: DesiredPod) -> None:
        """A pod that may not run here; one that was begun before the edit stays as it is."""
        reason, message = wanted.refused or ("Refused", "")
        if worker.stage in ("running", "over"):
            message = f"the edit is refused, what runs stays: {message}"
        else:
            worker.stage, worker.wanted = "refused", wanted
            self._context.refused.add(worker.uid)
        worker.say(reason, message, self._context.clock.wall())

    def _replanned(self, worker: PodWorker, wanted: DesiredPod) -> None:
        """A pod changed before it was begun: what was made elsewhere goes first."""
        if wanted.refused is not None:
            self._falling.stop(worker)
            worker.again = True
            return
        places = worker.cgroups, worker.tops
        worker.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
        if worker.cgroups != places[0]:
            worker.cgroups, worker.tops = places
            worker.again = True
            self._falling.stop(worker)
            return
        # what was refused may be right now
        worker.went_well()

    def _edited(self, worker: PodWorker, wanted: DesiredPod) -> None:
        """A running pod's manifest changed."""
        if wanted.spec.digest() != worker.digest:
            self.restart(worker, "its containers have changed")
            return
        if worker.stop_within is not None:
            if not worker.again or container_paths(wanted.groups.groups) != worker.cgroups:
                return
            # what runs is wanted again before it could be stopped
            worker.again, worker.stop_within = False, None
        if wanted.grace != worker.grace:
            worker.grace = wanted.grace
        if worker.pod is not None and resizable_fields(worker.pod) != resizable_fields(wanted.pod):
            self._resizing.propose(worker)
            return
        if worker.resize in ("Deferred", "Infeasible"):
            worker.resize, worker.resize_reason = "", ""
        worker.plan(wanted.pod, wanted.groups.qos, wanted.groups.groups)
        # what could not be written may be right now
        worker.not_before = None
        self._context.tell(worker)
