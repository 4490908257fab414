"""How the loop turns: every number in seconds, with the default that a node can live with."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.names import DEFAULT_ROOT
from qoslet.core.reconcile.limit_shrink import Shrink
from qoslet.core.workload.lifecycle import Backoff


class Config(Struct, frozen=True):
    """``root`` is the group below which the loop owns everything. ``interval_seconds`` lies between two
    looks that somebody watches, None where nobody does; ``duration_seconds`` ends the loop by itself
    (None: until interrupted). ``resync_seconds`` lies between two looks at everything; where nobody
    watches it is doubled up to ``longest_resync_seconds`` while all is as it should be. ``retry_backoff`` spaces
    the attempts at a pod whose groups the kernel refuses; ``collection_seconds`` lies between two removals
    of what no pod has. ``removal_seconds`` bounds how long removing groups may take after their processes
    ended; ``shrink`` says what becomes of a memory limit below what is in use. ``keep_pods``: the end
    of the loop ends no pod. ``guard`` says what is done about stalls and memory pressure where a
    pod does not say it itself; ``eviction_backoff`` spaces the new beginnings of a pod that was ended for
    memory pressure."""

    root: str = DEFAULT_ROOT
    interval_seconds: float | None = 1.0
    duration_seconds: float | None = None
    resync_seconds: float = 10.0
    longest_resync_seconds: float = 60.0
    retry_backoff: Backoff = Backoff(first=1.0, longest=60.0, reset_after=0.0)
    collection_seconds: float = 0.1
    removal_seconds: float = 10.0
    shrink: Shrink = "converge"
    keep_pods: bool = False
    guard: Literal["off", "observe", "act"] = "off"
    eviction_backoff: Backoff = Backoff(first=60.0, longest=900.0, reset_after=900.0)
