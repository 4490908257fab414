"""When to turn the wheel: at each interval, when a container ends, when manifests change.

Whatever ends the loop (its time, a signal, an error), what it made is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from qoslet.agent.config import Config
from qoslet.agent.cycle import Desired, Wheel
from qoslet.agent.ports import Clock
from qoslet.core.snapshot import Snapshot
from qoslet.errors import CannotDo


class Stop(Protocol):
    """Who wants the loop to end."""

    def requested(self) -> int:
        """How often it was asked to end: once is enough, twice hurries."""


class Source(Protocol):
    """Where the desired state comes from."""

    def current(self) -> Desired:
        """What should be now; the last good state where the input has become bad."""


def run(
    config: Config,
    wheel: Wheel,
    source: Source,
    clock: Clock,
    stop: Stop,
    publish: Callable[[Snapshot], None],
    say: Callable[[str], None] = lambda line: None,
) -> Snapshot | None:
    """Turn until asked to end or ``config.lasts`` seconds are over, then remove everything.

    ``say`` is told when the ending begins. Returns the last snapshot, None if
    it was asked to end before the first turn. Raises ``CannotDo`` naming what could not be removed.
    """
    begun = clock.monotonic()
    snapshot = None
    left: list[str] = []
    try:
        while not stop.requested():
            snapshot = wheel.turn(source.current())
            publish(snapshot)
            wait = config.interval
            if config.lasts is not None:
                wait = min(wait, begun + config.lasts - clock.monotonic())
            if wait <= 0:
                break
            clock.sleep(wait)
    finally:
        if wheel.started:
            say(f"ending {len(wheel.started)} pods; Ctrl-C again ends them at once")
        left = wheel.end(lambda: stop.requested() > 1)
    if left:
        raise CannotDo(
            f"{len(left)} things could not be undone: {left[0]}",
            where=config.root,
            hint="see what holds them: cat cgroup.procs below the root",
        )
    return snapshot
