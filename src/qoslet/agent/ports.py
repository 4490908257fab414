"""What the loop needs from its surroundings. Real and simulated parts match these by shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.observed import Observed
from qoslet.core.pod import Pod
from qoslet.core.steps import Outcome, Step


class Driver(Protocol):
    """Performs steps on a kernel, in the order given."""

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        """Do each step; stop after the first that fails. One outcome for each step tried."""

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""


class Observer(Protocol):
    """Reads a kernel."""

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``; an absent root gives no cgroups."""


class Clock(Protocol):
    """Time, so that tests need none."""

    def monotonic(self) -> float:
        """Seconds since some start."""

    def sleep(self, seconds: float) -> bool:
        """Wait; False if the wait was cut short because the loop should end."""


class ContainerState(Struct, frozen=True, gc=False):
    """A container as the runtime sees it. ``exit_code`` is set once it ended; ``oom_killed``
    tells that the kernel killed it at its memory limit."""

    pod_uid: str
    name: str
    cgroup: str
    running: bool
    pid: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    reason: str = ""
    oom_killed: bool = False


class Runtime(Protocol):
    """Starts and ends the containers of pods inside cgroups that exist already."""

    def start(self, pod: Pod, cgroups: dict[str, str]) -> None:
        """Begin ``pod``; ``cgroups`` maps each container's name to its concrete path."""

    def poll(self) -> Iterable[ContainerState]:
        """Advance (init order, restarts with back-off) and tell the state of every container."""

    def stop(self, pod_uid: str, grace_seconds: float) -> None:
        """End a pod's containers: SIGTERM, then after the grace period kill; verified gone."""
