"""What the guard does to a group: memory.high that is another one than planned for a while, and the
end of a container."""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.agent.pods.teardown import stop
from qoslet.agent.state.pod_worker import PodWorker, never_restarts
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.pressure.guard_decision import REASON
from qoslet.core.pressure.guard_report import OverrideRow
from qoslet.core.pressure.throttle_guard import HighOverride
from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError

HIGH = "memory.high"
KILL_GRACE_SECONDS = 2.0
"""Seconds that a stalled container gets to end by itself."""


class GuardActions:
    """One for each guard. ``overrides`` are its groups by path."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._why: dict[str, tuple[float, str]] = {}
        self.overrides: dict[str, HighOverride] = {}

    def override_for(self, path: str, planned: int, identity: int) -> HighOverride:
        """The hold of a group; a new one holds nothing yet."""
        return self.overrides.get(path) or HighOverride(
            planned, planned, self._context.now, identity
        )

    def raise_high(self, path: str, override: HighOverride, value: int, why: str) -> str:
        """Another memory.high from now on, until it is given back; what went wrong."""
        error = self._write(path, value, why)
        if error:
            return error
        times = override.raises if override.raised else override.raises + 1
        self.overrides[path] = HighOverride(
            override.planned, value, self._context.now, override.identity, times
        )
        self._why[path] = (self._context.clock.wall(), why)
        return ""

    def restore_high(self, path: str, why: str) -> str:
        """What is planned is in force again, and how often that was is remembered; what went
        wrong."""
        override = self.overrides[path]
        error = self._write(path, override.planned, why)
        if not error:
            self._context.executor.overrides.pop((path, HIGH), None)
            self._why.pop(path, None)
            self.overrides[path] = HighOverride(
                override.planned,
                override.planned,
                self._context.now,
                override.identity,
                override.raises,
            )
        return error

    def drop(self, path: str) -> None:
        """What is planned counts again; it is written with the next look at the group's pod."""
        override = self.overrides.pop(path, None)
        self._why.pop(path, None)
        self._context.executor.overrides.pop((path, HIGH), None)
        if override is None or not override.raised:
            return
        for worker in self._context.workers.values():
            if any(one.path == path for one in worker.groups):
                self._context.work_queue.add(worker.uid)

    def rows(self) -> Iterable[OverrideRow]:
        """What is held, for surfaces."""
        return [
            OverrideRow(path, override.planned, override.value, *self._why.get(path, (0.0, "")))
            for path, override in sorted(self.overrides.items())
            if override.raised
        ]

    def _write(self, path: str, value: int, why: str) -> str:
        """Set memory.high through the driver, and let what is planned follow; what went wrong."""
        context = self._context
        held, key = context.executor.overrides, (path, HIGH)
        text = "max" if value >= UNLIMITED else str(value)
        before = held.get(key)
        held[key] = text
        step = Step("set", path, HIGH, text, why=f"guard: {why}")
        batch = context.executor.perform([step], lambda one: "")
        context.log.outcomes += batch.outcomes
        error = batch.failed.get("", "")
        if error and before is None:
            del held[key]
        elif error and before is not None:
            held[key] = before
        return error


class ContainerKills:
    """Ends stalled containers through their runtime, as the policy of their pod demands."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._asked: dict[str, tuple[float, int | None]] = {}

    def kill(self, worker: PodWorker, path: str, why: str) -> str:
        """End the container of a group, or the pod's that holds most where it is the pod's; what
        went wrong."""
        context = self._context
        group = path if path in worker.container_cgroups.values() else self._largest(worker)
        name = next((name for name, at in worker.container_cgroups.items() if at == group), "")
        message = f"container {name} stalled at memory.high: {why}"
        try:
            if worker.desired is not None and never_restarts(worker.desired.spec):
                worker.failed, worker.restart_pending = True, False
                worker.eviction_reason = (REASON, message)
                stop(context, worker, min(worker.grace_seconds, KILL_GRACE_SECONDS))
                return ""
            context.runtime.restart(worker.uid, name)
        except (QosletError, OSError) as error:
            return str(error)
        worker.set_reason(REASON, message, context.clock.wall())
        self._asked[group] = (context.now + KILL_GRACE_SECONDS, _pid(worker, name))
        return ""

    def kill_overdue(self) -> None:
        """Kill those that did not end when they were asked: a stalled process hears no signal
        but the last one."""
        context = self._context
        for path, (at, pid) in list(self._asked.items()):
            if context.now < at:
                continue
            del self._asked[path]
            for worker in context.workers.values():
                states = [
                    one for one in worker.container_states if one.cgroup == path and one.running
                ]
                if any(one.pid == pid for one in states):
                    try:
                        context.killer.kill(path)
                    except (QosletError, OSError) as error:
                        context.log.errors.append(f"guard: {path}: {error}")

    def next_at(self) -> float | None:
        """When there is something to carry, in monotonic seconds."""
        return min((at for at, _ in self._asked.values()), default=None)

    def _largest(self, worker: PodWorker) -> str:
        """The group of the pod's container that uses most."""
        looks = (
            self._context.executor.observer.look(path) for path in worker.container_cgroups.values()
        )
        used = [(one.memory or 0, one.path) for one in looks if one is not None]
        return max(used)[1] if used else next(iter(worker.container_cgroups.values()), "")


def _pid(worker: PodWorker, container: str) -> int | None:
    """The process of a container."""
    return next(
        (one.pid for one in worker.container_states if one.name == container and one.running), None
    )
