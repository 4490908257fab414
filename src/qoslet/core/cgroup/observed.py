"""What was read from a kernel: cgroups by path, each with its inode, values and usage.

A file that could not be read is missing from ``values``. Values are the text that the kernel
prints, also ``max``. Paths are concrete, from the hierarchy's root.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ObservedCgroup(Struct, frozen=True, gc=False):
    """One existing cgroup.

    ``identity`` is the inode of its directory (on v1 of the first hierarchy that has it), which
    differs once it is recreated. ``missing`` names the v1 controllers in whose hierarchy it does
    not exist. ``usage_usec`` is CPU time in microseconds, ``memory`` bytes in use; None if unknown.
    ``oom_kills`` counts OOM kills. ``memory_swap`` is memory and swap in use on v1, None without
    swap accounting. ``cache`` is the reclaimable page cache in ``memory``, 0 if it was not read.
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
    """An observation of a subtree; ``at`` is the monotonic time in seconds."""

    at: float
    cgroups: Mapping[str, ObservedCgroup]
