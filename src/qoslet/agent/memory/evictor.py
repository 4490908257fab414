"""Evicts a pod through its runtime, verifies and measures that, and restarts it later."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

from qoslet.agent.memory.guard_actions import PendingKills
from qoslet.agent.memory_ports import SharedSegments
from qoslet.agent.pods.teardown import stop
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker, never_restarts
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.memory.breakdown import human_bytes
from qoslet.core.memory.sample import MemorySample, NodeMemory, SharedSegment
from qoslet.core.pressure.eviction_ranking import Candidate, PressureReport, PressureRow

REASON = "Evicted"
"""As a kubelet calls it."""
SETTLE_SECONDS = 2.0
"""Seconds after an end in which nobody else is ended: what was freed is still being used."""
MAX_DECISIONS = 50
"""Decisions that are remembered."""
EXIT_TIMEOUT_SECONDS = 10.0
"""Seconds after which a victim that is not gone does not hold up others; anew with each
``FREED_BYTES`` that come back while its volumes are being removed."""
FREED_BYTES = 1 << 20
"""Bytes by which available memory has to rise to count as coming back."""


class _PendingEviction(Struct):
    """A victim that was stopped at ``at`` for the cgroup ``path``, with the memory available
    then. ``ended``: its processes are gone. ``most``: the most memory that was available since, at
    ``most_at``. ``left``: what of System V shared memory outlives it."""

    worker: PodWorker
    path: str
    at: float
    available: int
    frees: int
    most: int
    most_at: float
    left: Sequence[SharedSegment] = ()
    ended: bool = False


class _RestartDelay(Struct):
    """When an evicted pod restarts, and when it did last."""

    delay: float
    at: float
    begun: float | None = None


class Evictor:
    """Evicts one pod at a time."""

    def __init__(self, context: SyncContext, segments: SharedSegments | None = None) -> None:
        self._context = context
        self._segments = segments
        self._rows: deque[PressureRow] = deque(maxlen=MAX_DECISIONS)
        self._counts: dict[str, int] = {}
        self._pending: _PendingEviction | None = None
        self._quiet_until = 0.0
        self._last = ""
        self._restarts: dict[str, _RestartDelay] = {}
        self._kills = PendingKills(context)

    def record(self, row: PressureRow, line: str) -> None:
        """Keep, count and log a decision."""
        self._rows.append(row)
        self._counts[row.verdict] = self._counts.get(row.verdict, 0) + 1
        self._context.log.notes.append(line)

    def report(self) -> PressureReport:
        """The decisions so far."""
        return PressureReport(tuple(self._rows), dict(self._counts))

    @property
    def in_progress(self) -> bool:
        """Whether a victim is still ending."""
        return self._pending is not None

    @property
    def settling(self) -> bool:
        """Whether the last eviction is too recent for another."""
        return self._context.now < self._quiet_until

    @property
    def because(self) -> str:
        """Why no other pod is evicted meanwhile."""
        if self._pending is not None:
            seconds, key = self._context.now - self._pending.at, self._pending.worker.key
            if self._pending.ended:
                return f"{key} was evicted {seconds:.1f} s ago, its volumes are being removed"
            return f"{key} has been stopping for {seconds:.1f} s"
        return f"{self._last} has just been evicted"

    def evict(
        self, victim: Candidate, path: str, message: str, node: NodeMemory, now: float
    ) -> None:
        """Stop a pod at once, for the cgroup ``path``; one that ends already goes on as it would have."""
        worker = self._context.workers[victim.uid]
        if worker.phase is not WorkerPhase.TERMINATING:
            self._fail(worker, message, now)
        had = node.available
        left = self._left_by(worker)
        self._pending = _PendingEviction(worker, path, now, had, victim.freed, had, now, left)
        self._kills.expect(worker, [one.name for one in worker.container_states])
        stop(self._context, worker, 0.0)

    def _fail(self, worker: PodWorker, message: str, now: float) -> None:
        """Let a pod count as evicted, and begin again after a back-off."""
        config = self._context.config.eviction_backoff
        before = self._restarts.get(worker.uid)
        fresh = before is None or (
            before.begun is not None and now - before.begun >= config.reset_after
        )
        delay = config.after(0.0 if fresh or before is None else before.delay)
        self._restarts[worker.uid] = _RestartDelay(delay, now + delay)
        worker.failed, worker.restart_pending = True, False
        worker.eviction_reason = (REASON, message)

    def follow(self, samples: Mapping[str, MemorySample], node: NodeMemory, now: float) -> bool:
        """Check whether the victim is gone; True in the sync in which it is."""
        self._kills.kill_overdue()
        pending = self._pending
        if pending is None:
            return False
        worker, seconds = pending.worker, now - pending.at
        note = self._context.log.notes.append
        # not each sync has a sample of it
        ended = pending.ended = pending.ended or _has_ended(worker, samples)
        if ended and pending.left:
            self._remove_segments(pending)
            return False
        if node.available >= pending.most + FREED_BYTES:
            pending.most, pending.most_at = node.available, now
        if not worker.cleanup_done:
            # its memory volumes hold what it wrote there
            if now - (pending.most_at if ended else pending.at) < EXIT_TIMEOUT_SECONDS:
                return False
            self._pending = None
            left = sum(samples[path].current for path in worker.top_cgroups if path in samples)
            text = f"{worker.key} still exists {seconds:.0f} s after its eviction"
            more = f" and holds {human_bytes(left)}"
            if ended and worker.phase is WorkerPhase.TERMINATING:
                more = ": its processes have ended, and its runtime does not tell so"
            elif ended:
                more = ": its volumes are not removed"
            note(text + more)
            return False
        self._pending = None
        self._last = worker.key
        self._quiet_until = now + SETTLE_SECONDS
        freed = node.available - pending.available
        because = f"removed {seconds:.1f} s after the decision: {human_bytes(pending.frees)} expected, {_signed(freed)} freed, {human_bytes(node.available)} available"
        wall = self._context.clock.wall()
        row = PressureRow(wall, pending.path, "ended", because, worker.key, freed)
        self.record(row, f"{worker.key} was {because}")
        return True

    def restart_due(self, now: float, *, calm: bool) -> None:
        """Restart evicted pods whose back-off is over, unless memory is still short."""
        for uid, restart in list(self._restarts.items()):
            worker = self._context.workers.get(uid)
            if worker is None:
                del self._restarts[uid]
            elif worker.eviction_reason[0] != REASON and restart.begun is None:
                # something else has begun it anew
                restart.begun = now
            elif now < restart.at or restart.begun is not None:
                continue
            elif worker.desired is None or never_restarts(worker.desired.spec):
                del self._restarts[uid]
            elif not calm:
                restart.at = now + self._context.config.eviction_backoff.first
            elif worker.phase is WorkerPhase.TERMINATED:
                restart.begun = now
                worker.restart_pending = True
                note = f"{worker.key} was evicted {restart.delay:.0f} s ago; restarting it"
                self._context.log.notes.append(note)
                stop(self._context, worker)

    def _left_by(self, worker: PodWorker) -> Sequence[SharedSegment]:
        """The segments that a pod leaves to the host, though it does not share its IPC namespace."""
        if self._segments is None or worker.pod is None or worker.pod.host_ipc:
            return ()
        observe = self._context.executor.observer.observe
        seen = [observe(path, values=False).cgroups.values() for path in worker.top_cgroups]
        return self._segments.made_by({pid for below in seen for one in below for pid in one.pids})

    def _remove_segments(self, pending: _PendingEviction) -> None:
        """Remove what a pod without processes left, before what it freed is measured."""
        assert self._segments is not None
        freed, pending.left = self._segments.remove(pending.left), ()
        if freed:
            text = f"{pending.worker.key}: removed its System V shared memory, which outlived it: {human_bytes(freed)}"
            self._context.log.notes.append(text)

    def next_at(self) -> float | None:
        """When the next evicted pod restarts; pods that still end wake the loop themselves."""
        workers = self._context.workers
        return min(
            (
                restart.at
                for uid, restart in self._restarts.items()
                if restart.begun is None
                and uid in workers
                and workers[uid].phase is WorkerPhase.TERMINATED
            ),
            default=None,
        )


def being_evicted(context: SyncContext) -> str:
    """A pod that was evicted and is not removed yet; empty if there is none."""
    return next(
        (
            worker.key
            for worker in context.workers.values()
            if worker.eviction_reason[0] == REASON and not worker.cleanup_done
        ),
        "",
    )


def _has_ended(worker: PodWorker, samples: Mapping[str, MemorySample]) -> bool:
    """Whether no process of a pod is left: its cgroups are empty or removed."""
    if worker.cleanup_done:
        return True
    seen = [samples.get(path) for path in worker.top_cgroups]
    return all(one is not None and one.populated is False for one in seen)


def _signed(amount: int) -> str:
    return human_bytes(amount) if amount >= 0 else f"-{human_bytes(-amount)}"
