"""The process runtime in the process of the loop itself, which ends all at its own end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from qoslet.core.pod import Pod
from qoslet.core.podlife import ContainerState
from qoslet.core.podspec import PodSpec
from qoslet.host.runtimes.logread import Fresh
from qoslet.host.runtimes.logs import Logs, remove_tree
from qoslet.host.runtimes.process import ProcessRuntime
from qoslet.host.runtimes.records import Records


class _Driver(Protocol):
    def join_fds(self, path: str) -> list[int]:
        """As ``groups.Groups``."""

    def members(self, path: str) -> set[int]:
        """As ``groups.Groups``."""

    def oom_kills(self, path: str) -> int | None:
        """As ``groups.Groups``."""

    def kill(self, path: str) -> bool:
        """End every process of the group and below; True once none is left."""


class _Groups:
    """The groups of a driver."""

    def __init__(self, driver: _Driver) -> None:
        self.join_fds = driver.join_fds
        self.members = driver.members
        self.oom_kills = driver.oom_kills
        self.strike = driver.kill


class InProcess:
    """Matches ``agent.cycle.Runtime``. ``folder`` is the state folder of the root."""

    def __init__(self, driver: _Driver, spec_of: Callable[[str], PodSpec], folder: str) -> None:
        self._folder = folder
        self._spec_of = spec_of
        logs = Logs(f"{folder}/logs")
        self.runtime = ProcessRuntime(
            _Groups(driver), logs, Records(f"{folder}/keeper", "none"), adopts=True
        )
        self.fresh = Fresh(logs.folder).lines

    def start(self, pod: Pod, cgroups: dict[str, str]) -> None:
        """Begin ``pod``."""
        self.runtime.start(self._spec_of(pod.uid), cgroups)

    def poll(self) -> tuple[ContainerState, ...]:
        """Advance and tell the state of every container."""
        return self.runtime.poll()

    def stop(self, pod_uid: str, grace_seconds: float) -> None:
        """Begin to end a pod."""
        self.runtime.stop(pod_uid, grace_seconds)

    def forget(self, pod_uid: str) -> None:
        """Drop a pod whose containers have all ended."""
        self.runtime.forget(pod_uid)

    def close(self) -> None:
        """Remove what was kept on disk."""
        self.runtime.close()
        remove_tree(f"{self._folder}/keeper")
