"""The loop: it syncs when a manifest changes, a container changes or a back-off is over, and at
each interval while the screen is watched.

Whatever ends the loop (its time, a signal, an error, the end of all pods), it removes what it
created, unless pods are to be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from qoslet.agent.config import Config
from qoslet.agent.ports import Clock, Source
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.shutdown import end
from qoslet.agent.snapshots import SyncResult
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.core.problem import plural
from qoslet.core.status.run_outcome import EndCause
from qoslet.core.status.snapshot import Snapshot
from qoslet.core.workload.pod_status import PodRow
from qoslet.errors import SHORTAGES, CannotDo

SHORTAGE_SECONDS = 1.0
"""Wait until the next sync where the machine is short of something."""

LONGEST_SLEEP_SECONDS = 3600.0
"""The loop wakes at least this often."""


class StopSignal(Protocol):
    """Asks the loop to end, or to read its configuration again."""

    def requested(self) -> int:
        """How often the end was requested: once ends the loop, twice cuts grace periods short."""

    def reload(self) -> bool:
        """Whether a reload was requested since the last call."""


class RunResult(Struct, frozen=True):
    """Why the loop ended, and the pods as they were before it stopped them."""

    cause: EndCause
    pods: tuple[PodRow, ...]


class Surface(Protocol):
    """Shows what happens."""

    def synced(self, result: SyncResult) -> None:
        """A sync is done."""

    def publish(self, snapshot: Snapshot) -> None:
        """The state of everything, at each interval and after each sync that did something."""

    def log(self, line: str) -> None:
        """One line besides, such as that the shutdown begins."""


def run(
    config: Config,
    reconciler: Reconciler,
    source: Source,
    clock: Clock,
    stop: StopSignal,
    surface: Surface,
    *,
    reload: Callable[[], None] = lambda: None,
    undo: Callable[[], list[str]] = list,
    ending: Callable[[], None] = lambda: None,
) -> RunResult:
    """Sync until the end is requested, ``config.duration_seconds`` are over or every pod has ended
    (unless pods are to be kept), then remove everything.

    ``reload`` reads the configuration again, ``undo`` restores cgroups of others,
    ``ending`` is called again and again while pods are stopped. Raises ``CannotDo`` naming what is
    left.
    """
    begun = clock.monotonic()
    synced = False
    left: list[str] = []
    try:
        cause = EndCause.REQUESTED
        while not stop.requested():
            if stop.reload():
                reload()
            synced = _sync(config, reconciler, source, surface, whole=not synced)
            if synced and reconciler.has_ended and not config.keep_pods:
                cause = EndCause.PODS_ENDED
                break
            wait = _wait(config, reconciler, clock.monotonic()) if synced else SHORTAGE_SECONDS
            if config.duration_seconds is not None:
                left_over = begun + config.duration_seconds - clock.monotonic()
                if left_over <= 0:
                    cause = EndCause.TIME
                    break
                wait = min(wait, left_over)
            clock.sleep(max(0.0, wait))
        ended = RunResult(cause, reconciler.pod_rows())
    finally:
        left = _finish(config, reconciler, stop, surface, undo, ending)
    if left:
        raise CannotDo(
            f"cleanup incomplete, {len(left)} left: {left[0]}",
            where=config.root,
            hint="find the processes with: cat cgroup.procs below the root; once they are gone, qoslet release removes the rest",
        )
    return ended


def _sync(
    config: Config, reconciler: Reconciler, source: Source, surface: Surface, *, whole: bool
) -> bool:
    """One sync, shown; False where the machine is short of something: then nothing was shown, and
    the next one is to look at everything."""
    watched = config.interval_seconds is not None
    try:
        result = reconciler.sync(source.current(), whole=watched or whole)
    except OSError as error:
        if error.errno not in SHORTAGES:
            raise
        reconciler.context.log_note(f"a sync was postponed: {error.strerror}")
        return False
    surface.synced(result)
    if watched:
        surface.publish(reconciler.snapshot())
    return True


def _finish(
    config: Config,
    reconciler: Reconciler,
    stop: StopSignal,
    surface: Surface,
    undo: Callable[[], list[str]],
    ending: Callable[[], None],
) -> list[str]:
    """Keep the pods or remove everything, whatever becomes of the surface; returns what is
    left."""
    stopping = reconciler.count_in(WorkerPhase.TERMINATING)
    running = reconciler.count_in(WorkerPhase.RUNNING)
    if config.keep_pods:
        if running:
            surface.log(f"{plural(running, 'pod')} kept running for the next run")
        if stopping:
            surface.log(
                f"{plural(stopping, 'pod')} still stopping; the next run or release goes on"
            )
        return []
    left: list[str] = []
    try:
        if count := running + stopping:
            surface.log(f"stopping {plural(count, 'pod')}; press Ctrl-C again to kill them")
    finally:
        left = end(reconciler, lambda: stop.requested() > 1, undo, surface.log, ending)
    return left


def _wait(config: Config, reconciler: Reconciler, now: float) -> float:
    """Seconds until something is due that no descriptor announces."""
    due = reconciler.next_at()
    wait = LONGEST_SLEEP_SECONDS if due is None else due - now
    return wait if config.interval_seconds is None else min(wait, config.interval_seconds)
