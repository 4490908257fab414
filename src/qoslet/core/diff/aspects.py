"""What the files of a cgroup mean for who runs in it: the aspects that two plans are compared by.

Files of v1 and v2 that mean the same belong to one aspect, so that a change of hierarchy compares
limits, not spellings. Source: cgroup-v1 memory.rst and hugetlb.rst, cgroup-v2 "Controllers".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.usage.fair_share import cap_of
from qoslet.core.quantity import binary, canonical, from_milli

Files = Mapping[str, str]
Measure = Callable[[Files], float | None]
Better = Literal["more", "less"]

_UNLIMITED = 1 << 62
"""v1 writes an unlimited counter as the largest multiple of a page below this or above."""

OOM_SCORE = "oom_score_adj"
"""The file of a process; it is compared as if it was one of its cgroup."""


class Aspect(Struct, frozen=True):
    """``files`` are those that decide, ``measure`` makes one number of them (None: none decides),
    ``better`` is what is good for who runs there, None if that depends; ``show`` prints the number.
    ``loses`` is whether the other direction takes CPU, memory or protection away; ``beside`` are
    files of other aspects that the measure reads."""

    id: str
    title: str
    files: tuple[str, ...]
    measure: Measure
    better: Better | None
    show: Callable[[float], str]
    loses: bool = True
    beside: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """All files that the measure looks at."""
        return self.files + self.beside


def _number(text: str | None, absent: float) -> float:
    if text is None:
        return absent
    if text in ("max", "-1"):
        return inf
    try:
        value = int(text)
    except ValueError:
        return absent
    return inf if value >= _UNLIMITED else float(value)


def _first(files: Files, names: tuple[str, ...], absent: float) -> float:
    for name in names:
        if name in files:
            return _number(files[name], absent)
    return absent


def _limit(*names: str) -> Measure:
    return lambda files: _first(files, names, inf)


def _claim(name: str) -> Measure:
    return lambda files: _number(files.get(name), 0.0)


def _quota(files: Files) -> float:
    found = cap_of(files)
    return inf if found is None else found


def _swap(files: Files) -> float | None:
    """Swap alone: v1 counts memory with it."""
    if "memory.memsw.limit_in_bytes" in files:
        both = _number(files["memory.memsw.limit_in_bytes"], inf)
        memory = _number(files.get("memory.limit_in_bytes"), inf)
        return inf if both == inf else max(0.0, both - memory)
    return _number(files.get("memory.swap.max"), inf)


def _cpus(files: Files) -> float:
    """How many CPUs a list names; all where it is absent or empty."""
    text = files.get("cpuset.cpus", "")
    count = 0
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            return inf
        count += int(last or first) - int(first) + 1
    return float(count) if count else inf


def _amount(value: float) -> str:
    return "no limit" if value == inf else binary(int(value))


def _cores(value: float) -> str:
    return "no limit" if value == inf else f"{canonical(from_milli(round(value * 1000)))} CPU"


def _ended(value: float) -> str:
    return "all processes of the container" if value else "one process"


def _count(value: float) -> str:
    return "no limit" if value == inf else f"{value:g}"


CPU_SHARE = "cpu-share"
SWAP = "swap"

ASPECTS: tuple[Aspect, ...] = (
    Aspect(
        "cpu-quota",
        "CPU limit",
        ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
        _quota,
        "more",
        _cores,
    ),
    Aspect("cpus", "CPUs", ("cpuset.cpus",), _cpus, "more", _count),
    Aspect(
        "memory-high",
        "throttling at memory.high",
        ("memory.high",),
        _limit("memory.high"),
        "more",
        _amount,
    ),
    Aspect(
        "memory-limit",
        "memory limit",
        ("memory.max", "memory.limit_in_bytes"),
        _limit("memory.max", "memory.limit_in_bytes"),
        "more",
        _amount,
    ),
    Aspect(
        "memory-min",
        "memory protection (memory.min)",
        ("memory.min",),
        _claim("memory.min"),
        "more",
        _amount,
    ),
    Aspect(
        "memory-low",
        "memory protection (memory.low)",
        ("memory.low",),
        _claim("memory.low"),
        "more",
        _amount,
    ),
    Aspect(
        "oom-order",
        "OOM order (oom_score_adj)",
        (OOM_SCORE,),
        _claim(OOM_SCORE),
        "less",
        _count,
    ),
    Aspect(
        "oom-group",
        "what an OOM kill ends (memory.oom.group)",
        ("memory.oom.group",),
        _claim("memory.oom.group"),
        None,
        _ended,
        loses=False,
    ),
    Aspect(
        SWAP,
        "swap limit",
        ("memory.swap.max", "memory.memsw.limit_in_bytes"),
        _swap,
        "more",
        _amount,
        beside=("memory.limit_in_bytes",),
    ),
    Aspect("pids", "PIDs limit", ("pids.max",), _limit("pids.max"), "more", _count, loses=False),
)
"""In the order in which people read them, after the CPU share."""

NEUTRAL = frozenset(aspect.id for aspect in ASPECTS if aspect.better is None)
"""The aspects in which neither value is better, but which people want to see."""

OTHER = Aspect("other", "other files", (), lambda files: None, "more", _count, loses=False)


def huge_pages(file: str) -> Aspect:
    """The limit of one size of huge pages, whose spelling both hierarchies share but for its end:
    ``hugetlb.2MB.max``, ``hugetlb.2MB.limit_in_bytes``."""
    size = ".".join(file.split(".")[:-1])
    names = (f"{size}.max", f"{size}.limit_in_bytes")
    kind = f"{size.removeprefix('hugetlb.')} huge pages"
    return Aspect(f"hugepages-{size}", f"limit of {kind}", names, _limit(*names), "more", _amount)


_BY_FILE = {file: aspect for aspect in ASPECTS for file in aspect.files}


def aspect_of(file: str) -> Aspect:
    """The aspect that a file belongs to."""
    if file.startswith("hugetlb."):
        return huge_pages(file)
    return _BY_FILE.get(file, OTHER)
