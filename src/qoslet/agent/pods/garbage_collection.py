"""Removes cgroups of ours that no pod has, and volumes of unknown pods, one at a time; reports what
is in them first."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.agent.pods.teardown import VOLUME_SECONDS, deepest_first
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.names import is_at_or_below, monitors_of, parents
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError


class _Orphan(Struct):
    """One of them: when to try, the last delay, and what was reported of it last. ``pod``: the cgroup of the
    pod in which it is of no container; nothing is ended there."""

    retry_at: float
    pod: str = ""
    backoff_seconds: float = 0.0
    reported: str = ""


class _PlannedCgroups:
    """The cgroups that the plan and the pods have, those above them, and all below their containers'."""

    def __init__(self, context: SyncContext) -> None:
        standing = [one for one in context.workers.values() if not one.cleanup_done]
        upper = {group.path for group in context.plan.upper() if group.path is not None}
        tops = {top for worker in standing for top in worker.top_cgroups}
        self._known = upper | tops
        self._above = {path for one in self._known for path in parents(one)}
        self._pods = tops - upper
        self._containers = {path for one in standing for path in one.container_cgroups.values()}
        placed = (one for worker in standing for one in worker.placed_cgroups)
        self._containers |= {one.path for one in placed if one.path and one.container is not None}

    def has(self, path: str) -> bool:
        """Whether nothing is to be removed there."""
        in_container = any(one in self._containers for one in (path, *parents(path)))
        return path in self._known or path in self._above or in_container

    def pod_around(self, path: str) -> str:
        """The cgroup of the pod in which it is; empty if in none."""
        return next((one for one in parents(path) if one in self._pods), "")


