"""Settings: the file of each on v1 and v2, its systemd property, its value in a new cgroup.

Sources: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst; systemd.resource-control(5);
read back on kernels 6.12 and 6.18.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

UNLIMITED = 1 << 63
"""A limit that the kernel prints as ``max``; above every amount of memory."""
PROTECTION = ("memory.min", "memory.low")
"""Memory that reclaim leaves to a cgroup, by force and where it can."""
MEMORY_QOS = (*PROTECTION, "memory.high")
"""What Memory QoS writes."""


class Knob(Struct, frozen=True, gc=False):
    """A setting. ``since`` is the first systemd version with ``property``, ``since_v1`` that with
    ``property_v1`` if it differs. ``released`` is the value of a cgroup for which nobody set it,
    None if it is inherited."""

    controller: str
    v1: str | None
    v2: str | None
    unit: Literal["bytes", "weight", "us", "count", "list", "flag"]
    property: str | None = None
    property_v1: str | None = None
    since: int = 205
    released: str | None = "max"
    released_v1: str | None = "-1"
    since_v1: int | None = None


KNOBS: tuple[Knob, ...] = (
    Knob("cpu", "cpu.shares", "cpu.weight", "weight", "CPUWeight", "CPUShares", 232,
         "100", "1024", 205),
    Knob("cpu", None, "cpu.max", "us", "CPUQuotaPerSecUSec", None, 213,
         released="max 100000"),
    Knob("cpu", "cpu.cfs_quota_us", None, "us", None, "CPUQuotaPerSecUSec", 213),
    Knob("cpu", "cpu.cfs_period_us", None, "us", None, "CPUQuotaPeriodUSec", 242,
         released_v1="100000"),
    Knob("cpu", "cpu.idle", "cpu.idle", "flag", released="0", released_v1="0"),
    Knob("memory", "memory.limit_in_bytes", "memory.max", "bytes", "MemoryMax", "MemoryLimit",
         231, since_v1=205),
    Knob("memory", None, "memory.high", "bytes", "MemoryHigh", None, 231),
    Knob("memory", None, "memory.low", "bytes", "MemoryLow", None, 231, released="0"),
    Knob("memory", None, "memory.min", "bytes", "MemoryMin", None, 240, released="0"),
    Knob("memory", None, "memory.swap.max", "bytes", "MemorySwapMax", None, 232),
    Knob("memory", "memory.memsw.limit_in_bytes", None, "bytes"),
    Knob("memory", None, "memory.oom.group", "flag", released="0"),
    Knob("pids", "pids.max", "pids.max", "count", "TasksMax", "TasksMax", 227,
         released_v1="max"),
    Knob("cpuset", "cpuset.cpus", "cpuset.cpus", "list", "AllowedCPUs", None, 244,
         released="", released_v1=None),
    Knob("cpuset", "cpuset.mems", "cpuset.mems", "list", "AllowedMemoryNodes", None, 244,
         released="", released_v1=None),
)  # fmt: skip

UNPLANNED: Mapping[str, str] = {
    "cpu.max.burst": "0",
    "cpu.cfs_burst_us": "0",
    "memory.swap.high": "max",
    "cgroup.max.descendants": "max",
    "cgroup.max.depth": "max",
}
"""Settings that neither a kubelet nor a runtime nor systemd writes, with the value of a new cgroup."""

_BY_FILE = {file: knob for knob in KNOBS for file in (knob.v1, knob.v2) if file}

_HUGETLB = Knob("hugetlb", None, None, "bytes", released_v1="-1")

_UNIT_SHIFT = {"KB": 10, "MB": 20, "GB": 30, "TB": 40}


def knob(file: str) -> Knob:
    """The setting of a file; ValueError if the file is not a setting."""
    known = _BY_FILE.get(file)
    if known is not None:
        return known
    if file.startswith("hugetlb."):
        return _HUGETLB
    raise ValueError(f"{file!r} is not a known cgroup file")


def controller(file: str) -> str:
    """The controller that a file belongs to."""
    return file.split(".", 1)[0]


UNMANAGED = frozenset({"hugetlb", "misc", "rdma"})
"""v2 controllers that systemd neither enables nor disables."""


def property_of(file: str, hierarchy: str, systemd_version: int | None) -> str | None:
    """The unit property by which that systemd version writes ``file``; None without one.

    None as the version means the newest.
    """
    try:
        setting = knob(file)
    except ValueError:
        return None
    name, since = setting.property, setting.since
    if hierarchy == "v1":
        name, since = (
            setting.property_v1,
            setting.since if setting.since_v1 is None else setting.since_v1,
        )
    if systemd_version is not None and systemd_version < since:
        return None
    return name


def released(file: str, hierarchy: str) -> str | None:
    """The value in a cgroup for which nobody set ``file``; None if it is inherited."""
    try:
        setting = knob(file)
    except ValueError:
        return UNPLANNED.get(file)
    return setting.released_v1 if hierarchy == "v1" else setting.released


def hugepage_size(file: str) -> int:
    """The page size of ``hugetlb.2MB.max`` in bytes; 1 if the name has none."""
    text = file.split(".")[1] if file.count(".") > 1 else ""
    shift = _UNIT_SHIFT.get(text[-2:])
    return int(text[:-2]) << shift if shift is not None and text[:-2].isdecimal() else 1


def cpu_list(text: str) -> str:
    """A CPU or node list as the kernel prints it: sorted, ranges joined."""
    numbers: set[int] = set()
    for part in text.replace(" ", "").split(","):
        if not part:
            continue
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return text
        numbers.update(range(int(first), min(int(last or first), int(first) + 65536) + 1))
    return joined(numbers)


def joined(numbers: Iterable[int]) -> str:
    """Numbers as the kernel prints a list: sorted, ranges joined."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)


def cpu_numbers(text: str) -> frozenset[int]:
    """The members of a list that the kernel printed; ValueError for other text."""
    numbers: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)
