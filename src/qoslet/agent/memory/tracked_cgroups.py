"""The cgroups whose memory is tracked, and the pods that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.state.pod_worker import PodWorker
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.api.aggregate import requests
from qoslet.core.memory.rows import TrackedCgroup
from qoslet.core.memory.sample import MemorySample
from qoslet.core.quantity import ZERO
from qoslet.core.resources.cgroup_tree import Cgroup


class TrackingChange(Struct):
    """Cgroups that are tracked from now on or changed, and cgroups that are gone."""

    added: list[TrackedCgroup] = []
    removed: list[TrackedCgroup] = []


class TrackedCgroups:
    """The node's, the QoS classes', the pods' and the containers' cgroups, by path."""

    def __init__(self, context: SyncContext) -> None:
        self._context = context
        self._of_pod: dict[str, tuple[tuple[Cgroup, ...], list[TrackedCgroup]]] = {}
        self._node_cgroups: tuple[Cgroup, ...] = ()
        self._requests: dict[str, int] = {}
        self._groups: dict[str, TrackedCgroup] = {}
        self.guarded_pods: set[str] = set()
        """The UIDs of pods whose own annotation turns the guard on."""
        self.first: dict[str, MemorySample] = {}
        """Each cgroup above pods as it was when it was tracked: what happens from then on is news."""

    @property
    def groups(self) -> Mapping[str, TrackedCgroup]:
        """Every tracked cgroup by its path."""
        return self._groups

    def update(self, uids: Iterable[str] | None = None) -> TrackingChange:
        """Track the cgroups that exist now, of these pods or of all."""
        change = TrackingChange()
        workers = self._context.workers
        for uid in {*workers, *self._of_pod} if uids is None else {*uids}:
            worker = workers.get(uid)
            guard = (
                worker.pod.memory.guard if worker is not None and worker.pod is not None else None
            )
            (self.guarded_pods.discard if guard in (None, "off") else self.guarded_pods.add)(uid)
            known = self._of_pod.get(uid)
            groups = worker.placed_cgroups if worker is not None else ()
            if known is not None and known[0] == groups:
                continue
            if known is not None:
                self._drop(uid, change)
            if worker is not None:
                self._add(worker, change)
        upper = self._context.plan.upper()
        if upper is not self._node_cgroups or change.added or change.removed:
            self._track_node_cgroups(upper, change)
        return change

    def of_pod(self, uid: str) -> Iterable[TrackedCgroup]:
        """The tracked cgroups of a pod."""
        known = self._of_pod.get(uid)
        return () if known is None else known[1]

    def above(self, path: str) -> list[TrackedCgroup]:
        """The tracked cgroups above one, the topmost first."""
        found = []
        at = path.rpartition("/")[0]
        while at:
            row = self._groups.get(at)
            if row is not None:
                found.append(row)
            at = at.rpartition("/")[0]
        return found[::-1]

    def _add(self, worker: PodWorker, change: TrackingChange) -> None:
        cgroups = _of_pod(worker)
        self._of_pod[worker.uid] = (worker.placed_cgroups, cgroups)
        for row in cgroups:
            self._groups[row.path] = row
        change.added += cgroups
        self._count(cgroups, 1)

    def _drop(self, uid: str, change: TrackingChange) -> None:
        _, cgroups = self._of_pod.pop(uid)
        for row in cgroups:
            if self._groups.get(row.path) is row:
                del self._groups[row.path]
        change.removed += cgroups
        self._count(cgroups, -1)

    def _count(self, cgroups: Iterable[TrackedCgroup], sign: int) -> None:
        """Add a pod's request to every cgroup above it."""
        for row in cgroups:
            at = row.path.rpartition("/")[0] if row.level == "pod" else ""
            while at:
                self._requests[at] = self._requests.get(at, 0) + sign * row.request
                at = at.rpartition("/")[0]

    def _track_node_cgroups(self, upper: tuple[Cgroup, ...], change: TrackingChange) -> None:
        """Track the cgroups above the pods, each with the requests of all pods in it."""
        paths = {group.path for group in upper}
        for old in self._node_cgroups:
            if old.path is not None and old.path not in paths:
                change.removed.append(self._groups.pop(old.path))
                self.first.pop(old.path, None)
        self._node_cgroups = upper
        for group in upper:
            if group.path is None:
                continue
            request = self._requests.get(group.path, 0)
            known = self._groups.get(group.path)
            if known is None:
                title = group.name.rpartition("/")[2] or "/"
                known = TrackedCgroup(group.path, group.level, title, request=request)
                change.added.append(known)
            self._groups[group.path] = replace(known, request=request)


def _of_pod(worker: PodWorker) -> list[TrackedCgroup]:
    """A pod's cgroups."""
    found = []
    for group in worker.placed_cgroups:
        if group.path is None or group.level not in ("pod", "container"):
            continue
        asked = group.container.resources.requests if group.container is not None else None
        if asked is None:
            asked = requests(worker.pod) if worker.pod is not None else {}
        found.append(
            TrackedCgroup(
                path=group.path,
                level=group.level,
                title=f"{worker.key}/{group.container.name}" if group.container else worker.key,
                uid=worker.uid,
                pod=worker.key,
                container=group.container.name if group.container is not None else "",
                qos=worker.qos,
                request=asked.get("memory", ZERO).value,
            )
        )
    return found