class GarbageCollector:
    """Collects orphans: topmost cgroups by path, volumes by the UID of their pod."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._cgroups: dict[str, _Orphan] = {}
        self._volumes: dict[str, _Orphan] = {}
        self._foreign: set[str] = set()
        self._next = 0.0

    @property
    def count(self) -> int:
        """How many are known."""
        return len(self._cgroups) + len(self._volumes)

    def find(self, seen: Observed) -> None:
        """Compare everything that exists with what the pods have."""
        context, now = self._context, self._context.now
        planned = _PlannedCgroups(context)
        found: dict[str, str] = {}
        for path, group in seen.cgroups.items():
            if planned.has(path) or any(one in found for one in parents(path)):
                continue
            if pod := planned.pod_around(path):
                made = context.executor.journal.ledger.is_owned(path, group.identity)
                if made and _is_unused(path, pod, seen):
                    found[path] = pod
            elif context.executor.is_owned(path, group.identity):
                found[path] = ""
            elif path not in self._foreign:
                self._foreign.add(path)
                context.log.notes.append(f"{path}: another process created this cgroup: leaving it")
        self._cgroups = {
            path: self._cgroups.get(path) or _Orphan(now, pod) for path, pod in found.items()
        }
        self._foreign &= seen.cgroups.keys()
        self._find_volumes(now)
        self._forget_lost(seen)

    def _forget_lost(self, seen: Observed) -> None:
        """Record as gone the cgroups that another process removed and that are not to be created
        again."""
        context = self._context
        standing = (
            worker.cgroups for worker in context.workers.values() if not worker.cleanup_done
        )
        paths = {group.path for groups in (context.plan.upper(), *standing) for group in groups}
        try:
            lost = context.executor.reconcile_journal(
                seen, {path for path in paths if path is not None}
            )
        except (QosletError, OSError) as error:
            context.log.errors.append(f"the journal: {error}")
            return
        steps = [Step("remove", path, why="it no longer exists") for path in deepest_first(lost)]
        context.log.errors += context.executor.perform(
            steps, lambda step: step.path
        ).failed.values()

    def _find_volumes(self, now: float) -> None:
        """Find volumes of unknown pods."""
        context = self._context
        try:
            standing = context.volumes.existing()
        except (QosletError, OSError) as error:
            context.log.errors.append(f"volumes: {error}")
            return
        gone = standing.keys() - context.workers.keys()
        self._volumes = {uid: self._volumes.get(uid) or _Orphan(now) for uid in sorted(gone)}

    def sync(self) -> None:
        """Remove one orphan, if it is time."""
        now = self._context.now
        if now < self._next:
            return
        for path, orphan in self._cgroups.items():
            if now >= orphan.retry_at:
                if self._remove(path, orphan):
                    del self._cgroups[path]
                self._next = now + self._context.config.collection_seconds
                return
        for uid, orphan in self._volumes.items():
            if now >= orphan.retry_at:
                if self._remove_volumes(uid, orphan):
                    del self._volumes[uid]
                self._next = now + self._context.config.collection_seconds
                return

    def next_at(self) -> float | None:
        """When the next one is to be tried."""
        waits = [one.retry_at for one in (*self._cgroups.values(), *self._volumes.values())]
        return max(min(waits), self._next) if waits else None

    def _remove(self, path: str, orphan: _Orphan) -> bool:
        """Kill what is in a cgroup and remove it; returns whether it is gone. A manifest that cannot be read
        may have the pod: its processes stay until it can."""
        context = self._context
        below = context.executor.observer.observe(path, values=False).cgroups
        is_busy = any(one.pids for one in below.values())
        unread = context.desired.unread.faulty if context.desired is not None and is_busy else ()
        fault = min(unread, default="")
        plan = f"leaving it while {fault} cannot be read" if fault else "removing it"
        if orphan.reported != plan:
            orphan.reported = plan
            whose = f"no container of {orphan.pod}" if orphan.pod else "no pod"
            context.log.notes.append(f"{path} belongs to {whose} ({self._describe(below)}): {plan}")
        try:
            if is_busy and (fault or orphan.pod or not context.killer.kill(path)):
                self._back_off(orphan)
                return False
        except (QosletError, OSError) as error:
            self._back_off(orphan)
            context.log.errors.append(f"{path}: {error}")
            return False
        steps = [Step("remove", one, why="no pod uses it") for one in deepest_first(below)]
        batch = context.executor.perform(steps, lambda step: "orphan")
        context.log.outcomes += batch.outcomes
        context.log.errors += batch.failed.values()
        if batch.failed:
            self._back_off(orphan)
        return not batch.failed

    def _describe(self, below: Mapping[str, ObservedCgroup]) -> str:
        """The processes in it, in a few words."""
        occupied = {path: one.pids for path, one in below.items() if one.pids}
        if not occupied:
            return "empty"
        some = [
            self._context.killer.describe_processes(path, pids) for path, pids in occupied.items()
        ]
        return ", ".join(some[:4]) + (" and more" if len(some) > 4 else "")

    def _remove_volumes(self, uid: str, orphan: _Orphan) -> bool:
        """Remove the volumes of an unknown pod; returns whether they are gone."""
        context = self._context
        if not orphan.reported:
            orphan.reported = uid
            context.log.notes.append(f"removing volumes of unknown pod {uid}")
        try:
            gone = context.volumes.remove(uid)
        except (QosletError, OSError) as error:
            self._back_off(orphan)
            context.log.errors.append(f"volumes of pod {uid}: {error}")
            return False
        if not gone:
            orphan.retry_at = context.now + VOLUME_SECONDS
        return gone

    def _back_off(self, orphan: _Orphan) -> None:
        """Try it again later, and later each time."""
        policy = self._context.config.retry_backoff
        orphan.backoff_seconds = policy.after(orphan.backoff_seconds)
        orphan.retry_at = self._context.now + orphan.backoff_seconds


def _is_unused(path: str, pod: str, seen: Observed) -> bool:
    """Whether a cgroup of ours in a pod's, of none of its containers, is empty: the pod was edited before it was
    started, and no agent saw both."""
    inside = (one for other, one in seen.cgroups.items() if is_at_or_below(other, path))
    return path != monitors_of(pod) and not any(one.pids for one in inside)
