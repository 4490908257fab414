"""Joins what the loop knows with one observation of everything: the value that surfaces draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.ports import FrozenReader, Machine, NoMachine, UsageReader
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.cgroup.usage.rates import between
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, PlannedPod
from qoslet.core.status.memory_view import MemoryView
from qoslet.core.status.pod_events import PodEvent
from qoslet.core.status.snapshot import GroupRow, Snapshot, rows
from qoslet.core.status.usage import usage_of
from qoslet.core.workload.container_state import ContainerState

SHORTEST_SECONDS = 0.25
"""Rates over less are noise: until then the earlier observation stays the one to compare with."""


class SyncResult(Struct, frozen=True):
    """What one sync did. ``pods_synced`` counts the pods that were due, ``containers`` those that
    run and all; the rest is as in ``Snapshot``."""

    cycle: int
    at: float
    pods_synced: int
    differences: int
    done: int
    failed: int
    pending: tuple[str, ...]
    waiting: tuple[str, ...]
    errors: tuple[str, ...]
    notes: tuple[str, ...]
    summary: str
    events: tuple[PodEvent, ...] = ()
    containers: tuple[int, int] = (0, 0)

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.differences or self.failed or self.done or self.notes or self.errors)


class Snapshots:
    """Keeps the last observations, since rates lie between two. ``final`` are the last observations
    of removed cgroups, whose pods are terminated. Without ``usage`` metrics read as much as other
    surfaces."""

    def __init__(
        self,
        context: SyncContext,
        final: Mapping[str, ObservedCgroup],
        machine: Machine | None,
        usage: UsageReader | None = None,
        frozen: FrozenReader = lambda paths: {},
    ) -> None:
        self._context = context
        self._frozen = frozen
        self._final = final
        self._machine: Machine = machine or NoMachine()
        self._usage = usage
        self._before: Observed | None = None
        self._latest: Observed | None = None

    def take(self, result: SyncResult, memory: MemoryView, *, metrics: bool = False) -> Snapshot:
        """Observe the whole tree and join. For ``metrics``, which do not show it, settings as found,
        runnable threads and the usage of pods against their limits are left out."""
        context = self._context
        plan = self._plan()
        observed = self._observed(plan.cgroups if metrics else None)
        states = [state for worker in context.workers.values() for state in worker.container_states]
        before = self._compared_with(observed)
        usage = between(before, observed) if before else {}
        seconds = observed.at - before.at if before else None
        assert context.desired is not None
        now = context.now
        ordered = sorted(context.workers.values(), key=lambda worker: worker.sequence)
        demand = {} if metrics else self._demand(observed, states)
        groups = rows(plan, observed, usage, states, demand)
        by_pod: dict[str, list[GroupRow]] = {}
        for group in () if metrics else groups:
            by_pod.setdefault(group.uid, []).append(group)
        edits = context.desired.rejected_edits
        frozen = {} if metrics else self._frozen_pods(ordered)
        return Snapshot(
            cycle=result.cycle,
            at=observed.at,
            cores=self._machine.cores,
            memory=self._machine.memory,
            busy_seconds=self._machine.busy_seconds(),
            groups=tuple(self._with_final(row) for row in groups),
            problems=context.problems,
            differences=result.differences,
            done=result.done,
            failed=result.failed,
            pending=result.pending,
            waiting=result.waiting,
            errors=result.errors,
            notes=result.notes,
            events=result.events,
            summary=result.summary,
            pods=tuple(
                worker.status_row(
                    now,
                    edits.get(worker.uid, ""),
                    usage_of(by_pod.get(worker.uid, ()), seconds),
                    frozen.get(worker.uid, ()),
                )
                for worker in ordered
            ),
            meters=dict(context.executor.meters),
            memory_view=memory,
        )

    def _frozen_pods(self, workers: Sequence[PodWorker]) -> dict[str, set[str]]:
        """The running pods of which something is frozen, and what."""
        running = {
            state.cgroup: worker.uid
            for worker in workers
            if worker.phase is WorkerPhase.RUNNING
            for state in worker.container_states
            if state.running
        }
        groups: dict[str, set[str]] = {}
        for path, group in self._frozen(running).items():
            groups.setdefault(running[path], set()).add(group)
        return groups

    def _observed(self, shown: Iterable[Cgroup] | None) -> Observed:
        """The tree below the root, or what of it is ``shown`` as far as it tells usage."""
        root = self._context.config.root
        if shown is None or self._usage is None:
            return self._context.executor.observer.observe(root)
        paths = (group.path for group in shown)
        return self._usage(path for path in paths if path and is_at_or_below(path, root))

    def _compared_with(self, observed: Observed) -> Observed | None:
        """The latest observation that is old enough, else the first one; keeps this one."""
        latest = self._latest
        if latest is None or observed.at - latest.at >= SHORTEST_SECONDS:
            self._before, self._latest = latest, observed
        return self._before or latest

    def _plan(self) -> Plan:
        """The cgroups that pods have or will get, those of terminating pods included."""
        context = self._context
        workers = sorted(context.workers.values(), key=lambda worker: worker.sequence)
        groups = list(context.plan.upper())
        pods = []
        for worker in workers:
            groups += worker.placed_cgroups
            if worker.pod is not None:
                pods.append(PlannedPod(worker.pod, worker.qos))
        return Plan(context.node, tuple(pods), tuple(context.executor.with_overrides(groups)), ())

    def _with_final(self, row: GroupRow) -> GroupRow:
        """A row with the last counters of a cgroup that is removed."""
        seen = self._final.get(row.path)
        if row.exists or seen is None:
            return row
        return replace(
            row,
            memory_peak=seen.memory_peak,
            oom_kills=seen.oom_kills,
            cpu_seconds=None if seen.usage_usec is None else seen.usage_usec / 1e6,
            throttled_seconds=None if seen.throttled_usec is None else seen.throttled_usec / 1e6,
            identity=seen.identity,
        )

    def _demand(self, observed: Observed, states: Sequence[ContainerState]) -> dict[str, int]:
        """How many threads of each running container want a CPU now."""
        return {
            state.cgroup: wanting
            for state in states
            if state.running
            and (group := observed.cgroups.get(state.cgroup)) is not None
            and (wanting := self._machine.runnable(group.path, group.pids)) is not None
        }


def pods_meanwhile(context: SyncContext, result: SyncResult) -> Snapshot:
    """The pods as they are known in the middle of a sync that waits, after that of ``result``. Nothing
    is observed: what a sync is about to use must not change under it."""
    edits = context.desired.rejected_edits if context.desired is not None else {}
    workers = sorted(context.workers.values(), key=lambda worker: worker.sequence)
    return Snapshot(
        cycle=result.cycle,
        at=context.now,
        cores=0.0,
        memory=0,
        groups=(),
        problems=context.problems,
        pending=result.pending,
        waiting=result.waiting,
        errors=result.errors,
        summary=result.summary,
        pods=tuple(one.status_row(context.now, edits.get(one.uid, "")) for one in workers),
        last_sync_seconds=context.now - result.at,
    )
