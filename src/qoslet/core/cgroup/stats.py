"""What a group's files say, in the shape of the CRI's statistics: cumulative and current, without
CPU by CPU, which cgroup v2 does not count.

Keys are those of protobuf's JSON (``crictl stats -o json``), 64-bit numbers are texts as there.
Source: CRI ContainerStats, LinuxPodSandboxStats, PsiData (nanoseconds, where the kernel has
microseconds); containerd cri container_stats_list.go (working set, what v1 counts with ``total_``);
KEP-4205 (PSI).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILES_V1 = (
    "cpuacct.usage",
    "memory.usage_in_bytes",
    "memory.stat",
    "memory.limit_in_bytes",
    "pids.current",
)
FILES_V2 = (
    "cpu.stat",
    "cpu.pressure",
    "io.pressure",
    "memory.current",
    "memory.stat",
    "memory.max",
    "memory.pressure",
    "memory.swap.current",
    "memory.swap.max",
    "pids.current",
)

_UNLIMITED_V1 = 0x7FFFFFFFFFFFF000
"""The largest limit that v1 knows, with pages of 4 KiB; larger pages give less."""

Files = Mapping[str, str]
"""File name to its text; an absent one was not readable."""


def usage(files: Files, v2: bool, now: int) -> dict[str, Any]:
    """``cpu``, ``memory``, ``swap`` and ``io`` of a group, each where the kernel tells it; ``now``
    is nanoseconds since 1970."""
    made: dict[str, Any] = {}
    core = _cpu_nanoseconds(files, v2)
    if core is not None:
        made["cpu"] = _stamped(now, usageCoreNanoSeconds=core) | _psi(files, "cpu.pressure")
    memory = _memory(files, v2)
    if memory:
        made["memory"] = _stamped(now, **memory) | _psi(files, "memory.pressure")
    swap = _swap(files, v2)
    if swap:
        made["swap"] = _stamped(now, **swap)
    stalled = _psi(files, "io.pressure")
    if stalled:
        made["io"] = _stamped(now) | stalled
    return made


def rate(before: Mapping[str, Any], after: Mapping[str, Any]) -> int | None:
    """``usageNanoCores`` between two ``cpu`` of one group; None where it cannot be told."""
    try:
        spent = _wrapped(after, "usageCoreNanoSeconds") - _wrapped(before, "usageCoreNanoSeconds")
        passed = int(after["timestamp"]) - int(before["timestamp"])
    except KeyError:
        return None
    return spent * 1_000_000_000 // passed if passed > 0 and spent >= 0 else None


def processes(files: Files, now: int) -> dict[str, Any]:
    """``process`` of a pod; empty where it is not counted."""
    count = _number(files, "pids.current")
    return {} if count is None else {"process": _stamped(now, processCount=count)}


def with_rate(cpu: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """A ``cpu`` with what was used since ``before``."""
    found = None if before is None else rate(before, cpu)
    return cpu if found is None else {**cpu, "usageNanoCores": _value(found)}


def _cpu_nanoseconds(files: Files, v2: bool) -> int | None:
    if not v2:
        return _number(files, "cpuacct.usage")
    used = _table(files, "cpu.stat").get("usage_usec")
    return None if used is None else used * 1000


def _memory(files: Files, v2: bool) -> dict[str, int]:
    """The amounts of a group's memory in bytes."""
    now = _number(files, "memory.current" if v2 else "memory.usage_in_bytes")
    if now is None:
        return {}
    table = _table(files, "memory.stat")
    above = "" if v2 else "total_"
    working = max(0, now - table.get(f"{above}inactive_file", 0))
    made = {"workingSetBytes": working, "usageBytes": now}
    limit = _number(files, "memory.max" if v2 else "memory.limit_in_bytes")
    if limit is not None and (v2 or limit < _UNLIMITED_V1 >> 4):
        made["availableBytes"] = max(0, limit - working)
    for name, key in (
        ("rssBytes", "anon" if v2 else "total_rss"),
        ("pageFaults", f"{above}pgfault"),
        ("majorPageFaults", f"{above}pgmajfault"),
    ):
        if key in table:
            made[name] = table[key]
    return made


def _swap(files: Files, v2: bool) -> dict[str, int]:
    """The amounts of a group's swap in bytes. On v1 its limit is one of memory and swap together,
    which leaves no amount of swap available."""
    if not v2:
        used = _table(files, "memory.stat").get("total_swap")
        return {} if used is None else {"swapUsageBytes": used}
    used = _number(files, "memory.swap.current")
    if used is None:
        return {}
    most = _number(files, "memory.swap.max")
    left = {} if most is None else {"swapAvailableBytes": max(0, most - used)}
    return {**left, "swapUsageBytes": used}


def _psi(files: Files, file: str) -> dict[str, Any]:
    """``psi`` of a pressure file; empty where the kernel has none."""
    rows = {}
    for line in files.get(file, "").splitlines():
        name, *pairs = line.split()
        entries = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        try:
            data: dict[str, Any] = {"Total": str(int(entries["total"]) * 1000)}
            data |= {f"Avg{span}": float(entries[f"avg{span}"]) for span in (10, 60, 300)}
        except (KeyError, ValueError):
            continue
        rows[name.capitalize()] = data
    return {"psi": rows} if rows else {}


def _stamped(now: int, **amounts: int) -> dict[str, Any]:
    return {"timestamp": str(now), **{name: _value(one) for name, one in amounts.items()}}


def _value(amount: int) -> dict[str, str]:
    """A wrapped number, as protobuf's JSON of the CRI has it."""
    return {"value": str(amount)}


def _wrapped(cpu: Mapping[str, Any], name: str) -> int:
    return int(cpu[name]["value"])


def _number(files: Files, file: str) -> int | None:
    """A file that holds one number; None for ``max`` and what is none."""
    text = files.get(file, "").strip()
    return int(text) if text.isdecimal() else None


def _table(files: Files, file: str) -> dict[str, int]:
    """A file of names and numbers."""
    rows = (line.split() for line in files.get(file, "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}
