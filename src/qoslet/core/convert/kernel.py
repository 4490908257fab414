"""What the kernel makes of a value that a runtime writes: what it keeps, what it refuses.

Bounds that depend on the machine (its CPUs, devices, hugepage sizes) count only where the
``Ground`` knows them. Source: kernel/sched/core.c, mm/page_counter.c, mm/memcontrol-v1.c,
kernel/cgroup/pids.c, kernel/cgroup/cpuset.c, block/bfq-cgroup.c, block/blk-iocost.c; read back
on kernels 6.1, 6.12 and 6.18.
"""

from __future__ import annotations

from collections.abc import Callable

from qoslet.core.convert.answer import Ground
from qoslet.core.knobs import cpu_list, cpu_numbers, hugepage_size

INVALID, RANGE = "invalid argument", "numerical result out of range"
MISSING, NO_DEVICE = "no such file or directory", "no such device"

Complaint = tuple[str, str]
"""The error in strerror's words, and what the kernel takes instead."""

SHORTEST_US, LONGEST_US = 1000, 1_000_000
MOST_QUOTA_US = (1 << 44) - 1
MOST_PIDS = 4_194_304
_MOST_BYTES = 2**63 - 1
_SPAN = f"{SHORTEST_US} to {LONGEST_US} us"
_LONGEST_LIST = 8192

Check = Callable[[str, Ground], Complaint | None]


def _digits(text: str) -> bool:
    """Whether the kernel's parsers take the text for a number; int() would take more."""
    return text.isascii() and text.isdigit()


def _within(least: int, most: int, word: str) -> Check:
    """A whole number between two bounds."""
    said = (word, f"{least} to {most}")

    def check(value: str, ground: Ground) -> Complaint | None:
        return None if _digits(value) and least <= int(value) <= most else said

    return check


def _bytes(value: str, ground: Ground) -> Complaint | None:
    if _digits(value) or value in ("max", "-1"):
        return None
    return INVALID, "bytes, or no limit"


def _bytes_v2(value: str, ground: Ground) -> Complaint | None:
    return None if _digits(value) or value == "max" else (INVALID, "bytes, or max")


def _period(value: str, ground: Ground) -> Complaint | None:
    return None if SHORTEST_US <= int(value) <= LONGEST_US else (INVALID, f"a period of {_SPAN}")


def _quota(value: str, ground: Ground) -> Complaint | None:
    amount = int(value)
    if amount < 0 or SHORTEST_US <= amount <= MOST_QUOTA_US:
        return None
    return (
        RANGE if amount > _MOST_BYTES else INVALID,
        f"a quota of at least {SHORTEST_US} us and at most {MOST_QUOTA_US}",
    )


def _cpu_max(value: str, ground: Ground) -> Complaint | None:
    quota, _, period = value.partition(" ")
    if quota != "max" and (found := _quota(quota, ground)):
        return found
    return _period(period, ground)


def _pids(value: str, ground: Ground) -> Complaint | None:
    if value == "max" or (_digits(value) and int(value) <= MOST_PIDS):
        return None
    return INVALID, f"0 to {MOST_PIDS}, or max"


def _numbers(value: str) -> frozenset[int] | None:
    """The members of a CPU or node list; None for text that is none."""
    if len(value) > _LONGEST_LIST or not value.strip():
        return None
    for part in value.strip().split(","):
        first, dash, last = part.partition("-")
        if not (_digits(first) and len(first) < 6):
            return None
        if dash and not (_digits(last) and len(last) < 6 and int(first) <= int(last)):
            return None
    return cpu_numbers(cpu_list(value.strip()))


def _list(of: str) -> Check:
    """A list of CPUs or memory nodes that the machine has."""

    def check(value: str, ground: Ground) -> Complaint | None:
        wanted = _numbers(value)
        if wanted is None:
            return INVALID, "a list such as 0-3,8"
        there = getattr(ground, of)
        if there is None or wanted <= there:
            return None
        return RANGE if of == "cpus" else INVALID, f"{of} of this machine"

    return check


