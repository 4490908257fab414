"""What the parts of a sync share: the ports, the pods, and the log of the sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.ports import CgroupKiller, Clock, DesiredState, PlanView, Runtime, Volumes
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.input_problems import ManifestStatus
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem, plural
from qoslet.core.reconcile.resize import encode_allocation
from qoslet.core.reconcile.steps import Outcome
from qoslet.core.status.pod_events import PodEvent, adopted_events, container_events, pod_events
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import QosletError

_HAVING_NAME = (WorkerPhase.RUNNING, WorkerPhase.TERMINATING, WorkerPhase.CLEANING_UP)
"""Phases in which something of a pod may be there under its name."""

_LOOKS_MAX = 10
"""How often a sync asks the runtime until nothing happens meanwhile: pods, signs of life and SIGTERM wait
for it."""


class SyncLog(Struct):
    """What one sync found and did."""

    differences: int = 0
    outcomes: list[Outcome] = []
    errors: list[str] = []
    notes: list[str] = []
    waiting: list[str] = []
    events: list[PodEvent] = []
    pods_synced: int = 0


class SyncContext:
    """One for each reconciler. ``workers`` are the pods by UID, ``work_queue`` the UIDs that this
    sync goes through, ``terminating`` those whose containers were asked to stop, ``rejected`` those
    that may not run here, ``kept`` those of an earlier agent whose manifest cannot be read.
    ``container_counts`` are the containers that run, and all; ``retried`` the UIDs of pods that are
    ``is_retried`` as reported last; ``memory_wanted`` the bytes by UID that the
    guard has not for stalled containers, because the node has not."""

    def __init__(
        self,
        config: Config,
        executor: CgroupExecutor,
        runtime: Runtime,
        volumes: Volumes,
        clock: Clock,
        killer: CgroupKiller,
    ) -> None:
        self.config = config
        self.executor = executor
        self.runtime = runtime
        self.volumes = volumes
        self.clock = clock
        self.killer = killer
        self.workers: dict[str, PodWorker] = {}
        self.work_queue: set[str] = set()
        self.terminating: set[str] = set()
        self.rejected: set[str] = set()
        self.kept: set[str] = set()
        self.container_counts = (0, 0)
        self.retried: set[str] = set()
        self.memory_wanted: Mapping[str, int] = {}
        self._runtime_pods: Mapping[str, RuntimePod] | None = None
        self.log = SyncLog()
        self.desired: DesiredState | None = None
        self._count = 0
        self._names: dict[str, set[str]] = {}
        self._followers: dict[str, set[str]] = {}
        self._timers: dict[str, float] = {}
        self._problems = ManifestStatus()

    @property
    def plan(self) -> PlanView:
        """The plan of the pods that count."""
        assert self.desired is not None
        return self.desired.plan

    @property
    def node(self) -> Node:
        """The node that is planned for."""
        return self.plan.node

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What there is to say about the input, as of the last sync."""
        rows = self.desired.problems if self.desired is not None else ()
        acts = self.config.guard == "act"
        return self._problems.of(rows, self.workers.values(), guarded=acts)

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self.clock.monotonic()

    def begin_sync(self) -> None:
        """Start with an empty log, but for what was logged since the last sync, and queue the pods
        whose timers expired and those that terminate."""
        self.log = SyncLog(notes=self.log.notes, errors=self.log.errors, events=self.log.events)
        self.work_queue = self.take_expired_timers() | self.terminating
        self._runtime_pods = None

    def log_note(self, line: str) -> None:
        """Log a line for people, reported with this sync, or between two with the next."""
        self.log.notes.append(line)

    def set_container_states(self, worker: PodWorker, states: tuple[ContainerState, ...]) -> None:
        """Set the states of a pod's containers, count them and report what happened to them; of an
        adopted pod at first only what is amiss is news."""
        known = {one.name: one for one in worker.container_states}
        stopping = worker.phase is WorkerPhase.TERMINATING
        is_found = worker.adopted and not known
        for state in states:
            if not is_found:
                self.log.events += container_events(
                    worker.key, known.get(state.name), state, stopping=stopping
                )
            elif not stopping:
                self.log.events += adopted_events(worker.key, state, self.clock.wall())
        running, every = self.container_counts
        for sign, found in ((-1, worker.container_states), (1, states)):
            running += sign * sum(one.running and not one.starting for one in found)
            every += sign * len(found)
        worker.container_states, self.container_counts = states, (running, every)

    def runtime_pods(self, *, refresh: bool = False) -> Mapping[str, RuntimePod]:
        """The pods that the runtime has, listed once in a sync, or again with ``refresh``. Raises
        ``QosletError``, OSError."""
        if self._runtime_pods is None or refresh:
            self._runtime_pods = self.runtime.list_pods()
        return self._runtime_pods

    def pods_as_of(
        self, states: Sequence[ContainerState]
    ) -> tuple[Sequence[ContainerState], Mapping[str, RuntimePod]] | None:
        """The containers of the last poll, or later ones, with the pods that the runtime has then: one that
        is listed as ended has told how. None where something happens during each look: the next sync
        looks again. Raises ``QosletError``, OSError."""
        for _ in range(_LOOKS_MAX):
            pods = self.runtime_pods(refresh=True)
            before, states = states, self.runtime.poll()
            if states == before:
                return states, pods
        return None

    def may_have_ended(self, uid: str) -> bool:
        """Whether the runtime says that no container of a pod runs and none will be started, or
        cannot say."""
        try:
            kept = self.runtime_pods().get(uid)
        except (QosletError, OSError):
            return True
        return kept is None or kept.ended

    def add_worker(self, worker: PodWorker) -> None:
        """Add a pod, and queue it."""
        self._count += 1
        worker.sequence = self._count
        self.workers[worker.uid] = worker
        self._names.setdefault(worker.key, set()).add(worker.uid)
        self.work_queue.add(worker.uid)

    def fail(self, worker: PodWorker, reason: str, message: str) -> None:
        """Log a failed attempt at a pod; it is tried again after its back-off."""
        self.log.errors.append(message)
        self.retry_later(worker, reason, message, self.config.retry_backoff)

    def retry_later(self, worker: PodWorker, reason: str, message: str, policy: Backoff) -> None:
        """Try again after a back-off of this policy; nothing is logged."""
        worker.back_off(reason, message, policy, self.now, self.clock.wall())
        assert worker.retry_at is not None
        self._timers[worker.uid] = worker.retry_at

    def ready_spec(self, worker: PodWorker) -> PodSpec:
        """The pod's processes with their volumes, which are provided, and planned scores. Raises
        ``QosletError`` or OSError where a volume cannot be provided."""
        assert worker.desired is not None
        assert worker.pod is not None
        spec = replace(
            worker.desired.spec.scored(worker.oom_score_adjs),
            memo=encode_allocation(worker.pod),
            manifest=worker.desired.manifest,
        )
        spec = self.plan.equipped(worker.uid, spec)
        wanted = (*spec.volumes, *spec.folders)
        return spec.sourced(self.volumes.provide(worker.uid, wanted)) if wanted else spec

    def update_runtime(self, worker: PodWorker) -> None:
        """Tell the runtime what later starts of the pod's containers use; what they had stays where
        the input lacks a part of it."""
        if worker.desired is not None and worker.desired.spec.unmet:
            return
        try:
            self.runtime.update(self.ready_spec(worker))
        except (QosletError, OSError) as error:
            self.fail(worker, "UpdateFailed", f"updating {worker.key}: {error}")

    def start_pending(self, worker: PodWorker) -> None:
        """Let the pod start in this sync."""
        worker.enter_phase(WorkerPhase.PENDING, self.clock.wall())
        worker.restart_pending = worker.adopted = False
        worker.created_wall_seconds = self.clock.wall()
        self.rejected.discard(worker.uid)
        self.work_queue.add(worker.uid)

    def take_expired_timers(self) -> set[str]:
        """Remove expired timers; returns their pods."""
        now = self.now
        woken = {uid for uid, at in self._timers.items() if at <= now}
        for uid in woken:
            del self._timers[uid]
        return woken

    def wake_in(self, uid: str, seconds: float) -> None:
        """Queue a pod after some seconds at the latest, though nothing failed."""
        at = self.now + seconds
        self._timers[uid] = min(at, self._timers.get(uid, at))

    def predecessor(self, worker: PodWorker) -> str | None:
        """The pod of the same name that must be gone before this one starts, None without one."""
        for uid in sorted(self._names[worker.key] - {worker.uid}):
            if self.workers[uid].phase in _HAVING_NAME:
                self._followers.setdefault(uid, set()).add(worker.uid)
                return uid
        return None

    def report(self, worker: PodWorker) -> None:
        """Report what happened to a pod since the last time."""
        (self.retried.add if worker.is_retried else self.retried.discard)(worker.uid)
        status = worker.pod_status()
        if status != worker.reported:
            self.log.events += pod_events(worker.key, worker.reported, status)
            worker.reported = status

    def report_reason(self, worker: PodWorker, reason: str, message: str) -> None:
        """Set why a pod is as it is now and report it at once: it may be gone before this sync ends."""
        wall = self.clock.wall()
        worker.set_reason(reason, message, wall)
        worker.update_status(wall)
        self.report(worker)

    def remove_worker(self, worker: PodWorker) -> None:
        """Forget a pod."""
        self.log.events += pod_events(worker.key, worker.reported, None)
        self.set_container_states(worker, ())
        del self.workers[worker.uid]
        self.retried.discard(worker.uid)
        self._free_name(worker)
        self._timers.pop(worker.uid, None)
        self.work_queue.discard(worker.uid)
        self.terminating.discard(worker.uid)
        self.rejected.discard(worker.uid)
        self.kept.discard(worker.uid)

    def rename(self, worker: PodWorker, key: str) -> None:
        """Let a pod of another name, of which nothing is left, go on as the one that has its UID
        now."""
        self.log.events += pod_events(worker.key, worker.reported, None)
        self._free_name(worker)
        worker.key, worker.reported, worker.adopted = key, None, False
        self._names.setdefault(key, set()).add(worker.uid)

    def _free_name(self, worker: PodWorker) -> None:
        """Nothing of a pod is left under its name; those that waited for it are queued."""
        others = self._names[worker.key]
        others.discard(worker.uid)
        if not others:
            del self._names[worker.key]
        self.work_queue |= self._followers.pop(worker.uid, set())

    def next_timer(self) -> float | None:
        """The monotonic time at which the next timer expires."""
        return min(self._timers.values(), default=None)

    def drop_from_plan(self, uid: str) -> None:
        """Remove a pod from the plan; those whose CPUs changed with it are queued."""
        for other in self.plan.remove(uid):
            self.replan(other)

    def replan(self, uid: str) -> None:
        """Take in new values of a pod's cgroups that changed because of another pod."""
        worker = self.workers.get(uid)
        if worker is not None and worker.pod is not None and worker.desired is not None:
            found = self.plan.groups(uid)
            if found.refused is not None:
                return
            worker.plan(found.pod, found.qos, found.groups)
            if worker.phase is WorkerPhase.RUNNING and self.node.profile.runtime.oci != "process":
                self.update_runtime(worker)
            if worker.phase is WorkerPhase.REJECTED:
                # there is room for it since
                self.start_pending(worker)
            self.work_queue.add(uid)


