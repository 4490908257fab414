"""What becomes of one pod that is not as desired: rejected, restarted, failed, or planned as it runs."""

from __future__ import annotations

from qoslet.agent.pods.teardown import PodTeardown
from qoslet.agent.ports import DesiredPod
from qoslet.agent.state.pod_phases import WorkerPhase, enter
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.api.pod import Pod


class PodChanges:
    """Brings a pod into the phase that follows from a decision about it."""

    def __init__(self, context: SyncContext, teardown: PodTeardown) -> None:
        self._context = context
        self._teardown = teardown

    def reject(self, worker: PodWorker, desired_pod: DesiredPod) -> None:
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

    def restart(self, worker: PodWorker, why: str) -> None:
        """Stop the pod and start what is desired now: it again, or who has its UID."""
        worker.restart_pending = True
        stays = worker.desired is None or worker.desired.pod.key == worker.key
        verb = "restarting" if stays else "stopping"
        self._context.log.notes.append(f"{worker.key}: {why}; {verb} it")
        self._teardown.stop(worker)

    def fail(self, worker: PodWorker) -> None:
        """Stop a pod that may neither stay where it is nor be restarted."""
        worker.failed = True
        self._context.log.notes.append(
            f"{worker.key} runs outside its cgroup and cannot restart (restartPolicy Never): failing it"
        )
        self._teardown.stop(worker)

    def plan_as_running(self, worker: PodWorker, pod: Pod) -> None:
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


def why_replaced(worker: PodWorker, desired_pod: DesiredPod) -> str:
    """Why what was started must end before the pod is as desired; empty: it may go on."""
    if worker.key != desired_pod.pod.key:
        return f"{desired_pod.pod.key} has its UID now"
    changed = desired_pod.spec.digest() != worker.spec_digest
    return "its containers have changed" if changed else ""
