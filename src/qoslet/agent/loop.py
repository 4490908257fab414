"""When to turn the wheel: when a manifest changes, a container does something, a back-off is over;
and at each interval where somebody watches.

Whatever ends the loop (its time, a signal, an error), what it made is removed, unless it is to
be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from qoslet.agent.config import Config
from qoslet.agent.ports import Clock, Source
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.shutdown import end
from qoslet.agent.snapshots import SyncResult
from qoslet.core.status.snapshot import Snapshot
from qoslet.errors import CannotDo

LONGEST_SLEEP_SECONDS = 3600.0
"""Seconds that the loop sleeps at most."""


class StopSignal(Protocol):
    """Who wants the loop to end, or to read its configuration again."""

    def requested(self) -> int:
        """How often it was asked to end: once is enough, twice hurries."""

    def reload(self) -> bool:
        """Whether it was asked to read its configuration again, since the last time asked."""


class Surface(Protocol):
    """Whoever is told what happens."""

    def synced(self, turn: SyncResult) -> None:
        """A turn is over."""

    def publish(self, snapshot: Snapshot) -> None:
        """Everything as it stands, at each interval and after each turn that did something."""

    def log(self, line: str) -> None:
        """One line beside that, such as that the ending begins."""


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
) -> SyncResult | None:
    """Turn until asked to end or ``config.lasts`` seconds are over, then remove everything.

    Returns the last result, None without any sync. Raises ``CannotDo`` naming what is left.
    """
    begun = clock.monotonic()
    left: list[str] = []
    try:
        while not stop.requested():
            if stop.reload():
                reload()
            watched = config.interval_seconds is not None
            surface.synced(reconciler.sync(source.current(), whole=watched))
            if watched:
                surface.publish(reconciler.snapshot())
            wait = _wait(config, reconciler, clock.monotonic())
            if config.duration_seconds is not None:
                left_over = begun + config.duration_seconds - clock.monotonic()
                if left_over <= 0:
                    break
                wait = min(wait, left_over)
            clock.sleep(max(0.0, wait))
    finally:
        if config.keep_pods:
            if reconciler.started_uids:
                kept = len(reconciler.started_uids)
                surface.log(f"{_pods(kept)} kept running for the next run")
        else:
            if reconciler.started_uids:
                surface.log(
                    f"stopping {_pods(len(reconciler.started_uids))}; press Ctrl-C again to kill them"
                )
            left = end(reconciler, lambda: stop.requested() > 1, undo)
    if left:
        raise CannotDo(
            f"cleanup incomplete, {len(left)} left: {left[0]}",
            where=config.root,
            hint="find the processes with: cat cgroup.procs below the root",
        )
    return reconciler.last_result


def _wait(config: Config, reconciler: Reconciler, now: float) -> float:
    """Seconds until something is due that no descriptor tells."""
    due = reconciler.next_at()
    wait = LONGEST_SLEEP_SECONDS if due is None else due - now
    return wait if config.interval_seconds is None else min(wait, config.interval_seconds)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