def summary(
    context: SyncContext,
    differences: int,
    done: int,
    failed: int,
    pending: int,
    waiting: int,
    *,
    steps_retried: int = 0,
) -> str:
    """The sync in one sentence. ``steps_retried``: those above the pods that failed and wait."""
    running, containers = context.container_counts
    people = f"{plural(_pods(context), 'pod')}, {running} of {containers} containers running"
    waits = [f"{plural(pending, 'write')} pending"] if pending else []
    if waiting:
        waits.append(f"{plural(waiting, 'limit')} above the plan until usage falls")
    if steps_retried:
        waits.append(f"{plural(steps_retried, 'step')} to be retried")
    if context.retried:
        waits.append(f"{plural(len(context.retried), 'pod')} to be retried")
    if failed:
        return "; ".join([people, f"{plural(failed, 'step')} failed, {done} done", *waits])
    if differences:
        found = f"{plural(differences, 'difference')}, {plural(done, 'step')} done"
        return "; ".join([people, found, *waits])
    return "; ".join([people, *waits]) if waits else f"{people}; the tree is as planned"


def _pods(context: SyncContext) -> int:
    """The pods that are to run, with those kept while their manifest cannot be read."""
    wanted = len(context.desired.pods) if context.desired is not None else 0
    return wanted - len(context.rejected) + len(context.kept)
