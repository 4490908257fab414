"""What a kernel has of the control group interfaces that versions and configurations differ in."""

from __future__ import annotations

from msgspec import Struct

CONTROLLERS = frozenset(
    ("cpu", "cpuset", "dmem", "hugetlb", "io", "memory", "misc", "pids", "rdma")
)
"""What a v2 group can have in its cgroup.controllers, up to Linux 7.2."""


NEWEST_KERNEL = (7, 2)


class Ground(Struct, frozen=True):
    """What is assumed of the kernel; ``kernel`` is its version.

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
    kernel: tuple[int, int] = NEWEST_KERNEL

    @property
    def wraps(self) -> bool:
        """Whether a number beyond 64 bits wraps where no error is given."""
        return self.kernel < (7, 0)

    @property
    def idle_weight(self) -> str:
        """What cpu.weight reads while cpu.idle is 1: 0 on 6.1, 1 on 6.12 and 7.2."""
        return "0" if self.kernel < (6, 12) else "1"


WHOLE = Ground()
"""A kernel that has everything runtimes use, with pages of 4 KiB."""
