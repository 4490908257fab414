"""The settings of the loop, each with a default that a node can live with."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.names import DEFAULT_ROOT
from qoslet.core.reconcile.limit_shrink import Shrink
from qoslet.core.workload.life import Backoff


class Config(Struct, frozen=True):
    """``root`` is the cgroup below which the agent owns everything. ``interval_seconds`` lies
    between two whole syncs while somebody watches, None while nobody does; ``duration_seconds``
    ends the loop by itself. ``resync_seconds`` lies between two whole syncs; while nobody watches
    it doubles up to ``longest_resync_seconds`` as long as nothing differs. Up to that, whole syncs
    that find nothing take no larger part of the time than ``resync_share``.

    ``retry_backoff`` spaces the attempts at a pod whose cgroups the kernel refuses,
    ``eviction_backoff`` the restarts of a pod that was evicted for memory. ``collection_seconds``
    lies between two removals of orphans, ``removal_seconds`` bounds how long removing cgroups may
    take after their processes ended. ``shrink`` tells what to do with a memory limit below the
    usage. ``keep_pods``: pods outlive the loop. ``guard`` tells what to do about stalls and memory
    pressure where a pod does not say it.
    """

    root: str = DEFAULT_ROOT
    interval_seconds: float | None = 1.0
    duration_seconds: float | None = None
    resync_seconds: float = 10.0
    longest_resync_seconds: float = 60.0
    resync_share: float = 0.02
    retry_backoff: Backoff = Backoff(first=1.0, longest=60.0, reset_after=0.0)
    collection_seconds: float = 0.1
    removal_seconds: float = 10.0
    shrink: Shrink = "converge"
    keep_pods: bool = False
    guard: Literal["off", "observe", "act"] = "off"
    eviction_backoff: Backoff = Backoff(first=60.0, longest=900.0, reset_after=900.0)
