"""A sample of the memory of a cgroup and of the node, as numbers.

Absent is not zero: None if the kernel has no such file or line. A limit of ``max`` is
``UNLIMITED``. Source: Documentation/admin-guide/cgroup-v2.rst "Memory Interface Files",
Documentation/accounting/psi.rst, Documentation/admin-guide/cgroup-v1/memory.rst.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.interface_files import UNLIMITED


class Pressure(Struct, frozen=True, gc=False):
    """Pressure stall information of one resource: averages in percent, totals in microseconds."""

    some_avg10: float
    some_total: int
    full_avg10: float
    full_total: int


class MemorySample(Struct, frozen=True):
    """One cgroup. ``at`` is monotonic seconds, ``identity`` the inode of its directory, amounts are
    bytes, ``usage_usec`` and ``user_usec`` CPU time in microseconds, all of it and that outside of the
    kernel. ``called``: bytes that system calls of its own processes have read, known where usage is at memory.high.
    ``page_size`` is the unit of counters that count pages. ``stat`` holds ``memory.stat`` by the kernel's
    names, ``events`` and ``local`` hold ``memory.events`` and ``memory.events.local``."""

    path: str
    at: float
    identity: int
    current: int
    high: int | None = None
    max: int | None = None
    low: int | None = None
    min: int | None = None
    peak: int | None = None
    swap: int | None = None
    swap_max: int | None = None
    stat: Mapping[str, int] = {}
    events: Mapping[str, int] = {}
    local: Mapping[str, int] = {}
    pressure: Pressure | None = None
    usage_usec: int | None = None
    user_usec: int | None = None
    called: int | None = None
    page_size: int = 4096
    populated: bool | None = None

    @property
    def limit(self) -> int:
        """The lower one of memory.max and memory.high; ``UNLIMITED`` where neither is set."""
        return min(self.max or UNLIMITED, self.high or UNLIMITED)


class NodeMemory(Struct, frozen=True):
    """The node. ``available`` bytes can be had without swapping; ``scanned`` and ``stolen`` count
    pages that reclaim scanned and took (``pgscan_*``, ``pgsteal_*`` of /proc/vmstat). ``shmem``:
    bytes of shared memory and tmpfs."""

    at: float
    total: int
    available: int
    free: int
    swap_total: int = 0
    swap_free: int = 0
    pressure: Pressure | None = None
    scanned: int | None = None
    stolen: int | None = None
    shmem: int | None = None


class SharedSegment(Struct, frozen=True, gc=False):
    """A segment of System V shared memory that the process ``creator`` made at wall-clock seconds. It holds so
    many bytes in memory and swap, ``users`` are attached. ``goes``: with its last user."""

    number: int
    creator: int
    made_at: int
    users: int
    held: int
    goes: bool
