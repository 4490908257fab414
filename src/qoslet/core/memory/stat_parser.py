"""What the kernel prints about memory, as numbers. Text that is not as documented counts as absent.

Source: Documentation/admin-guide/cgroup-v2.rst "Memory Interface Files",
Documentation/admin-guide/cgroup-v1/memory.rst, Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.events import OomKill
from qoslet.core.memory.sample import NodeMemory, Pressure, SharedSegment

_V1_STAT = {
    "rss": "anon",
    "cache": "file",
    "shmem": "shmem",
    "mapped_file": "file_mapped",
    "dirty": "file_dirty",
    "writeback": "file_writeback",
    "active_anon": "active_anon",
    "inactive_anon": "inactive_anon",
    "active_file": "active_file",
    "inactive_file": "inactive_file",
    "unevictable": "unevictable",
    "pgfault": "pgfault",
    "pgmajfault": "pgmajfault",
    "workingset_refault_anon": "workingset_refault_anon",
    "workingset_refault_file": "workingset_refault_file",
}
"""Lines of v1's ``memory.stat``, ``total_`` left out, by the name that v2 has for the same."""

_OOM_KILL = re.compile(
    r"oom-kill:constraint=\w+,.*?(?:,oom_memcg=(/.*?))?(?:,global_oom)?"
    r",task_memcg=(/.*?),task=(.{0,64}),pid=(\d{1,10}),uid=(\d{1,10})$"
)
_KILLED = re.compile(
    r"Killed process (\d{1,10}) \((.{0,64})\) total-vm:\d+kB, "
    r"anon-rss:(\d{1,15})kB, file-rss:(\d{1,15})kB, shmem-rss:(\d{1,15})kB"
)
_WHOLE = re.compile(r"Tasks in (/.*) are going to be killed due to memory\.oom\.group set$")
_LONGEST = 20
"""Numbers have fewer digits."""
_KERNEL = 8
"""Priorities below this have the kernel's facility, which no process can write."""


def number(text: str | None) -> int | None:
    """A decimal number; ``max`` is UNLIMITED."""
    if text is None:
        return None
    word = text.strip()
    if word == "max":
        return UNLIMITED
    return int(word) if _decimal(word) else None


def limit_v1(text: str | None) -> int | None:
    """A limit of v1, which prints the most whole pages that fit where there is none."""
    value = number(text)
    return value if value is None or value < UNLIMITED >> 1 else UNLIMITED


def _decimal(word: str) -> bool:
    """Whether it is a number that a kernel would print."""
    return word.isascii() and word.isdecimal() and len(word) < _LONGEST


def pairs(text: str | None) -> dict[str, int]:
    """Lines of a name and a number."""
    numbers: dict[str, int] = {}
    for line in (text or "").splitlines():
        name, _, rest = line.partition(" ")
        if rest.isdecimal() and rest.isascii() and len(rest) < _LONGEST:
            numbers[name] = int(rest)
    return numbers


def stat_v1(text: str | None) -> dict[str, int]:
    """v1's ``memory.stat`` with what is below a group, by v2's names."""
    lines = pairs(text)
    values = {new: lines.get(f"total_{old}", lines.get(old)) for old, new in _V1_STAT.items()}
    return {name: value for name, value in values.items() if value is not None}


def pressure(text: str | None) -> Pressure | None:
    """``memory.pressure`` and /proc/pressure/memory; None where there is none."""
    by_kind: dict[str, dict[str, str]] = {}
    for line in (text or "").splitlines():
        kind, _, rest = line.partition(" ")
        by_kind[kind] = dict(word.split("=", 1) for word in rest.split() if "=" in word)
    try:
        some, full = by_kind["some"], by_kind["full"]
        return Pressure(
            float(some["avg10"]), int(some["total"]), float(full["avg10"]), int(full["total"])
        )
    except (KeyError, ValueError):
        return None