_CHECKS: dict[str, Check] = {
    "cpu.weight": _within(1, 10000, RANGE),
    "cpu.max": _cpu_max,
    "cpu.idle": _within(0, 1, INVALID),
    "cpu.cfs_period_us": _period,
    "cpu.cfs_quota_us": _quota,
    "pids.max": _pids,
    "cpuset.cpus": _list("cpus"),
    "cpuset.mems": _list("mems"),
    "memory.limit_in_bytes": _bytes,
    "memory.memsw.limit_in_bytes": _bytes,
    "memory.soft_limit_in_bytes": _bytes,
    "memory.swappiness": _within(0, 200, INVALID),
    "memory.max": _bytes_v2,
    "memory.high": _bytes_v2,
    "memory.low": _bytes_v2,
    "memory.min": _bytes_v2,
    "memory.swap.max": _bytes_v2,
    "memory.oom.group": _within(0, 1, INVALID),
    "io.weight": _within(1, 10000, INVALID),
    "io.bfq.weight": _within(1, 1000, RANGE),
    "blkio.bfq.weight": _within(1, 1000, RANGE),
}


def complaint(file: str, value: str, ground: Ground) -> Complaint | None:
    """Why the kernel refuses ``value`` for ``file``; None where it takes it or nobody knows."""
    check = _CHECKS.get(file)
    if check is not None:
        return check(value, ground)
    sizes = ground.sizes
    if sizes is not None and file.startswith("hugetlb.") and file.split(".")[1] not in sizes:
        return MISSING, "a page size that the machine has"
    return None


def _cut(unit: int, value: str, unlimited: str) -> str:
    """Bytes in whole units; what is not below the largest counter is no limit."""
    if value in ("max", "-1"):
        return unlimited
    if not _digits(value):
        return value
    amount = int(value)
    return unlimited if amount >= _MOST_BYTES // unit * unit else str(amount // unit * unit)


def _shares(value: str) -> str:
    return str(min(max(int(value), 2), 262144)) if _digits(value) else value


def kept(file: str, value: str, page: int) -> str:
    """What is read back after ``value`` was written; lists are joined, bytes cut to pages."""
    if file.startswith("memory."):
        if file.endswith("limit_in_bytes"):
            return _cut(page, value, str(_MOST_BYTES // page * page))
        if file == "memory.oom_control":
            return f"oom_kill_disable {value}"
        return (
            value if file in ("memory.swappiness", "memory.oom.group") else _cut(page, value, "max")
        )
    if file.startswith("hugetlb."):
        unit = max(page, hugepage_size(file))
        first = file.endswith("limit_in_bytes")
        most = _MOST_BYTES // page * page // unit * unit
        return _cut(unit, value, str(most) if first else "max")
    if file == "cpu.shares":
        return _shares(value)
    if file == "cpu.cfs_quota_us":
        return "-1" if value.startswith("-") else value
    if file in ("cpuset.cpus", "cpuset.mems"):
        return cpu_list(value)
    if file in ("io.weight", "io.bfq.weight"):
        return weights(value)
    return rates(value) if file == "io.max" else value


def weights(value: str) -> str:
    """Lines of io.bfq.weight or io.weight as they are read: the default first, then devices."""
    found: dict[str, str] = {"default": "100"}
    for line in value.splitlines():
        device, space, amount = line.partition(" ")
        found[device if space else "default"] = amount if space else device
    return "\n".join(f"{device} {amount}" for device, amount in found.items())


def rates(value: str) -> str:
    """Lines of io.max as they are read: one for each device, with every key."""
    found: dict[str, dict[str, str]] = {}
    for line in value.splitlines():
        device, _, setting = line.partition(" ")
        key, _, amount = setting.partition("=")
        keys = found.setdefault(device, dict.fromkeys(("rbps", "wbps", "riops", "wiops"), "max"))
        keys[key] = amount
    return "\n".join(
        f"{device} {' '.join(f'{key}={amount}' for key, amount in keys.items())}"
        for device, keys in found.items()
    )
