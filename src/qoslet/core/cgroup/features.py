"""The cgroup interfaces of a kernel that depend on its version and configuration."""

from __future__ import annotations

from msgspec import Struct

CONTROLLERS = frozenset(
    ("cpu", "cpuset", "dmem", "hugetlb", "io", "memory", "misc", "pids", "rdma")
)
"""All v2 controllers up to Linux 7.2."""


NEWEST_KERNEL = (7, 2)


class KernelFeatures(Struct, frozen=True):
    """The features that a kernel is assumed to have; ``kernel`` is its version.

    None means unknown: nothing is refused because of it. ``swap``, ``bfq``, ``rsvd``, ``iocost``:
    the kernel has memory.swap.max or memsw, BFQ weights, hugetlb reservations, io.weight.
    ``leaf``: it has blkio.leaf_weight.
    ``sizes`` are hugepage sizes as files spell them, ``devices`` disks as ``MAJOR:MINOR``.
    """

    page_size: int = 4096
    swap: bool = True
    bfq: bool = True
    rsvd: bool = True
    iocost: bool = True
    leaf: bool = False
    sizes: tuple[str, ...] | None = None
    cpus: frozenset[int] | None = None
    mems: frozenset[int] | None = None
    controllers: frozenset[str] | None = CONTROLLERS
    devices: frozenset[str] | None = None
    kernel: tuple[int, int] = NEWEST_KERNEL

    @property
    def wraps(self) -> bool:
        """Whether numbers beyond 64 bits wrap in files that do not refuse them."""
        return self.kernel < (7, 0)

    @property
    def idle_weight(self) -> str:
        """What cpu.weight holds while cpu.idle is 1: 0 on 6.1, 1 on 6.12 and 7.2."""
        return "0" if self.kernel < (6, 12) else "1"


ALL_FEATURES = KernelFeatures()
"""A kernel that has everything runtimes use, with pages of 4 KiB."""
