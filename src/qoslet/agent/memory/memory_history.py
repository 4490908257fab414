"""What was seen of memory lately: samples of the node and of cgroups, and what of them reclaim may not take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from qoslet.agent.memory.eviction_candidates import untracked_protection
from qoslet.agent.memory.limit_kills import LimitKills
from qoslet.agent.memory.tracked_cgroups import TrackedCgroups
from qoslet.agent.state.sync_context import SyncContext
from qoslet.core.cgroup.names import parents
from qoslet.core.memory.breakdown import protected_cache
from qoslet.core.memory.effective_protection import (
    EffectiveMemory,
    effective_memory,
    protection_of,
)
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.plan.effective_memory import recursive

MAX_SAMPLES = 24
"""Looks that are kept of the node and of each group."""
FRESH_SECONDS = 5.0
"""Seconds for which a look at a group counts."""


class MemoryHistory:
    """The last samples of the node and of each tracked cgroup. ``limit_kills`` are the OOM kills at limits of cgroups
    above pods; ``protected_bytes`` of the pods' page cache reclaim may not take, ``hard_bytes`` of them are
    under ``memory.min``."""

    def __init__(self, context: SyncContext, cgroups: TrackedCgroups) -> None:
        self.node: deque[NodeMemory] = deque(maxlen=MAX_SAMPLES)
        self.limit_kills = LimitKills()
        self.protected_bytes = self.hard_bytes = 0
        self._context = context
        self._cgroups = cgroups
        self._of: dict[str, deque[MemorySample]] = {}

    def remember(self, samples: Mapping[str, MemorySample], node: NodeMemory) -> None:
        """Keep what was just seen, and forget cgroups that are tracked no longer."""
        rows = self._cgroups.groups
        self.node.append(node)
        gone = self._of.keys() - rows.keys()
        self.limit_kills.forget(gone)
        for path in gone:
            del self._of[path]
        for path, sample in samples.items():
            if path in rows:
                self._of.setdefault(path, deque(maxlen=MAX_SAMPLES)).append(sample)
                if not rows[path].uid:
                    self.limit_kills.add(sample, node.at, self._cgroups.first.get(path))
        if samples:
            last = {path: history[-1] for path, history in self._of.items()}
            self.protected_bytes, self.hard_bytes = self.protected_cache(last)

    def of(self, path: str) -> Sequence[MemorySample]:
        """The samples of a cgroup, the oldest first."""
        return tuple(self._of[path])

    def fresh(self, now: float) -> dict[str, MemorySample]:
        """The last sample of each cgroup that was sampled lately."""
        last = {path: history[-1] for path, history in self._of.items()}
        return {path: one for path, one in last.items() if now - one.at < FRESH_SECONDS}

    def of_pods(self, paths: Iterable[str] | None = None) -> list[Sequence[MemorySample]]:
        """The samples of each pod among ``paths``; by default of all."""
        rows = self._cgroups.groups
        found = self._of if paths is None else paths
        return [self.of(path) for path in found if path in rows and rows[path].level == "pod"]

    def protected_cache(self, samples: Mapping[str, MemorySample]) -> tuple[int, int]:
        """Bytes of the pods' page cache that reclaim may not take, and those under ``memory.min``."""
        rows, effective = self._cgroups.groups, self.effective(samples)
        found = [
            (sample, effective[path])
            for path, sample in samples.items()
            if path in effective and rows[path].level == "pod"
        ]
        return (
            sum(protected_cache(sample, one.protected) for sample, one in found),
            sum(protected_cache(sample, one.hard) for sample, one in found),
        )

    def effective(
        self, samples: Mapping[str, MemorySample], short: str = ""
    ) -> dict[str, EffectiveMemory]:
        """The effective protection of each cgroup if the cgroup ``short`` is reclaimed."""
        protections = [protection_of(sample) for sample in samples.values()]
        above = {path for sample in samples for path in parents(sample)} - samples.keys()
        seen = [self._context.executor.observer.read_cgroup(path) for path in above]
        protections += [untracked_protection(sample) for sample in seen if sample is not None]
        return effective_memory(
            protections, recursive=recursive(self._context.node.host), root=short
        )
