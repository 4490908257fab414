"""How the loop turns: every number in seconds, with the default that a node can live with."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.reconcile.limit_shrink import Shrink
from qoslet.core.workload.lifecycle import Backoff


class Config(Struct, frozen=True):
    """``root`` is the group below which the loop owns everything. ``interval`` lies between two
    looks that somebody watches, None where nobody does; ``lasts`` ends the loop by itself
    (None: until interrupted). ``resync`` lies between two looks at everything; where nobody
    watches it is doubled up to ``resync_longest`` while all is as it should be. ``retry`` spaces
    the attempts at a pod whose groups the kernel refuses; ``orphans`` lies between two removals
    of what no pod has. ``settle`` bounds how long removing groups may take after their processes
    ended; ``shrink`` says what becomes of a memory limit below what is in use. ``keep``: the end
    of the loop ends no pod. ``guard`` says what is done about stalls and memory pressure where a
    pod does not say it itself; ``evicted`` spaces the new beginnings of a pod that was ended for
    memory pressure."""

    root: str = "/qoslet"
    interval: float | None = 1.0
    lasts: float | None = None
    resync: float = 10.0
    resync_longest: float = 60.0
    retry: Backoff = Backoff(first=1.0, longest=60.0, reset_after=0.0)
    orphans: float = 0.1
    settle: float = 10.0
    shrink: Shrink = "converge"
    keep: bool = False
    guard: Literal["off", "observe", "act"] = "off"
    evicted: Backoff = Backoff(first=60.0, longest=900.0, reset_after=900.0)
