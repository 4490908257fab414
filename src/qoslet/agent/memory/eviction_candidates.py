"""Pods as candidates for an eviction, by their samples."""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.agent.state.pod_worker import PodWorker
from qoslet.core.api.aggregate import requests
from qoslet.core.api.memory_annotations import GuardMode
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.memory.effective_protection import EffectiveMemory, Protection
from qoslet.core.memory.sample import MemorySample
from qoslet.core.memory.stat_parser import number
from qoslet.core.pressure.eviction_ranking import Candidate, charged_and_freed
from qoslet.core.quantity import ZERO


def candidate_of(
    worker: PodWorker,
    samples: Mapping[str, MemorySample],
    effective: Mapping[str, EffectiveMemory],
    surviving: int,
    mode: GuardMode,
) -> Candidate | None:
    """A pod by its samples; None without any. ``surviving`` is as of ``freed_bytes``."""
    seen = [samples[path] for path in worker.top_cgroups if path in samples]
    if not seen or worker.pod is None:
        return None
    parts = [charged_and_freed(sample, surviving) for sample in seen]
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
        mode=mode,
    )


def is_below_cgroup(worker: PodWorker, path: str) -> bool:
    """Whether a pod is a cgroup or below it; all pods are below the node."""
    return not path or any(is_at_or_below(top, path) for top in worker.top_cgroups)


def untracked_protection(seen: ObservedCgroup) -> Protection:
    """The settings of a cgroup that is not tracked: the root and those above it."""
    least, low = (number(seen.values.get(f"memory.{name}")) or 0 for name in ("min", "low"))
    return Protection(seen.path, seen.memory or 0, least, low)
