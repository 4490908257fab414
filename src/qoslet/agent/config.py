"""How the loop turns: every number in seconds, with the default that a node can live with."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.podlife import Backoff
from qoslet.core.shrink import Shrink


class Config(Struct, frozen=True):
    """``root`` is the group below which the loop owns everything. ``interval`` lies between two
    turns, ``lasts`` ends the loop by itself (None: until interrupted). ``retry`` spaces the
    attempts at a pod whose groups the kernel refuses; ``settle`` bounds how long removing
    groups may take after their processes ended; ``shrink`` says what becomes of a memory limit
    below what is in use."""

    root: str = "/qoslet"
    interval: float = 1.0
    lasts: float | None = None
    retry: Backoff = Backoff(first=1.0, longest=60.0, reset_after=0.0)
    settle: float = 10.0
    shrink: Shrink = "converge"
