"""What the loop needs from its surroundings. Real and simulated parts match these by shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from qoslet.core.observed import Observed
from qoslet.core.pod import Pod
from qoslet.core.podlife import ContainerState
from qoslet.core.podspec import MemoryVolume
from qoslet.core.steps import Outcome, Step


class Driver(Protocol):
    """Performs steps on a kernel, in the order given."""

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        """Do each step; stop after the first that fails. One outcome for each step tried; one
        that cannot be done at once is pending, and the next ones are tried."""

    def settled(self) -> list[Outcome]:
        """What came of pending steps: of one that is over once, of one that goes on each time,
        still pending."""

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""


class Observer(Protocol):
    """Reads a kernel."""

    def watch(self, files: Iterable[str]) -> None:
        """Read these settings, too, from now on: the known ones are always read."""

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``; an absent root gives no cgroups."""


class Clock(Protocol):
    """Time, so that tests need none."""

    def monotonic(self) -> float:
        """Seconds since some start."""

    def sleep(self, seconds: float) -> bool:
        """Wait; False if the wait was cut short because the loop should end."""


class Runtime(Protocol):
    """Starts and ends the containers of pods inside cgroups that exist already."""

    def start(self, pod: Pod, cgroups: dict[str, str]) -> None:
        """Begin ``pod``; ``cgroups`` maps each container's name to its concrete path."""

    def poll(self) -> Iterable[ContainerState]:
        """Advance (init order, restarts with back-off) and tell the state of every container."""

    def stop(self, pod_uid: str, grace_seconds: float) -> None:
        """Begin to end a pod; ``poll`` carries it through: SIGTERM, after the grace period
        SIGKILL, verified gone. It is over when no container is running. Stopping again with a
        shorter grace period hurries."""

    def forget(self, pod_uid: str) -> None:
        """Drop a pod whose containers have all ended; one that is not known is no fault."""


class Volumes(Protocol):
    """Keeps the memory-backed volumes of pods: from before their containers start until they
    have ended for good."""

    def provide(self, uid: str, volumes: Sequence[MemoryVolume]) -> Mapping[str, str]:
        """Make what is not there yet, and the host's directory of each volume by its name.
        Raises ``QosletError`` where one cannot be had."""

    def remove(self, uid: str) -> None:
        """Give a pod's volumes back; one that has none is no fault. Raises ``CannotDo`` with
        the holders where something uses them still."""

    def standing(self) -> Mapping[str, tuple[str, ...]]:
        """Pod UID to volume names of all that stand, those of earlier agents too."""
