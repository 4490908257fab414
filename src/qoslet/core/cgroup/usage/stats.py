"""The files of a cgroup as the CRI's statistics, without usage by CPU, which cgroup v2 does not
count.

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
"""File name to content; files that could not be read are missing."""


def usage(files: Files, v2: bool, now: int) -> dict[str, Any]:
    """``cpu``, ``memory``, ``swap`` and ``io`` of a cgroup, each if the kernel has it; ``now`` is
    nanoseconds since 1970."""
    statistics: dict[str, Any] = {}
    core = _cpu_nanoseconds(files, v2)
    if core is not None:
        statistics["cpu"] = _stamped(now, usageCoreNanoSeconds=core) | _psi(files, "cpu.pressure")
    memory = _memory(files, v2)
    if memory:
        statistics["memory"] = _stamped(now, **memory) | _psi(files, "memory.pressure")
    swap = _swap(files, v2)
    if swap:
        statistics["swap"] = _stamped(now, **swap)
    stalled = _psi(files, "io.pressure")
    if stalled:
        statistics["io"] = _stamped(now) | stalled
    return statistics


def rate(before: Mapping[str, Any], after: Mapping[str, Any]) -> int | None:
    """``usageNanoCores`` between two ``cpu`` of one cgroup; None if a counter is missing or reset."""
    try:
        spent = _wrapped(after, "usageCoreNanoSeconds") - _wrapped(before, "usageCoreNanoSeconds")
        passed = int(after["timestamp"]) - int(before["timestamp"])
    except KeyError:
        return None
    return spent * 1_000_000_000 // passed if passed > 0 and spent >= 0 else None


def processes(files: Files, now: int) -> dict[str, Any]:
    """``process`` of a pod; empty without the pids controller."""
    count = _number(files, "pids.current")
    return {} if count is None else {"process": _stamped(now, processCount=count)}


def with_rate(cpu: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """A ``cpu`` with ``usageNanoCores`` since ``before``."""
    nanocores = None if before is None else rate(before, cpu)
    return cpu if nanocores is None else {**cpu, "usageNanoCores": _value(nanocores)}


def _cpu_nanoseconds(files: Files, v2: bool) -> int | None:
    if not v2:
        return _number(files, "cpuacct.usage")
    used = _table(files, "cpu.stat").get("usage_usec")
    return None if used is None else used * 1000


def _memory(files: Files, v2: bool) -> dict[str, int]:
    """Amounts of memory in bytes."""
    now = _number(files, "memory.current" if v2 else "memory.usage_in_bytes")
    if now is None:
        return {}
    table = _table(files, "memory.stat")
    above = "" if v2 else "total_"
    working = max(0, now - table.get(f"{above}inactive_file", 0))
    amounts = {"workingSetBytes": working, "usageBytes": now}
    limit = _number(files, "memory.max" if v2 else "memory.limit_in_bytes")
    if limit is not None and (v2 or limit < _UNLIMITED_V1 >> 4):
        amounts["availableBytes"] = max(0, limit - working)
    for name, key in (
        ("rssBytes", "anon" if v2 else "total_rss"),
        ("pageFaults", f"{above}pgfault"),
        ("majorPageFaults", f"{above}pgmajfault"),
    ):
        if key in table:
            amounts[name] = table[key]
    return amounts


def _swap(files: Files, v2: bool) -> dict[str, int]:
    """Amounts of swap in bytes. v1 limits memory and swap together, so there is no available swap."""
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
    """``psi`` of a pressure file; empty without PSI."""
    pressures = {}
    for line in files.get(file, "").splitlines():
        name, *pairs = line.split()
        entries = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        try:
            data: dict[str, Any] = {"Total": str(int(entries["total"]) * 1000)}
            data |= {f"Avg{span}": float(entries[f"avg{span}"]) for span in (10, 60, 300)}
        except (KeyError, ValueError):
            continue
        pressures[name.capitalize()] = data
    return {"psi": pressures} if pressures else {}


def _stamped(now: int, **amounts: int) -> dict[str, Any]:
    return {"timestamp": str(now), **{name: _value(amount) for name, amount in amounts.items()}}


def _value(amount: int) -> dict[str, str]:
    """A wrapped number, as protobuf's JSON of the CRI has it."""
    return {"value": str(amount)}


def _wrapped(cpu: Mapping[str, Any], name: str) -> int:
    return int(cpu[name]["value"])


def _number(files: Files, file: str) -> int | None:
    """The content of a file with one number; None for ``max`` and other text."""
    text = files.get(file, "").strip()
    return int(text) if text.isdecimal() else None


def _table(files: Files, file: str) -> dict[str, int]:
    """A file of names and numbers."""
    lines = (line.split() for line in files.get(file, "").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdecimal()}
