"""Since which Linux a controller or a file of a cgroup exists.

Source: the commits named in each row; Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.interface_files import controller

Version = tuple[int, int]


class KernelRow(Struct, frozen=True, gc=False):
    """``name`` is a controller, or a file that came later than its controller; a name that begins
    with a dot is a part of a file's name. None where a hierarchy never gets it, or had it from the
    start (v1)."""

    name: str
    v1: Version | None
    v2: Version | None
    source: str


ROWS: tuple[KernelRow, ...] = (
    KernelRow("pids", (4, 3), (4, 5), "commit 49b786ea146f; cgroup2 of 4.5"),
    KernelRow("memory.swap.max", None, (4, 5), "commit 37e84351198b"),
    KernelRow("cpu", None, (4, 15), "commit 0d5936344f30: cpu of cgroup2"),
    KernelRow("memory.min", None, (4, 18), "commit bf8d5d52ffe8"),
    KernelRow("memory.oom.group", None, (4, 19), "commit 3d8b38eb81ca"),
    KernelRow("cpuset", None, (5, 0), "commit 4ec22e9c5a90: cpuset of cgroup2"),
    KernelRow("hugetlb", None, (5, 6), "commit faced7e0806c; KEP-2254: targeting Linux 5.6"),
    KernelRow(".rsvd.", (5, 7), (5, 7), "commit cdc2fcfea79b"),
    KernelRow("memory.swap.high", None, (5, 8), "commit 4b82ab4f28fc"),
    KernelRow("cpu.max.burst", None, (5, 14), "commit f4183717b370"),
    KernelRow("cpu.cfs_burst_us", (5, 14), None, "commit f4183717b370"),
    KernelRow("cpu.idle", (5, 15), (5, 15), "commit 304000390f88"),
    KernelRow("memory.zswap.max", None, (5, 19), "commit f4840ccfca25"),
)

COMPLETE: Version = max(max(row.v1 or (0, 0), row.v2 or (0, 0)) for row in ROWS)
"""The first version that has every row."""


def row_of(file: str) -> Iterator[KernelRow]:
    """The rows that concern a file: of its controller, and its own."""
    owner = controller(file)
    for row in ROWS:
        if row.name in (owner, file) or (row.name[0] == "." and row.name in file):
            yield row


def since(row: KernelRow, hierarchy: Literal["v1", "v2"]) -> Version | None:
    """The first version of a hierarchy that has it."""
    return row.v1 if hierarchy == "v1" else row.v2


def older(file: str, hierarchy: Literal["v1", "v2"], kernel: Version | None) -> KernelRow | None:
    """The row that says why a kernel does not have a file; None if it has it, or is not known."""
    if kernel is None or kernel >= COMPLETE:
        return None
    for row in row_of(file):
        first = since(row, hierarchy)
        if first is not None and kernel < first:
            return row
    return None


def telling(kernel: str | None) -> bool:
    """Whether the version of a kernel tells what it has: those of RHEL and its rebuilds
    (``4.18.0-305.el8``) have controllers of later ones."""
    return kernel is not None and ".el" not in kernel
