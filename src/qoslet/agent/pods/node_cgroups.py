"""The cgroups above the pods: the node's, its reservations, the QoS cgroups.

They follow the pods: written before a pod's cgroup is created and after one is removed, and checked
now and then. A memory limit below the usage of a QoS cgroup is set near the usage and follows it
down (``core.reconcile.limit_shrink``); no pod waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from qoslet.agent.state.step_results import CgroupDiff
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import parents
from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.cgroup.tree_owner import advice
from qoslet.core.reconcile.drift import Cause, lacking
from qoslet.core.reconcile.give_back import GiveBack, written_files
from qoslet.core.reconcile.journal import Key, Set
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Cgroup

FOLLOW_USAGE_SECONDS = 1.0
"""Time until a limit above the plan is checked again, doubled up to the resync."""


class _Retry(Struct, frozen=True):
    """A step that failed: the last delay, and when to try again."""

    backoff_seconds: float
    retry_at: float


class NodeCgroups:
    """The one writer of the cgroups above the pods. ``missing`` are those that could not be
    created."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._retries: dict[Key, _Retry] = {}
        self._follow_seconds = FOLLOW_USAGE_SECONDS
        self.missing: set[str] = set()
        self.sync_at: float | None = None
        self._written: tuple[Cgroup, ...] | None = None
        self._settled: dict[str, Cgroup] = {}
        self.waiting: tuple[str, ...] = ()

    @property
    def is_outdated(self) -> bool:
        """Whether the pods need other values than those written last: an edit can change them
        without a pod that comes or goes."""
        return self._context.plan.upper() is not self._written

    @property
    def retried(self) -> int:
        """How many steps failed and wait for their next attempt."""
        return len(self._retries)

    def sync(self, *, whole: bool = False) -> None:
        """Write the cgroups above the pods as planned. Without ``whole``, one that exists and whose
        plan is as it was last written is skipped. A step that fails is logged, and retried after a
        back-off of its own."""
        context = self._context
        self.sync_at = None
        self._written = context.plan.upper()
        groups = self._written if whole else self._unsettled(self._written)
        diff = self._with_foreign(context.executor.diff(context.node, groups))
        now = context.now
        due = {(step.path, step.file) for step in diff.steps}
        # what needs no step any more waits for no attempt
        self._retries = {key: retry for key, retry in self._retries.items() if key in due}
        steps = self._due(diff.steps, now)
        self._journal_foreign(steps, diff)
        batch = context.executor.perform(steps)
        log = context.log
        log.differences += len(diff.differences)
        log.outcomes += batch.outcomes
        for one in batch.outcomes:
            key = (one.step.path, one.step.file)
            if one.error is None:
                self._retries.pop(key, None)
                continue
            log.errors.append(f"{one.step.describe()}: {one.error}")
            self._back_off(key, now)
        made = _created(one.step for one in batch.outcomes) - batch.not_created
        self.missing = _created(diff.steps) - made
        for path in diff.foreign:
            log.errors.append(
                f"{path}: another process created this cgroup: it is not in the journal"
                f" ({advice(self._context.config.root, diff.foreign)})"
            )
            self.missing.add(path)
        self._schedule(diff, bool(batch.pending))
        settled = self.sync_at is None and not batch.not_created
        self._settled = {one.path: one for one in self._written if one.path} if settled else {}

    def _unsettled(self, upper: Sequence[Cgroup]) -> Sequence[Cgroup]:
        """Those that have to be compared: planned otherwise than written, of another process,
        with an override, or not the ones that were written."""
        executor = self._context.executor
        overridden = {path for path, _ in executor.overrides}
        return [
            group
            for group in upper
            if group.path is None
            or self._settled.get(group.path) != group
            or group.path in overridden
            or executor.is_foreign(group.path)
            or not executor.is_unchanged(group.path)
        ]

    def _with_foreign(self, diff: CgroupDiff) -> CgroupDiff:
        """Cgroups of others are never created, only planned values are written in them. What we
        wrote there, or in the root, and is not planned any more is given back."""
        executor = self._context.executor
        foreign = [row for row in diff.differences if executor.is_foreign(row.path)]
        cgroups = {
            **diff.cgroups,
            **executor.observe_written(diff.cgroups, self._read_written),
        }
        back = self._given_back(cgroups)
        if not foreign and not back.rows:
            return diff
        incomplete = self._incomplete(diff)
        rows = [
            row
            for row in diff.differences
            if not executor.is_foreign(row.path)
            or (
                row.verdict != "absent"
                and row.cause is Cause.PLANNED
                and controller(row.file) not in incomplete.get(row.path, ())
                and row.path in diff.cgroups
            )
        ]
        rows += back.rows
        for path, names in incomplete.items():
            where = f" in the hierarchy of {', '.join(names)}" if path in diff.cgroups else ""
            self._context.log.errors.append(f"{path} is reserved and does not exist{where}")
        self._context.log.differences += len(incomplete)
        steps = executor.order_phases([rows], cgroups)
        return CgroupDiff(rows, steps, diff.waiting, cgroups, diff.foreign)

    def _incomplete(self, diff: CgroupDiff) -> dict[str, tuple[str, ...]]:
        """The planned cgroups of others that are absent, or that lack these v1 controllers of
        planned values."""
        found = {}
        for group in self._context.plan.upper():
            if group.path is None or not self._context.executor.is_foreign(group.path):
                continue
            names = lacking(group, diff.cgroups.get(group.path))
            if names is None or names:
                found[group.path] = names or ()
        return found

    def _read_written(self, path: str) -> ObservedCgroup | None:
        """A cgroup with the files that we have written in it."""
        executor = self._context.executor
        executor.watch_files(written_files(executor.journal.ledger, path))
        return executor.observer.read_cgroup(path)

    def _given_back(self, cgroups: Mapping[str, ObservedCgroup]) -> GiveBack:
        """What is to be given back; what needs it no more is written down."""
        context, executor = self._context, self._context.executor
        upper = context.plan.upper()
        root = executor.root if all(group.path != executor.root for group in upper) else ""
        apart = {
            path: one for path, one in cgroups.items() if path == root or executor.is_foreign(path)
        }
        back = executor.give_back(context.node, apart, upper)
        if back.released:
            executor.journal.record(back.released)
        context.log.notes += back.notes
        return back

    def _journal_foreign(self, steps: Sequence[Step], diff: CgroupDiff) -> None:
        """Write down which cgroups of others are written, and the values before ours in them and
        in the root."""
        executor = self._context.executor
        apart = [
            step
            for step in steps
            if step.kind == "set" and (step.path == executor.root or executor.is_foreign(step.path))
        ]
        if not apart:
            return
        others = sorted({step.path for step in apart if executor.is_foreign(step.path)})
        executor.adopt({path: diff.cgroups[path].identity for path in others})
        sets = []
        for step in apart:
            seen = diff.cgroups.get(step.path)
            before = None if seen is None else seen.values.get(step.file)
            sets.append(Set(step.path, step.file, before, step.value))
        executor.journal.record(sets)

    def _due(self, steps: Sequence[Step], now: float) -> list[Step]:
        """The steps that wait for no attempt of their own, nor for that at a cgroup at or above
        theirs."""
        waiting = {key for key, retry in self._retries.items() if now < retry.retry_at}
        absent = _created(steps) & {path for path, file in waiting if not file}
        return [
            step
            for step in steps
            if (step.path, step.file) not in waiting
            and absent.isdisjoint((step.path, *parents(step.path)))
        ]

    def _back_off(self, key: Key, now: float) -> None:
        """A step failed: the next attempt waits."""
        last = self._retries.get(key)
        delay = self._context.config.retry_backoff.after(last.backoff_seconds if last else 0.0)
        self._retries[key] = _Retry(delay, now + delay)

    def _schedule(self, diff: CgroupDiff, pending: bool) -> None:
        """Set when to sync again: at the next attempt, or to follow a usage down."""
        self.waiting = tuple(one.describe() for one in diff.waiting)
        now = self._context.now
        at = [retry.retry_at for retry in self._retries.values()]
        if diff.waiting or pending:
            at.append(now + self._follow_seconds)
            self._follow_seconds = min(
                self._follow_seconds * 2, self._context.config.resync_seconds
            )
        else:
            self._follow_seconds = FOLLOW_USAGE_SECONDS
        if self.missing and not at:
            at.append(now + self._context.config.retry_backoff.longest)
        self.sync_at = min(at, default=None)


def _created(steps: Iterable[Step]) -> set[str]:
    """The cgroups that steps create."""
    return {step.path for step in steps if step.kind == "create"}
