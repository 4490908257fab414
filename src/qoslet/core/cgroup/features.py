"""What a kernel has of the control group interfaces that versions and configurations differ in."""

from __future__ import annotations

from msgspec import Struct

CONTROLLERS = frozenset(
    ("cpu", "cpuset", "dmem", "hugetlb", "io", "memory", "misc", "pids", "rdma")
)
"""What a v2 group can have in its cgroup.controllers, up to Linux 7.2."""


class Ground(Struct, frozen=True):
    """What a conversion assumes of the kernel.

    None means unknown: then nothing is refused for it. ``swap``, ``bfq``, ``rsvd``, ``iocost``:
    whether the kernel has memory.swap.max or memsw, BFQ weights, hugetlb reservations and
    io.weight. ``leaf``, ``realtime``: files of few kernels.
    ``sizes`` are hugepage sizes as files spell them, ``devices`` disks as ``MAJOR:MINOR``.
    """

    page_size: int = 4096
    swap: bool = True
    bfq: bool = True
    rsvd: bool = True
    iocost: bool = True
    leaf: bool = False
    realtime: bool = False
    sizes: tuple[str, ...] | None = None
    cpus: frozenset[int] | None = None
    mems: frozenset[int] | None = None
    controllers: frozenset[str] | None = CONTROLLERS
    devices: frozenset[str] | None = None


WHOLE = Ground()
"""A kernel that has everything runtimes use, with pages of 4 KiB."""
