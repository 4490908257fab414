"""Pods as candidates for an eviction, by their samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from qoslet.agent.memory.guard_actions import KILL_GRACE_SECONDS
from qoslet.agent.memory_ports import MemoryReader
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.api.aggregate import requests
from qoslet.core.api.memory_annotations import GuardMode
from qoslet.core.cgroup.names import is_at_or_below, parents
from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.memory.breakdown import held_bytes
from qoslet.core.memory.effective_protection import EffectiveMemory, Protection
from qoslet.core.memory.rows import TrackedCgroup
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.memory.stat_parser import number
from qoslet.core.pressure.eviction_ranking import Candidate, charged_and_freed
from qoslet.core.pressure.node_pressure import PressureState
from qoslet.core.quantity import ZERO

SAMPLING_SECONDS = 3.0
"""Seconds of a shortage for which the samples of all pods are waited for."""
_HOLDING = (WorkerPhase.RUNNING, WorkerPhase.TERMINATING)
"""The phases of pods with processes."""


def is_sampled(
    workers: Iterable[PodWorker], known: Collection[str], samples: Collection[str], lasted: float
) -> bool:
    """Whether all of these pods were sampled that may hold memory: the one that is not may be the right
    one. After ``SAMPLING_SECONDS`` some are enough; without pods there is nothing to wait for. ``known``
    are the tracked cgroups."""
    holding = (worker for worker in workers if worker.phase in _HOLDING)
    tops = [top for worker in holding for top in worker.top_cgroups if top in known]
    enough = any if lasted >= SAMPLING_SECONDS else all
    return not tops or enough(top in samples for top in tops)


def nears_limit(samples: Mapping[str, MemorySample], known: Mapping[str, TrackedCgroup]) -> bool:
    """Whether a QoS cgroup, or the node's, is close to its limit, so that its pods matter."""
    return any(
        known[path].level in ("node", "qos") and sample.limit * 0.95 <= sample.current
        for path, sample in samples.items()
        if path in known
    )


def candidate_of(
    worker: PodWorker,
    samples: Mapping[str, MemorySample],
    effective: Mapping[str, EffectiveMemory],
    surviving: int,
    mode: GuardMode,
    wall: float,
    in_vain: bool = False,
) -> Candidate | None:
    """A pod by its samples at ``wall`` (wall-clock seconds); None without any. ``surviving`` and ``in_vain``
    are as of ``charged_and_freed``."""
    seen = [samples[path] for path in worker.top_cgroups if path in samples]
    if not seen or worker.pod is None:
        return None
    parts = [charged_and_freed(sample, surviving, in_vain=in_vain) for sample in seen]
    return Candidate(
        uid=worker.uid,
        key=worker.key,
        qos=worker.qos,
        request=requests(worker.pod).get("memory", ZERO).value,
        charged=sum(held for held, _ in parts),
        freed=sum(frees for _, frees in parts),
        protected=sum(
            effective[sample.path].protected for sample in seen if sample.path in effective
        ),
        priority=worker.pod.priority or 0,
        critical=worker.pod.critical,
        ending=worker.phase is not WorkerPhase.RUNNING,
        ending_seconds=max(0.0, wall - worker.since_wall_seconds),
        hastens=_hastens(worker, wall),
        mode=mode,
    )


def _hastens(worker: PodWorker, wall: float) -> bool:
    """Whether a pod that ends may take so long for it that it is worth ending it at once."""
    grace = worker.grace_seconds if worker.stop_seconds is None else worker.stop_seconds
    left = worker.since_wall_seconds + grace - wall
    return worker.phase is WorkerPhase.TERMINATING and left >= KILL_GRACE_SECONDS


def with_fillers(
    candidates: Iterable[Candidate],
    workers: Iterable[PodWorker],
    fill: frozenset[str],
    *,
    alone: bool,
) -> list[Candidate]:
    """The candidates, with who fills the node: ``fill`` are the cgroups of pods that do. ``alone``: only they."""
    uids = {one.uid for one in workers if fill.intersection(one.top_cgroups)}
    seen = (replace(one, fills=one.uid in uids) for one in candidates)
    return [one for one in seen if one.fills or not alone]


def largest_since(
    histories: Iterable[Sequence[MemorySample]], since: float
) -> dict[str, MemorySample]:
    """Each cgroup as it was when it held most from ``since`` (monotonic seconds) on, by its samples,
    oldest first, by path: what the kernel killed holds nothing now. What a cgroup of its name held
    before, or long ago, says nothing."""
    found = {}
    for history in histories:
        last = history[-1]
        same = [one for one in history if one.identity == last.identity and one.at >= since]
        found[last.path] = max(same, key=held_bytes, default=last)
    return found


def swap_room(
    pods: Collection[str],
    known: Mapping[str, TrackedCgroup],
    node: NodeMemory,
    reader: MemoryReader,
) -> int:
    """How many bytes of the node's free swap the containers of pods may take, by the pods' cgroups. All where
    the kernel does not tell."""
    free = node.swap_free
    rows = known.values() if free else ()
    inside = [one.path for one in rows if one.level == "container"]
    seen = [reader.sample(path) for path in inside if any(above in pods for above in parents(path))]
    found = [one for one in seen if one is not None]
    may = (free if one.swap_max is None else one.swap_max - (one.swap or 0) for one in found)
    return min(free, sum(max(0, each) for each in may))


def came_back(state: PressureState, held: int, reader: MemoryReader) -> bool:
    """Whether what is missing came back while the pods were looked at: who let it go holds nothing now,
    and the first in the order may be an innocent. ``held`` is the usage of the cgroup before, of the
    node what is available, negative."""
    if state.path:
        seen = reader.sample(state.path)
        now = held if seen is None else seen.current
    else:
        look = reader.node()
        now = -look.available if look.total else held
    return held - now >= max(1, state.missing)


def is_below_cgroup(worker: PodWorker, path: str) -> bool:
    """Whether a pod is a cgroup or below it; all pods are below the node."""
    return not path or any(is_at_or_below(top, path) for top in worker.top_cgroups)


def untracked_protection(seen: ObservedCgroup) -> Protection:
    """The settings of a cgroup that is not tracked: the root and those above it."""
    least, low = (number(seen.values.get(f"memory.{name}")) or 0 for name in ("min", "low"))
    return Protection(seen.path, seen.memory or 0, least, low)
