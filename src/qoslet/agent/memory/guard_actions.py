"""Carries out the guard's decisions: writes memory.high, kills containers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from qoslet.agent.pods.teardown import stop
from qoslet.agent.state.pod_worker import PodWorker, container_paths, never_restarts
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
    """Writes memory.high and remembers every override by its cgroup."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._why: dict[str, tuple[float, str]] = {}
        self.overrides: dict[str, HighOverride] = {}

    def override_for(self, path: str, planned: int, identity: int) -> HighOverride:
        """The override of a cgroup, or one that raises nothing."""
        return self.overrides.get(path) or HighOverride(
            planned, planned, self._context.now, identity
        )

    def raise_high(self, path: str, override: HighOverride, value: int, why: str) -> str:
        """Write another memory.high until it is restored. Returns the error, empty if none."""
        error = self._adopt(path, override.identity) or self._write(path, value, why)
        if error:
            return error
        times = override.raises if override.raised else override.raises + 1
        self.overrides[path] = HighOverride(
            override.planned,
            value,
            self._context.now,
            override.identity,
            times,
            doubted=override.doubted,
        )
        self._why[path] = (self._context.clock.wall(), why)
        return ""

    def restore_high(self, path: str, why: str) -> str:
        """Write the planned memory.high and remember the number of raises. Returns the error, empty
        if none."""
        override = self.overrides[path]
        error = self._adopt(path, override.identity) or self._write(path, override.planned, why)
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
        """Forget an override; the next sync of the pod writes the planned value."""
        override = self.overrides.pop(path, None)
        self._why.pop(path, None)
        self._context.executor.overrides.pop((path, HIGH), None)
        if override is None or not override.raised:
            return
        for worker in self._context.workers.values():
            if any(one.path == path for one in worker.placed_cgroups):
                self._context.work_queue.add(worker.uid)

    def rows(self) -> Iterable[OverrideRow]:
        """The raised values, for surfaces."""
        return [
            OverrideRow(path, override.planned, override.value, *self._why.get(path, (0.0, "")))
            for path, override in sorted(self.overrides.items())
            if override.raised
        ]

    def _adopt(self, path: str, identity: int) -> str:
        """Write down that a cgroup which a runtime made where it chose holds a value of ours: each sync
        keeps that file as planned from then on, the next agent's, too. Returns the error, empty if
        none."""
        context = self._context
        if not any(path in worker.named_paths.values() for worker in context.workers.values()):
            return ""
        if context.executor.observer.identity(path) != identity:
            return f"{path}: the cgroup is gone"
        try:
            context.executor.adopt({path: identity})
        except (QosletError, OSError) as error:
            return str(error)
        return ""

    def _write(self, path: str, value: int, why: str) -> str:
        """Write memory.high through the driver and tell the executor to keep it. Returns the error,
        empty if none."""
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


class PendingKills:
    """Kills what a runtime was to end and did not: one that hangs, or gets no memory, ends nothing."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._asked: dict[str, tuple[float, int | None]] = {}

    def expect(self, worker: PodWorker, names: Collection[str]) -> None:
        """The runtime was asked to end these containers of a pod."""
        at = self._context.now + KILL_GRACE_SECONDS
        for one in worker.container_states:
            if one.name in names and one.running and one.cgroup:
                self._asked[one.cgroup] = (at, one.pid)

    def kill_overdue(self) -> None:
        """Kill containers that did not end in time: a stalled process handles no SIGTERM."""
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
                    late = f"its runtime has not ended it for {KILL_GRACE_SECONDS:.0f} s"
                    context.log.notes.append(f"guard: killed the processes of {path}: {late}")
                    try:
                        context.killer.kill(path)
                    except (QosletError, OSError) as error:
                        context.log.errors.append(f"guard: {path}: {error}")

    def next_at(self) -> float | None:
        """When the next container is overdue, in monotonic seconds."""
        return min((at for at, _ in self._asked.values()), default=None)


class ContainerKills(PendingKills):
    """Kills stalled containers through their runtime, as the restart policy demands."""

    def kill(self, worker: PodWorker, path: str, why: str) -> str:
        """Restart or stop the container of a cgroup; of a pod's cgroup, the container that uses
        most. Returns the error, empty if none."""
        context = self._context
        paths = container_paths(worker.placed_cgroups)
        group = path if path in paths.values() else self._largest(paths.values())
        name = next((name for name, at in paths.items() if at == group), "")
        message = f"container {name} stalled at memory.high: {why}"
        try:
            if worker.desired is not None and never_restarts(worker.desired.spec):
                worker.failed, worker.restart_pending = True, False
                worker.eviction_reason = (REASON, message)
                self.expect(worker, paths)
                stop(context, worker, min(worker.grace_seconds, KILL_GRACE_SECONDS))
                return ""
            if not name:
                return f"{worker.key}: its runtime does not tell where its containers are"
            context.runtime.restart(worker.uid, name)
        except (QosletError, OSError) as error:
            return str(error)
        worker.set_reason(REASON, message, context.clock.wall())
        self.expect(worker, [name])
        return ""

    def _largest(self, paths: Collection[str]) -> str:
        """The cgroup of a pod's containers that uses most memory."""
        looks = map(self._context.executor.observer.read_cgroup, paths)
        used = [(one.memory or 0, one.path) for one in looks if one is not None]
        return max(used)[1] if used else next(iter(paths), "")
