"""The probes of the pods that the process runtime keeps: begun when they are due, counted when they
are done. Nothing here waits.
"""

from __future__ import annotations

import heapq
import random
import select
from collections.abc import Callable, Mapping

from qoslet.core.workload.probes.pod import DueProbe, PodProbes
from qoslet.core.workload.probes.worker import Result
from qoslet.errors import QosletError
from qoslet.host.containers.spawn import StartFailed
from qoslet.host.keeper.container_cgroups import ContainerCgroups
from qoslet.host.keeper.pod import ProcessPod
from qoslet.host.keeper.probe_process import ProbeProcess
from qoslet.host.oci.bundle_folder import ContainerFiles

AT_ONCE = 64
"""Probes that are under way at a time; further ones wait for the next end of one."""

LATER_SECONDS = 0.05
"""How long a pod waits whose probes had no place."""


class KeeperProbes:
    """Probes of all pods. ``place`` tells where the files of a container of an OCI runtime are."""

    def __init__(
        self,
        groups: ContainerCgroups,
        place: Callable[[ProcessPod, str], ContainerFiles],
        clock: Callable[[], float],
    ) -> None:
        self._groups, self._place, self._clock = groups, place, clock
        self._epoll = select.epoll()
        self._pods: dict[str, PodProbes] = {}
        self._timers: list[tuple[float, str]] = []
        self._wakes: dict[str, float] = {}
        self._runs: dict[int, ProbeProcess] = {}
        self._owner: dict[int, ProbeProcess] = {}
        self._dying: list[ProbeProcess] = []
        self._failed: list[tuple[str, DueProbe, str]] = []

    @property
    def descriptor(self) -> int:
        """Readable when a probe has news."""
        return self._epoll.fileno()

    @property
    def pids(self) -> set[int]:
        """The children that are probes."""
        return {one.pid for one in (*self._runs.values(), *self._dying)}

    def look(self, pod: ProcessPod, *, adopted: bool = False) -> None:
        """Begin what is due of a pod. ``adopted``: it ran before, with many others; its probes begin
        at different times."""
        if not any(launch.probes for launch in pod.spec.launches):
            return
        uid, now = pod.spec.uid, self._clock()
        spread = (lambda period: random.random() * period) if adopted else None
        probes = self._pods.get(uid)
        if probes is None:
            probes = self._pods[uid] = PodProbes(spread)
        if len(self._runs) >= AT_ONCE:
            self._wake(uid, now + LATER_SECONDS)
            return
        for due in probes.due(pod.spec, pod.lives, pod.ending, now):
            self._begin(pod, due, now)
        at = now if self._failed else probes.next_at(pod.spec, pod.lives)
        if at is not None:
            self._wake(uid, at)

    def _wake(self, uid: str, at: float) -> None:
        if self._wakes.get(uid) != at:
            self._wakes[uid] = at
            heapq.heappush(self._timers, (at, uid))

    def _begin(self, pod: ProcessPod, due: DueProbe, now: float) -> None:
        one = ProbeProcess(pod.spec.uid, due, now + due.probe.timeout)
        try:
            one.begin(pod, self._groups, self._place)
        except (OSError, StartFailed, QosletError) as error:
            said = str(error) if not isinstance(error, OSError) else f"{error.strerror}"
            self._failed.append((pod.spec.uid, due, said))
            return
        self._runs[id(one)] = one
        self._watch(one)

    def poll(self, pods: Mapping[str, ProcessPod]) -> list[ProcessPod]:
        """Take what probes came to and begin those whose time has come. Returns the pods whose
        containers' lives changed."""
        changed: dict[str, ProcessPod] = {}
        for uid, due, result, text in [*self._ended(), *self._refused()]:
            pod = pods.get(uid)
            if pod is not None and self._took(pod, due, result, text):
                changed[uid] = pod
            if pod is not None:
                self.look(pod)
        now = self._clock()
        while self._timers and self._timers[0][0] <= now:
            at, uid = heapq.heappop(self._timers)
            if self._wakes.get(uid) != at:
                continue
            del self._wakes[uid]
            if uid in pods:
                self.look(pods[uid])
        return list(changed.values())

    def _took(self, pod: ProcessPod, due: DueProbe, result: Result, text: str) -> bool:
        """Count one result; whether the container's life changed."""
        name = due.launch.name
        before = pod.lives[name]
        after = self._pods[pod.spec.uid].took(pod.spec, before, due, result, text, self._clock())
        pod.lives[name] = after
        return after != before

    def _refused(self) -> list[tuple[str, DueProbe, Result, str]]:
        """Those that could not even begin."""
        failed, self._failed = self._failed, []
        return [(uid, due, "unknown", text) for uid, due, text in failed]

    def _ended(self) -> list[tuple[str, DueProbe, Result, str]]:
        """Probes that are done, or too late."""
        now = self._clock()
        touched = {id(one): one for one in self._runs.values() if one.deadline <= now}
        for descriptor, _ in self._epoll.poll(0, 256):
            one = self._owner.get(descriptor)
            if one is not None:
                touched[id(one)] = one
        self._bury()
        found = []
        for one in touched.values():
            # before it is closed: children may have it too, and the kernel would go on to report it
            self._unwatch(one)
            result = one.result(now)
            if result is None:
                self._watch(one)
                continue
            self._bury(one)
            found.append((one.uid, one.due, *result))
        return found

    def _watch(self, one: ProbeProcess) -> None:
        for descriptor in one.descriptors:
            self._owner[descriptor] = one
            self._epoll.register(descriptor, select.EPOLLIN)

    def _unwatch(self, one: ProbeProcess) -> None:
        for descriptor in one.descriptors:
            self._owner.pop(descriptor, None)
            try:
                self._epoll.unregister(descriptor)
            except (OSError, ValueError):
                continue

    def _bury(self, *done: ProbeProcess) -> None:
        """Collect those that have ended; what was killed may still be about to."""
        for one in done:
            self._runs.pop(id(one), None)
        self._dying = [one for one in (*self._dying, *done) if not one.collected()]

    def _end(self, one: ProbeProcess) -> None:
        """Give a probe up."""
        self._unwatch(one)
        one.kill()
        self._bury(one)

    def next_at(self) -> float | None:
        """When there is something to do without any event."""
        times = [one.deadline for one in self._runs.values()]
        times += [self._timers[0][0]] if self._timers else []
        return min(times, default=None)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)
        self._wakes.pop(uid, None)
        for one in [one for one in self._runs.values() if one.uid == uid]:
            self._end(one)

    def close(self) -> None:
        """End what is under way."""
        for one in list(self._runs.values()):
            self._end(one)
        for one in self._dying:
            one.close()
        self._epoll.close()