def node_memory(
    at: float,
    meminfo: str | None,
    vmstat: str | None,
    psi: str | None,
    zoneinfo: str | None = None,
    page_size: int = 4096,
) -> NodeMemory:
    """The machine, from /proc/meminfo, /proc/vmstat, /proc/pressure/memory and /proc/zoneinfo: the kernel does
    not count what lies free on the lists of its CPUs, an eighth of all at most since Linux 6.7 (mm/page_alloc.c
    ``nr_pcp_high``). What has just been freed lies there first, for seconds."""
    amounts = _kibibytes(meminfo)
    counters = pairs(vmstat)
    listed = page_size * sum(map(int, _LISTED.findall(zoneinfo or "")))
    free = amounts.get("MemFree", 0)
    return NodeMemory(
        at=at,
        total=amounts.get("MemTotal", 0),
        available=amounts.get("MemAvailable", free) + listed,
        free=free + listed,
        swap_total=amounts.get("SwapTotal", 0),
        swap_free=amounts.get("SwapFree", 0),
        pressure=pressure(psi),
        scanned=_sum(counters, "pgscan_"),
        stolen=_sum(counters, "pgsteal_"),
        shmem=amounts.get("Shmem"),
    )


_LISTED = re.compile(r"^ +count: +([0-9]+)$", re.MULTILINE)
"""Pages on the lists of one CPU for a zone."""
_ONCE = ("kswapd", "direct", "khugepaged", "proactive")
"""Parts of the counters that add up; others with these prefixes count the same pages again."""


def _sum(counters: Mapping[str, int], prefix: str) -> int | None:
    """The sum of the counters of one prefix; None without any."""
    amounts = [counters[prefix + source] for source in _ONCE if prefix + source in counters]
    return sum(amounts) if amounts else None


def _kibibytes(text: str | None) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    amounts: dict[str, int] = {}
    for line in (text or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words[1:] == ["kB"] and _decimal(words[0]):
            amounts[name] = int(words[0]) << 10
    return amounts


def kill_of(record: str) -> OomKill | None:
    """The OOM kill of a /dev/kmsg record; None for other records. A result with pid 0 has no
    process: the kills of the following records are all in its cgroup.

    Records that the kernel did not write are ignored. Source:
    Documentation/ABI/testing/dev-kmsg; mm/oom_kill.c dump_oom_victim, __oom_kill_process,
    oom_kill_process; mm/memcontrol.c mem_cgroup_print_oom_group.
    """
    head, _, rest = record.partition(";")
    priority, *_ = head.split(",")
    if not _decimal(priority) or int(priority) >= _KERNEL:
        return None
    message = rest.partition("\n")[0]
    match = _OOM_KILL.search(message)
    if match is not None:
        limit, cgroup, name, pid, _ = match.groups()
        return OomKill(pid=int(pid), name=name, group=cgroup, limit=limit or "")
    match = _WHOLE.search(message)
    if match is not None:
        return OomKill(pid=0, name="", group=match[1])
    match = _KILLED.search(message)
    if match is None:
        return None
    pid, name, *amounts = match.groups()
    return OomKill(pid=int(pid), name=name, resident=sum(int(pages) for pages in amounts) << 10)


_REMOVED = 0o1000
"""The mode of a segment that is marked for removal. Source: shmctl(2) SHM_DEST."""


def shared_segments(text: str | None) -> list[SharedSegment]:
    """The table of ``/proc/sysvipc/shm``; what cannot be read is left out."""
    found = []
    for line in (text or "").splitlines()[1:]:
        cells = line.split()
        if len(cells) < 16 or not all(cell.lstrip("-").isdecimal() for cell in cells[:16]):
            continue
        _, number, mode, _, creator, _, users, *_, made, resident, swapped = cells[:16]
        goes = bool(int(mode, 8) & _REMOVED)
        held = int(resident) + int(swapped)
        found.append(SharedSegment(int(number), int(creator), int(made), int(users), held, goes))
    return found
