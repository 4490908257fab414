"""What a kernel makes of a written value: the text that it prints afterwards, or a refusal.

One value of one file by itself; what depends on other groups is in ``kernel``. Every function
raises ``OSError`` with the errno that a real kernel gives.

Source: Linux kernel/sched/core.c (cpu), mm/page_counter.c and mm/memcontrol*.c (memory),
kernel/cgroup/pids.c, kernel/cgroup/cpuset.c, mm/hugetlb_cgroup.c, lib/kstrtox.c, lib/cmdline.c.
"""

from __future__ import annotations

import errno
import os
import re

from msgspec import Struct

from qoslet.core.cgroup.interface_files import cpu_list, cpu_numbers, hugepage_size

MIN_BANDWIDTH_USEC = 1000
"""The shortest CFS quota and period."""
MAX_PERIOD_USEC = 1_000_000
MAX_QUOTA_USEC = 2**44 - 1
PIDS_LIMIT = 4 * 1024 * 1024
"""The largest number that ``pids.max`` takes on 64 bits; unlimited is one more."""

_UNLIMITED_BYTES = 2**63 - 1
_SUFFIX = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*")
_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


class Facts(Struct, frozen=True):
    """The machine: its page size in bytes, its CPUs and memory nodes as lists, what the weight
    of an idle group reads as (0 before Linux 6.12)."""

    page_size: int = 4096
    cpus: str = "0-1"
    mems: str = "0"
    idle_weight: str = "1"


def refusal(code: int) -> OSError:
    """The error that a system call would give."""
    return OSError(code, os.strerror(code))


def kept(file: str, text: str, before: str, facts: Facts) -> str:
    """What ``file`` prints after ``text`` was written over ``before``."""
    if file.startswith("cpuset."):
        cpus = file == "cpuset.cpus"
        return _list(text, facts.cpus if cpus else facts.mems, cpus)
    if file.startswith("hugetlb."):
        return _bytes(file, text, hugepage_size(file), facts.page_size)
    if file.startswith("memory.") and file != "memory.oom.group":
        return _bytes(file, text, facts.page_size, facts.page_size)
    match file:
        case "cpu.shares":
            return str(min(max(_unsigned(text), 2), 262144))
        case "cpu.weight":
            return _within(_unsigned(text), 1, 10000, errno.ERANGE)
        case "cpu.idle" | "memory.oom.group":
            return _within(_signed(text), 0, 1, errno.EINVAL)
        case "cpu.max":
            return _cpu_max(text, before)
        case "cpu.cfs_quota_us":
            quota = _signed(text)
            return "-1" if quota < 0 else str(_quota(quota))
        case "cpu.cfs_period_us":
            return str(_period(_unsigned(text)))
        case "pids.max":
            return _pids(text)
    raise refusal(errno.ENOENT)


def unlimited(file: str, page_size: int) -> str:
    """How a file of bytes prints "no limit"; v1 prints the largest whole page."""
    if not file.endswith("limit_in_bytes"):
        return "max"
    unit = hugepage_size(file) if file.startswith("hugetlb.") else page_size
    return str(_UNLIMITED_BYTES // unit * unit)


def _bytes(file: str, text: str, unit: int, page_size: int) -> str:
    """Bytes cut to whole units; ``max`` or, on v1, ``-1`` is unlimited."""
    stripped = text.strip()
    none = unlimited(file, page_size)
    if stripped == ("-1" if none != "max" else "max"):
        return none
    match = _NUMBER.match(stripped)
    value = _base0(match.group()) if match else 0
    rest = stripped[match.end() :] if match else stripped
    if rest[:1].upper() in _SUFFIX:
        value <<= _SUFFIX[rest[:1].upper()]
        rest = rest[1:]
    if rest:
        raise refusal(errno.EINVAL)
    if value % 2**64 >= _UNLIMITED_BYTES // page_size * page_size:
        return none
    return str(value % 2**64 // unit * unit)


def _base0(text: str) -> int:
    """A number as C reads it: hexadecimal, octal or decimal."""
    if text[:2].lower() == "0x":
        return int(text, 16)
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)


def _signed(text: str) -> int:
    """kstrtoll: the whole text, one newline at its end is allowed."""
    body = text.removesuffix("\n")
    negative = body.startswith("-")
    digits = body[1:] if body[:1] in ("-", "+") else body
    if not _NUMBER.fullmatch(digits):
        raise refusal(errno.EINVAL)
    value = -_base0(digits) if negative else _base0(digits)
    if not -(2**63) <= value < 2**63:
        raise refusal(errno.ERANGE)
    return value


def _unsigned(text: str) -> int:
    """kstrtoull: as ``_signed`` without a minus."""
    body = text.removesuffix("\n")
    digits = body.removeprefix("+")
    if not _NUMBER.fullmatch(digits):
        raise refusal(errno.EINVAL)
    value = _base0(digits)
    if value >= 2**64:
        raise refusal(errno.ERANGE)
    return value


def _within(value: int, least: int, most: int, code: int) -> str:
    if not least <= value <= most:
        raise refusal(code)
    return str(value)


def _quota(value: int) -> int:
    if not MIN_BANDWIDTH_USEC <= value <= MAX_QUOTA_USEC:
        raise refusal(errno.EINVAL)
    return value


def _period(value: int) -> int:
    if not MIN_BANDWIDTH_USEC <= value <= MAX_PERIOD_USEC:
        raise refusal(errno.EINVAL)
    return value


def _cpu_max(text: str, before: str) -> str:
    """sscanf("%20s %llu"): the period stays where none is given."""
    words = text.split()
    if not words:
        raise refusal(errno.EINVAL)
    period = before.split()[1]
    if len(words) > 1 and words[1].isdecimal():
        period = words[1]
    _period(int(period))
    if words[0] == "max":
        return f"max {int(period)}"
    digits = re.match(r"\d+", words[0])
    if digits is None:
        raise refusal(errno.EINVAL)
    return f"{_quota(int(digits.group()))} {int(period)}"


def _pids(text: str) -> str:
    stripped = text.strip()
    if stripped == "max":
        return "max"
    return _within(_signed(stripped), 0, PIDS_LIMIT, errno.EINVAL)


def _list(text: str, machine: str, cpus: bool) -> str:
    """A list of what the machine has; empty is allowed here. CPUs beyond the last one are out of
    the file's range; nodes are counted to a number that no machine has."""
    stripped = text.strip()
    pairs = [part.split("-") for part in stripped.split(",")]
    ordered = _LIST.fullmatch(stripped) and all(int(p[0]) <= int(p[-1]) for p in pairs)
    if stripped and not ordered:
        raise refusal(errno.EINVAL)
    wanted = cpu_list(stripped)
    numbers, there = cpu_numbers(wanted), cpu_numbers(machine)
    if cpus and max(numbers, default=0) > max(there):
        raise refusal(errno.ERANGE)
    if not numbers <= there:
        raise refusal(errno.EINVAL)
    return wanted
