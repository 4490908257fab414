"""Which files tell what a cgroup uses, and how they are read.

Source: Documentation/admin-guide/cgroup-v2.rst "CPU Interface Files", "Memory Interface Files";
Documentation/admin-guide/cgroup-v1/memory.rst, cpuacct.rst; Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

UsageField = Literal[
    "usage_usec", "throttled_usec", "memory", "memory_peak", "memory_swap", "oom_kills"
]
"""A field of ``ObservedCgroup``."""


class UsageCounter(NamedTuple):
    """A number of a file: ``pattern`` finds it, ``unit`` of it make one of the field's."""

    field: UsageField
    pattern: re.Pattern[bytes]
    unit: int = 1


_WHOLE = re.compile(rb"(\d+)\n?\Z")


def _line(name: bytes) -> re.Pattern[bytes]:
    """The number of a line ``name number``."""
    return re.compile(rb"^%s (\d+)$" % name, re.MULTILINE)


_V2: Mapping[str, tuple[UsageCounter, ...]] = {
    "cpu.stat": (
        UsageCounter("usage_usec", _line(b"usage_usec")),
        UsageCounter("throttled_usec", _line(b"throttled_usec")),
    ),
    "memory.current": (UsageCounter("memory", _WHOLE),),
    "memory.peak": (UsageCounter("memory_peak", _WHOLE),),
    "memory.events": (UsageCounter("oom_kills", _line(b"oom_kill")),),
}
_V1: Mapping[str, tuple[UsageCounter, ...]] = {
    "cpuacct.usage": (UsageCounter("usage_usec", _WHOLE, 1000),),
    "cpu.stat": (UsageCounter("throttled_usec", _line(b"throttled_time"), 1000),),
    "memory.usage_in_bytes": (UsageCounter("memory", _WHOLE),),
    "memory.max_usage_in_bytes": (UsageCounter("memory_peak", _WHOLE),),
    "memory.memsw.usage_in_bytes": (UsageCounter("memory_swap", _WHOLE),),
    "memory.oom_control": (UsageCounter("oom_kills", _line(b"oom_kill")),),
}


def usage_files(hierarchy: str) -> Mapping[str, tuple[UsageCounter, ...]]:
    """The files of a hierarchy, and the numbers in each."""
    return _V1 if hierarchy == "v1" else _V2


def take_numbers(
    data: bytes, numbers: tuple[UsageCounter, ...], found: dict[UsageField, int]
) -> None:
    """Add the numbers of a file; one that is not in it stays unknown."""
    for field, pattern, unit in numbers:
        match = pattern.search(data)
        if match is not None:
            found[field] = int(match[1]) // unit
