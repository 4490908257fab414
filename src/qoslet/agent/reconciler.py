"""One sync of the reconcile loop: what is due is observed, made true and summed up in a sentence.

Due are pods that changed, whose back-off is over or whose containers changed, and now and then
everything. The cost of a sync depends on what is due, not on what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from qoslet.agent.config import Config
from qoslet.agent.memory.monitor import MemoryMonitor
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.pods.admission import Admission
from qoslet.agent.pods.garbage_collection import GarbageCollector
from qoslet.agent.pods.lost_processes import LostProcesses
from qoslet.agent.pods.node_cgroups import NodeCgroups
from qoslet.agent.pods.resize import PodResizer
from qoslet.agent.pods.startup import PodStartup
from qoslet.agent.pods.teardown import PodTeardown
from qoslet.agent.ports import (
    CgroupKiller,
    Clock,
    DesiredState,
    Driver,
    FrozenReader,
    Journal,
    Machine,
    Observer,
    Runtime,
    UsageReader,
    Volumes,
)
from qoslet.agent.snapshots import Snapshots, SyncResult
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.memory_journal import MemoryJournal
from qoslet.agent.state.ownership import ownership_of
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.resync_timer import ResyncTimer
from qoslet.agent.state.sync_context import SyncContext, summary
from qoslet.core.problem import Problem
from qoslet.core.status.pod_events import unknown_pods
from qoslet.core.status.snapshot import Snapshot
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import PodRow, RuntimePod
from qoslet.errors import QosletError

AWAITED_SECONDS = 0.2
"""Between two looks at a pod whose container waits for its cgroup."""


class Reconciler:
    """Reconciles one root; keeps what it knows between syncs.

    Without a ``journal`` everything below the root is ours. ``adopt`` lets the driver write in cgroups
    of others. Nothing that happens to a single pod raises.
    """

    def __init__(
        self,
        config: Config,
        driver: Driver,
        observer: Observer,
        runtime: Runtime,
        volumes: Volumes,
        clock: Clock,
        killer: CgroupKiller,
        *,
        journal: Journal | None = None,
        machine: Machine | None = None,
        memory: MemoryParts | None = None,
        usage: UsageReader | None = None,
        adopt: Callable[[Collection[str]], None] = lambda paths: None,
        frozen: FrozenReader = lambda paths: {},
    ) -> None:
        record = journal or MemoryJournal()
        executor = CgroupExecutor(
            ownership_of(config.root, record.ledger, everything=journal is None),
            driver,
            observer,
            clock.monotonic,
            journal=record,
            shrink=config.shrink,
            allow=adopt,
        )
        self.context = SyncContext(config, executor, runtime, volumes, clock, killer)
        self.teardown = PodTeardown(self.context)
        self._startup = PodStartup(self.context)
        self._resizer = PodResizer(self.context)
        self._admission = Admission(self.context, self.teardown, self._resizer)
        self._node_cgroups = NodeCgroups(self.context)
        self._collector = GarbageCollector(self.context)
        self.memory = MemoryMonitor(self.context, memory)
        self._snapshots = Snapshots(
            self.context, self.teardown.last_observed, machine, usage, frozen
        )
        self._cycle = 0
        self._runtime_error = ""
        self._unknown: list[str] = []
        self._states: dict[int, ContainerState] = {}
        self._polled: Sequence[ContainerState] | None = None
        self._resync = ResyncTimer(config)
        self._lost_processes = LostProcesses(self.context)
        self.last_result: SyncResult | None = None

    def count_in(self, *phases: WorkerPhase) -> int:
        """How many pods are in these phases."""
        return sum(worker.phase in phases for worker in self.context.workers.values())

    @property
    def has_ended(self) -> bool:
        """Whether there are pods and each of them has ended for good or may not run here."""
        workers = self.context.workers.values()
        return bool(workers) and all(
            worker.phase is WorkerPhase.REJECTED
            or (worker.phase is WorkerPhase.TERMINATED and worker.cleanup_done)
            for worker in workers
        )

    def pod_rows(self) -> tuple[PodRow, ...]:
        """The pods as surfaces show them, in the order in which they came."""
        ordered = sorted(self.context.workers.values(), key=lambda worker: worker.sequence)
        return tuple(worker.status_row(self.context.now) for worker in ordered)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the manifests and the node, as of the last sync."""
        return self.context.problems

    def sync(self, desired: DesiredState, *, whole: bool = False) -> SyncResult:
        """Do what is due. ``whole``: check everything, which happens at each resync anyway."""
        context, begun = self.context, self.context.now
        self._cycle += 1
        context.begin_sync()
        replanned = self._admission.admit(desired)
        held = self.memory.urgent
        whole = whole or replanned or self._resync.is_due(context.now, held=held)
        if whole:
            context.executor.watch(context.plan.upper())
            for worker in context.workers.values():
                context.executor.watch(worker.cgroups)
            seen = context.executor.observe_all()
            context.executor.runtime_cgroups.forget_gone(seen)
            context.work_queue |= context.workers.keys()
            self._collector.find(seen)
            self._lost_processes.find(seen)
        self._poll_runtime()
        self._collect_pending()
        self.memory.sync(whole=whole)
        self._sync_due(whole)
        self.memory.update_tracking(whole=whole)
        context.executor.drop_cache()
        self.last_result = self._build_result()
        if whole:
            now = context.now
            self._resync.synced(now, now - begun, quiet=self.last_result.quiet)
        return self.last_result

    def _poll_runtime(self) -> None:
        """Take in what containers did."""
        context = self.context
        try:
            states = context.runtime.poll()
            if states is self._polled and not self._runtime_error:
                return
            found = context.pods_as_of(states)
        except (QosletError, OSError) as error:
            self._runtime_failed(str(error))
            return
        self._runtime_failed("")
        if found is None:
            return
        states, runtime_pods = found
        polled = dict(zip(map(id, states), states, strict=True))
        # a state is a value: another one says something new
        differ = polled.keys() ^ self._states.keys()
        before, self._states, self._polled = self._states, polled, states
        changed: dict[str, list[ContainerState]] = {
            (polled.get(one) or before[one]).pod_uid: [] for one in differ
        }
        for state in [one for one in states if one.pod_uid in changed] if changed else ():
            changed[state.pod_uid].append(state)
        for uid, states in changed.items():
            worker, runtime_pod = context.workers.get(uid), runtime_pods.get(uid)
            if worker is None and runtime_pod is not None:
                worker = self._admission.adopt_unknown(runtime_pod)
            # a runtime may need a while after the last container has ended
            over = runtime_pod is not None and runtime_pod.ended
            if worker is None or not (over or tuple(states) != worker.container_states):
                continue
            if not worker.cleanup_done:
                context.set_container_states(worker, tuple(states))
                self._containers_changed(worker, runtime_pod)
            elif states:
                # its end was known before how its containers ended
                context.set_container_states(worker, tuple(states))
                context.work_queue.add(uid)
        context.log.notes += unknown_pods(self._unknown)
        self._unknown.clear()

    def _runtime_failed(self, error: str) -> None:
        """The runtime cannot be asked, or can be: told when that changes."""
        if error and error != self._runtime_error:
            self.context.log.errors.append(f"the runtime: {error}")
        elif self._runtime_error and not error:
            self.context.log.notes.append("the runtime answers again")
        self._runtime_error = error

    def _containers_changed(self, worker: PodWorker, runtime_pod: RuntimePod | None) -> None:
        """A pod's containers changed."""
        context = self.context
        context.work_queue.add(worker.uid)
        if runtime_pod is not None and runtime_pod.created:
            # what the next agent will find, too
            worker.created_wall_seconds = runtime_pod.created
        if worker.phase is not WorkerPhase.RUNNING:
            return
        if runtime_pod is None and worker.desired is None:
            worker.kept_manifest = None
        elif runtime_pod is None:
            self._unknown.append(worker.key)
            if worker.restart_pending:
                # a stop was refused: what is desired may have other cgroups
                worker.enter_phase(WorkerPhase.CLEANING_UP, context.clock.wall())
            else:
                context.start_pending(worker)
        elif not runtime_pod.ended or worker.unwanted:
            return
        elif runtime_pod.terminating:
            self._admission.restart(worker, "a previous agent stopped it")
        else:
            worker.enter_phase(WorkerPhase.TERMINATED, context.clock.wall())

    def _collect_pending(self) -> None:
        """Take in the outcomes of steps that were pending."""
        for late in self.context.executor.poll_pending():
            self.context.log.outcomes.append(late)
            if late.error is not None:
                self.context.log.errors.append(f"{late.step.describe()}: {late.error}")

    def _sync_due(self, whole: bool) -> None:
        """Terminate first, then write the node's cgroups, then start: a QoS cgroup follows the pods
        that went, and has room before new ones are created."""
        context = self.context
        gone = self._terminate_due()
        startable = self._startable()
        if any(worker.resize_state == "InProgress" for worker in startable):
            # which containers wait for a runtime that writes their resources itself
            self._poll_runtime()
        sync_at = self._node_cgroups.sync_at
        if (
            whole
            or gone
            or self._node_cgroups.is_outdated
            or any(
                worker.phase is WorkerPhase.PENDING or worker.resize_state == "InProgress"
                for worker in startable
            )
            or (sync_at is not None and context.now >= sync_at)
        ):
            self._node_cgroups.sync(whole=whole)
        if whole:
            self._startup.maintain(
                [one for one in context.workers.values() if one.phase is WorkerPhase.TERMINATING]
            )
        begun = self._startup.sync(startable, self._node_cgroups.missing)
        self._collector.sync()
        if begun:
            self._poll_runtime()
        for uid in context.work_queue:
            worker = context.workers.get(uid)
            if worker is not None:
                context.log.pods_synced += 1
                worker.update_status(context.clock.wall())
                context.report(worker)
                if worker.awaits_cgroup and not worker.in_backoff(context.now):
                    context.wake_in(uid, AWAITED_SECONDS)

    def _terminate_due(self) -> bool:
        """Go on with the pods that end; returns whether any cgroups are gone."""
        context = self.context
        gone = False
        for uid in list(context.work_queue):
            worker = context.workers.get(uid)
            if worker is None:
                continue
            unwanted = worker.unwanted and worker.phase in (
                WorkerPhase.REJECTED,
                WorkerPhase.RUNNING,
                WorkerPhase.PENDING,
            )
            refused = worker.refused_stop_seconds is not None and not worker.in_backoff(context.now)
            if unwanted or refused:
                self.teardown.stop(worker, worker.refused_stop_seconds)
            if self.teardown.sync(worker):
                gone = True
            if worker.cleanup_done and (
                worker.phase is WorkerPhase.CLEANING_UP or worker.restart_pending or worker.unwanted
            ):
                self.teardown.finish(worker)
            elif worker.cleanup_done and worker.phase is WorkerPhase.TERMINATED:
                context.drop_from_plan(uid)
        if gone:
            self._resizer.retry_deferred()
        return gone

    def _startable(self) -> list[PodWorker]:
        """The pods that are due to start or run, in the order in which they came."""
        context = self.context
        now = context.now
        for uid in list(context.work_queue):
            self._resizer.retry_deferred(uid)
        found = [
            worker
            for uid in context.work_queue
            if (worker := context.workers.get(uid)) is not None
            and worker.phase in (WorkerPhase.PENDING, WorkerPhase.RUNNING)
            and not worker.unwanted
            and not worker.in_backoff(now)
        ]
        return sorted(found, key=lambda worker: worker.sequence)

    def _build_result(self) -> SyncResult:
        """The sync as a value."""
        context, log = self.context, self.context.log
        log.notes += context.executor.notes
        context.executor.notes.clear()
        failed = sum(one.error is not None for one in log.outcomes)
        pending = tuple(dict.fromkeys(o.step.describe() for o in log.outcomes if o.pending))
        done = sum(one.error is None and not one.pending for one in log.outcomes)
        waiting = tuple(dict.fromkeys([*self._node_cgroups.waiting, *log.waiting]))
        result = SyncResult(
            cycle=self._cycle,
            at=context.now,
            pods_synced=log.pods_synced,
            differences=log.differences,
            done=done,
            failed=failed,
            pending=pending,
            waiting=waiting,
            errors=tuple(log.errors),
            notes=tuple(dict.fromkeys(log.notes)),
            events=tuple(log.events),
            containers=context.container_counts,
            summary=summary(
                context,
                log.differences,
                done,
                failed,
                len(pending),
                len(waiting),
                steps_retried=self._node_cgroups.retried,
            ),
        )
        log.notes, log.errors, log.events = [], [], []
        return result

    def drain(self) -> None:
        """A sync of the shutdown: every pod is stopped, none is started."""
        context = self.context
        context.begin_sync()
        for worker in list(context.workers.values()):
            worker.desired = worker.kept_manifest = None
            if worker.phase is WorkerPhase.RUNNING:
                self.teardown.stop(worker)
        self._poll_runtime()
        self._collect_pending()
        context.work_queue = set(context.workers)
        self._terminate_due()
        for worker in context.workers.values():
            worker.update_status(context.clock.wall())

    def next_at(self) -> float | None:
        """The monotonic time at which something is due that no descriptor announces."""
        times = [
            self.context.next_timer(),
            self._resync.due_at(held=self.memory.urgent),
            self._node_cgroups.sync_at,
            self._collector.next_at(),
            self.memory.next_at(),
            self.context.now if self.context.log.notes else None,
        ]
        return min((one for one in times if one is not None), default=None)

    def snapshot(self) -> Snapshot:
        """The state of everything for surfaces; reads the whole tree."""
        assert self.last_result is not None
        return self._snapshots.take(self.last_result, self.memory.view())

    def metrics_snapshot(self) -> Snapshot:
        """The same as far as metrics show it; reads only what cgroups use, and their memory."""
        assert self.last_result is not None
        return self._snapshots.take(self.last_result, self.memory.view(), metrics=True)
