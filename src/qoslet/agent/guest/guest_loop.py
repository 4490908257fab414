"""The loop of the agent beside a kubelet: it syncs when something happens, and by time; at its end
everything holds again what it held before, unless values are to be kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from qoslet.agent.guest.guest_agent import GuestAgent
from qoslet.agent.ports import Clock
from qoslet.core.guest.status import GuestSync
from qoslet.core.problem import plural

if TYPE_CHECKING:
    from qoslet.agent.loop import StopSignal


class GuestSurface(Protocol):
    """Shows what happens."""

    def synced(self, done: GuestSync) -> None:
        """A sync is done."""

    def log(self, line: str) -> None:
        """One line besides."""

    def warn(self, line: str) -> None:
        """One line besides that somebody should look at."""


def run(
    agent: GuestAgent,
    clock: Clock,
    stop: StopSignal,
    surface: GuestSurface,
    *,
    keep: bool = False,
    seconds: float | None = None,
    mend: Callable[[], None] = lambda: None,
) -> None:
    """Sync until the end is requested, or for so many ``seconds``. Raises QosletError where the first
    sync cannot be done, CannotDo where something cannot be restored."""
    until = None if seconds is None else clock.monotonic() + seconds
    try:
        while not stop.requested():
            mend()
            surface.synced(agent.sync())
            wait = agent.wait_seconds()
            if until is not None:
                wait = min(wait, until - clock.monotonic())
                if wait <= 0:
                    break
            clock.sleep(wait)
    finally:
        if agent.condition is not None and not keep and (fault := agent.condition.withdraw()):
            surface.warn(fault)
        held = len(agent.executor.journal.ledger.files)
        if keep and held:
            surface.log(f"{plural(held, 'value')} kept for the next agent")
        elif held:
            surface.log(f"restoring {plural(held, 'value')}")
            for line in agent.release():
                surface.warn(line)
            surface.log("no value of the agent is left")
