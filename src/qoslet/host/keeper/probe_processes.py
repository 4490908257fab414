"""Questions that are under way as children of the keeper. Nothing here waits."""

from __future__ import annotations

import math
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from qoslet.core.workload.probes.worker import Result
from qoslet.errors import QosletError
from qoslet.host.containers.spawn import StartFailed
from qoslet.host.keeper.container_cgroups import ContainerCgroups
from qoslet.host.keeper.pod import ProcessPod
from qoslet.host.keeper.probe_process import ProbeProcess
from qoslet.host.oci.bundle_folder import ContainerFiles

T = TypeVar("T")

Place = Callable[[ProcessPod, str], ContainerFiles]
"""Where the files of a container of an OCI runtime are."""


class ProbeProcesses(Generic[T]):
    """Children until their results, each for a reason."""

    def __init__(self, groups: ContainerCgroups, place: Place, clock: Callable[[], float]) -> None:
        self._groups, self._place, self._clock = groups, place, clock
        self._epoll = select.epoll()
        self._runs: dict[int, tuple[ProbeProcess, T]] = {}
        self._owner: dict[int, ProbeProcess] = {}
        self._dying: list[ProbeProcess] = []

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def descriptor(self) -> int:
        """Readable when a child has news."""
        return self._epoll.fileno()

    @property
    def pids(self) -> set[int]:
        """The children."""
        return {one.pid for one in (*(one for one, _ in self._runs.values()), *self._dying)}

    def begin(self, pod: ProcessPod, one: ProbeProcess, reason: T) -> str | None:
        """Begin one; why it could not."""
        try:
            one.begin(pod, self._groups, self._place)
        except (OSError, StartFailed, QosletError) as error:
            return str(error) if not isinstance(error, OSError) else f"{error.strerror}"
        self._runs[id(one)] = one, reason
        self._watch(one)
        return None

    def ended(self) -> list[tuple[ProbeProcess, T, Result, str]]:
        """Those that are done, or too late."""
        now = self._clock()
        late = [one for one, _ in self._runs.values() if one.deadline <= now]
        touched = {id(one): one for one in late}
        for descriptor, _ in self._epoll.poll(0, 256):
            owner = self._owner.get(descriptor)
            if owner is not None:
                touched[id(owner)] = owner
        self._bury()
        found = []
        for one in touched.values():
            # before it is closed: children may have it too, and the kernel would go on to report it
            self._unwatch(one)
            result = one.result(now)
            if result is None:
                self._watch(one)
                continue
            reason = self._runs[id(one)][1]
            self._bury(one)
            found.append((one, reason, *result))
        return found

    def _watch(self, one: ProbeProcess) -> None:
        for descriptor in one.descriptors:
            self._owner[descriptor] = one
            self._epoll.register(descriptor, select.EPOLLIN)

    def _unwatch(self, one: ProbeProcess) -> None:
        for descriptor in one.descriptors:
            self._owner.pop(descriptor, None)
            with suppress(OSError, ValueError):
                self._epoll.unregister(descriptor)

    def _bury(self, *done: ProbeProcess) -> None:
        """Collect those that have ended; what was killed may still be about to."""
        for one in done:
            self._runs.pop(id(one), None)
        self._dying = [one for one in (*self._dying, *done) if not one.collected()]

    def next_at(self) -> float | None:
        """When one is too late; None where none can be."""
        times = [one.deadline for one, _ in self._runs.values() if one.deadline < math.inf]
        return min(times, default=None)

    def end(self, unwanted: Callable[[ProbeProcess, T], bool]) -> None:
        """Give up those that nobody wants."""
        for one, reason in list(self._runs.values()):
            if unwanted(one, reason):
                self._unwatch(one)
                one.kill()
                self._bury(one)

    def close(self) -> None:
        """End what is under way."""
        self.end(lambda _, __: True)
        for one in self._dying:
            one.close()
        self._epoll.close()
