"""The probes of the pods that the process runtime keeps: begun when they are due, counted when they
are done. Nothing here waits.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping

from qoslet.core.workload.probes.pod import DueProbe, PodProbes
from qoslet.core.workload.probes.worker import Result
from qoslet.host.keeper.container_cgroups import ContainerCgroups
from qoslet.host.keeper.pod import ProcessPod
from qoslet.host.keeper.probe_process import ProbeProcess
from qoslet.host.keeper.probe_processes import Place, ProbeProcesses

AT_ONCE = 64
"""Probes that are under way at a time; further ones wait for the next end of one."""

LATER_SECONDS = 0.05
"""How long a pod waits whose probes had no place."""


class KeeperProbes:
    """Probes of all pods. ``place`` tells where the files of a container of an OCI runtime are."""

    def __init__(self, groups: ContainerCgroups, place: Place, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pool = ProbeProcesses[DueProbe](groups, place, clock)
        self._pods: dict[str, PodProbes] = {}
        self._timers: list[tuple[float, str]] = []
        self._wakes: dict[str, float] = {}
        self._failed: list[tuple[str, DueProbe, str]] = []

    @property
    def descriptor(self) -> int:
        """Readable when a probe has news."""
        return self._pool.descriptor

    @property
    def pids(self) -> set[int]:
        """The children that are probes."""
        return self._pool.pids

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
        if len(self._pool) >= AT_ONCE:
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
        deadline = now + due.probe.timeout
        one = ProbeProcess(pod.spec.uid, due.launch, due.probe, deadline)
        wrong = self._pool.begin(pod, one, due)
        if wrong is not None:
            self._failed.append((pod.spec.uid, due, wrong))

    def poll(self, pods: Mapping[str, ProcessPod]) -> list[ProcessPod]:
        """Take what probes came to and begin those whose time has come. Returns the pods whose
        containers' lives changed."""
        changed: dict[str, ProcessPod] = {}
        ended = [(one.uid, due, result, text) for one, due, result, text in self._pool.ended()]
        for uid, due, result, text in [*ended, *self._refused()]:
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

    def next_at(self) -> float | None:
        """When there is something to do without any event."""
        times = [self._timers[0][0]] if self._timers else []
        late = self._pool.next_at()
        return min([*times, *([] if late is None else [late])], default=None)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)
        self._wakes.pop(uid, None)
        self._pool.end(lambda one, _: one.uid == uid)

    def close(self) -> None:
        """End what is under way."""
        self._pool.close()
