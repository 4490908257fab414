"""What was read from a kernel: cgroups by path, each with its identity, values and usage.

Absent is not zero: a file that could not be read is missing from ``values``. ``max`` stays the
text that the kernel prints. Paths are concrete, from the hierarchy's root.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ObservedCgroup(Struct, frozen=True, gc=False):
    """One group as it stands.

    ``identity`` is the inode of its directory (on v1 of the first hierarchy that has it): a
    group made anew under the same path has another one. ``missing`` names the v1 controllers
    in whose hierarchy the group does not exist. ``usage_usec`` is CPU time in microseconds,
    ``memory`` bytes in use; both None where unknown. ``oom_kills`` counts kernel kills.
    ``memory_swap`` is memory and swap in use on v1, None where it is not accounted; ``cache`` the
    page cache in ``memory`` that can be taken back without a kill, 0 where nobody asked.
    """

    path: str
    identity: int
    values: Mapping[str, str] = {}
    missing: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    usage_usec: int | None = None
    memory: int | None = None
    memory_peak: int | None = None
    oom_kills: int | None = None
    throttled_usec: int | None = None
    memory_swap: int | None = None
    cache: int = 0


class Observed(Struct, frozen=True):
    """One look at a subtree; ``at`` is the monotonic time in seconds."""

    at: float
    cgroups: Mapping[str, ObservedCgroup]
