"""One row for each setting: its file on v1 and v2, its systemd property, how the kernel keeps it.

Sources: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst; systemd.resource-control(5);
read back on kernels 6.12 and 6.18.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

NO_LIMIT = 1 << 63
"""A limit that the kernel prints as ``max``; above every amount of memory."""

Kept = Literal["exact", "pages", "hugepages", "bandwidth", "list", "shares", "quota"]
"""How a value is read back: as written, cut to pages, cut to its own page size, with its period,
as a normalised list, as shares within their bounds, or as a quota of which every negative one is
none."""


class Knob(Struct, frozen=True, gc=False):
    """A setting. ``since`` is the systemd version that has ``property``, ``since_v1`` that of
    ``property_v1`` where it differs; ``released`` is the value that a group without the setting
    has, None where it inherits."""

    controller: str
    v1: str | None
    v2: str | None
    unit: Literal["bytes", "weight", "us", "count", "list", "flag"]
    property: str | None = None
    property_v1: str | None = None
    since: int = 205
    kept: Kept = "exact"
    released: str | None = "max"
    released_v1: str | None = "-1"
    since_v1: int | None = None


_PERIOD = 100_000
"""Microseconds of a quota's period unless told otherwise."""

KNOBS: tuple[Knob, ...] = (
    Knob("cpu", "cpu.shares", "cpu.weight", "weight", "CPUWeight", "CPUShares", 232,
         "shares", "100", "1024", 205),
    Knob("cpu", None, "cpu.max", "us", "CPUQuotaPerSecUSec", None, 213, "bandwidth",
         released="max 100000"),
    Knob("cpu", "cpu.cfs_quota_us", None, "us", None, "CPUQuotaPerSecUSec", 213, "quota"),
    Knob("cpu", "cpu.cfs_period_us", None, "us", None, "CPUQuotaPeriodUSec", 242,
         released_v1="100000"),
    Knob("cpu", None, "cpu.idle", "flag", released="0"),
    Knob("memory", "memory.limit_in_bytes", "memory.max", "bytes", "MemoryMax", "MemoryLimit",
         231, "pages", since_v1=205),
    Knob("memory", None, "memory.high", "bytes", "MemoryHigh", None, 231, "pages"),
    Knob("memory", None, "memory.low", "bytes", "MemoryLow", None, 231, "pages", released="0"),
    Knob("memory", None, "memory.min", "bytes", "MemoryMin", None, 240, "pages", released="0"),
    Knob("memory", None, "memory.swap.max", "bytes", "MemorySwapMax", None, 232, "pages"),
    Knob("memory", "memory.memsw.limit_in_bytes", None, "bytes", kept="pages"),
    Knob("memory", None, "memory.oom.group", "flag", released="0"),
    Knob("pids", "pids.max", "pids.max", "count", "TasksMax", "TasksMax", 227,
         released_v1="max"),
    Knob("cpuset", "cpuset.cpus", "cpuset.cpus", "list", "AllowedCPUs", None, 244, "list",
         released="", released_v1=None),
    Knob("cpuset", "cpuset.mems", "cpuset.mems", "list", "AllowedMemoryNodes", None, 244, "list",
         released="", released_v1=None),
)  # fmt: skip

_BY_FILE = {file: knob for knob in KNOBS for file in (knob.v1, knob.v2) if file}

_HUGETLB = Knob("hugetlb", None, None, "bytes", kept="hugepages", released_v1="-1")

_UNIT_SHIFT = {"KB": 10, "MB": 20, "GB": 30, "TB": 40}


def knob(file: str) -> Knob:
    """The row of a file; ValueError for a file that is no setting."""
    found = _BY_FILE.get(file)
    if found is not None:
        return found
    if file.startswith("hugetlb."):
        return _HUGETLB
    raise ValueError(f"{file!r} is no cgroup setting that is known")


def controller(file: str) -> str:
    """The controller that a file belongs to."""
    return file.split(".", 1)[0]


UNMANAGED = frozenset({"hugetlb", "misc", "rdma"})
"""v2 controllers that systemd neither enables nor disables."""


def property_of(file: str, hierarchy: str, systemd_version: int | None) -> str | None:
    """The unit property that carries ``file`` on that systemd; None: the file is written.

    An unknown version counts as a current one.
    """
    try:
        row = knob(file)
    except ValueError:
        return None
    name, since = row.property, row.since
    if hierarchy == "v1":
        name, since = row.property_v1, row.since if row.since_v1 is None else row.since_v1
    if systemd_version is not None and systemd_version < since:
        return None
    return name


def released(file: str, hierarchy: str) -> str | None:
    """The value of a group for which nobody set ``file``; None where it is inherited."""
    try:
        row = knob(file)
    except ValueError:
        return None
    return row.released_v1 if hierarchy == "v1" else row.released


def hugepage_size(file: str) -> int:
    """Bytes of a page for ``hugetlb.2MB.max``; 1 where the name holds none."""
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
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def effective(file: str, value: str, page_size: int) -> str:
    """What the kernel keeps of ``value``: bytes are cut to whole pages, lists are normalised,
    ``cpu.max`` gets its period, shares and quotas their bounds. Other text stays as it is."""
    try:
        kept = knob(file).kept
    except ValueError:
        return value
    match kept:
        case "pages" | "hugepages":
            return _bytes(file, value, page_size, hugepage_size(file) if kept != "pages" else 1)
        case "bandwidth":
            return value if " " in value else f"{value} {_PERIOD}"
        case "list":
            return cpu_list(value)
        case "shares" if file == "cpu.shares" and value.isdecimal():
            return str(min(max(int(value), 2), 262144))
        case "quota":
            return "-1" if value.startswith("-") else value
    return value


def _bytes(file: str, value: str, page_size: int, hugepage: int) -> str:
    """Bytes as they are kept. What is not below the largest number of pages is no limit.
    Source: mm/page_counter.c page_counter_memparse, mm/hugetlb_cgroup.c."""
    first = file.endswith("limit_in_bytes")
    most = (2**63 - 1) // page_size * page_size
    unit = max(page_size, hugepage)
    if first and value in ("-1", "max"):
        return str(most // unit * unit)
    if not value.isdecimal():
        return value
    if int(value) >= most // unit * unit:
        return str(most // unit * unit) if first else "max"
    return str(int(value) // unit * unit)


def same(file: str, wanted: str, found: str, page_size: int = 4096) -> bool:
    """Whether the kernel's answer is what a written value becomes. ``cpu.max`` without a period
    leaves the period as it was."""
    if file == "cpu.max" and " " not in wanted:
        return found.split(" ")[0] == wanted
    return found in (wanted, effective(file, wanted, page_size))
