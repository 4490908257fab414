"""What the kernel makes of a value that a runtime writes: what it keeps, what it refuses.

Bounds that depend on the machine (its CPUs, devices, hugepage sizes) count only where the
``KernelFeatures`` knows them. Source: kernel/sched/core.c, mm/page_counter.c, mm/memcontrol.c,
mm/memcontrol-v1.c, kernel/cgroup/cgroup.c, pids.c, cpuset.c, fs/kernfs/file.c; read back on
kernels 6.1, 6.12, 6.18 and 7.2.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import lru_cache

from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.interface_files import hugepage_size, joined
from qoslet.core.cgroup.kernel_numbers import (
    BLANKS,
    INVALID,
    MOST,
    NO_DEVICE,
    RANGE,
    WIDE,
    LatePattern,
    members,
    memparse,
    plain,
    scanned,
    whole,
)

MISSING, TOO_LONG = "no such file or directory", "argument list too long"
ERRNOS = {
    INVALID: errno.EINVAL,
    RANGE: errno.ERANGE,
    WIDE: errno.EOVERFLOW,
    MISSING: errno.ENOENT,
    TOO_LONG: errno.E2BIG,
    NO_DEVICE: errno.ENODEV,
}

Complaint = tuple[str, str]
"""The error in strerror's words, and what the kernel takes instead."""

SHORTEST_US, LONGEST_US = 1000, 1_000_000
MOST_QUOTA_US = (1 << 44) - 1
MOST_PIDS = 4_194_304
MOST_CPUS, MOST_NODES = 8192, 1024
DEFAULT_PERIOD_US = 100_000
_MOST_BYTES = 2**63 - 1
_SPAN = f"{SHORTEST_US} to {LONGEST_US} us"
_NANO = 1000
_LONGEST_LIST = 100 + 6 * MOST_CPUS
_INT, _LONG = 32, 64
_MOST_DIGITS = 9

Write = Callable[[str, str | None, KernelFeatures], str | Complaint]
"""From the text of a write, and the content of the file (None: never written), to what is read back
or a complaint."""


def _number(
    least: int, most: int, word: str, signed: bool = False, strips: bool = False, bits: int = _LONG
) -> Write:
    """A whole number between two bounds; ``word`` is the error beyond them."""
    takes = f"{least} to {most}"
    wide = bits == _LONG

    def write(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
        if wide and plain(text):
            return text if least <= int(text) <= most else (word, takes)
        amount = whole(text.strip(BLANKS) if strips else text, signed, bits)
        if isinstance(amount, str):
            return amount, takes
        return str(amount) if least <= amount <= most else (word, takes)

    return write


def _count(most: int, beyond: str, bits: int = 64) -> Write:
    """A count, or ``max``."""

    def write(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
        text = text.strip(BLANKS)
        if text == "max":
            return text
        amount = whole(text, True, bits)
        if isinstance(amount, int) and 0 <= amount <= most:
            return str(amount)
        return amount if isinstance(amount, str) else beyond, f"0 to {most}, or max"

    return write


def _word(*words: str) -> Write:
    def write(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
        text = text.strip(BLANKS)
        return text if text in words else (INVALID, " or ".join(words))

    return write


_period = _number(SHORTEST_US, LONGEST_US, INVALID)


def _lasts(period: int) -> bool:
    return SHORTEST_US <= period <= LONGEST_US


def _quota_fault(amount: int) -> Complaint | None:
    if SHORTEST_US <= amount <= MOST_QUOTA_US:
        return None
    return INVALID, f"a quota of at least {SHORTEST_US} us and at most {MOST_QUOTA_US}"


def _quota(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    amount = whole(text, signed=True)
    if isinstance(amount, str):
        return amount, "a quota in us, or -1"
    return "-1" if amount < 0 else _quota_fault(amount) or str(amount)


_CPU_MAX = LatePattern(rf"(?s)[{BLANKS}]*([^{BLANKS}]{{1,20}})(.*)\Z")
_INFINITE_SINCE = (6, 17)
"""Since this version 2^64 - 1 means no quota; before it is refused."""


def _cpu_max(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """``QUOTA [PERIOD]``; without a period the current one stays."""
    quota_text, _, period_text = text.partition(" ")
    if plain(period_text) and _lasts(int(period_text)):
        if quota_text == "max":
            return text
        if plain(quota_text):
            return _quota_fault(int(quota_text)) or text
    match = _CPU_MAX.match(text)
    quota = scanned(match[1], features.wraps) if match is not None else None
    if match is None or (quota is None and match[1] != "max"):
        return INVALID, "a quota in us or max, and a period"
    period = scanned(match[2], features.wraps)
    if period is None:
        period = scanned((current or "").partition(" ")[2]) or DEFAULT_PERIOD_US
    if quota == MOST and features.kernel >= _INFINITE_SINCE:
        quota = None
    fault = None if quota is None else _quota_fault(quota)
    if fault is not None:
        return fault
    if not _lasts(period):
        return INVALID, f"a period of {_SPAN}"
    return f"{'max' if quota is None else quota} {period}"


_PERCENT = LatePattern(r"([0-9]{1,9})(?:\.([0-9]{1,2}))?\Z")


def _percent(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    text = text.strip(BLANKS)
    match, takes = _PERCENT.match(text), "0 to 100 with two places, or max"
    if text == "max":
        return text
    if match is None:
        return INVALID, takes
    percent = f"{int(match[1])}.{match[2] or '':0<2}"
    return percent if float(percent) <= 100 else (RANGE, takes)


def _bytes(unlimited: str, unit: int, text: str, features: KernelFeatures) -> str | Complaint:
    """Bytes in whole units. Amounts from the largest counter on mean no limit, which v1 prints as
    a number."""
    if plain(text):
        amount = int(text)
        remainder = amount % unit
        return str(amount - remainder) if remainder else text
    text = text.strip(BLANKS)
    most = _MOST_BYTES // features.page_size * features.page_size // unit * unit
    shown = str(most) if unlimited == "-1" else "max"
    if text == unlimited:
        return shown
    parsed = memparse(text, features.wraps)
    if parsed is None:
        return INVALID, f"bytes, or {unlimited}"
    return shown if parsed >= most else str(parsed // unit * unit)


def _bytes_v1(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    return _bytes("-1", features.page_size, text, features)


def _bytes_v2(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    return _bytes("max", features.page_size, text, features)


def _shares(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    amount = whole(text)
    if isinstance(amount, str):
        return amount, "shares"
    return str(min(max(amount, 2), 262144))


def _list(kind: str, most: int) -> Write:
    """A list of CPUs or memory nodes that the machine has. ``most`` is the largest number that a
    kernel can be built for."""

    def write(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
        existing: frozenset[int] | None = getattr(features, kind)
        bits = max(existing) + 1 if existing and kind == "cpus" else most
        wanted = members(text, bits)
        if isinstance(wanted, str):
            takes = f"{kind} of this machine" if wanted == RANGE else "a list such as 0-3,8"
            return wanted, takes
        if existing is None and ("N" in text or "all" in text.lower()):
            return text.strip(BLANKS)
        if existing is None or wanted <= existing:
            return joined(wanted)
        return RANGE if kind == "cpus" else INVALID, f"{kind} of this machine"

    return write


def _oom_control(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    value = _number(0, 1, INVALID)(text, current, features)
    return value if isinstance(value, tuple) else f"oom_kill_disable {value}"


def _subtree(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """cgroup.subtree_control."""
    available = features.controllers or frozenset()
    for word in text.strip(BLANKS).split(" "):
        if word and (word[0] not in "+-" or word[1:] not in available):
            return INVALID, "+ or - with a controller of the group"
    return text


_TRIGGER = LatePattern(r"(some|full) [0-9]+ [0-9]+")


def _trigger(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    if _TRIGGER.match(text):
        return text
    return INVALID, "some or full with a threshold and a window in us"


_FLAG = _number(0, 1, INVALID, True, True, _INT)
_SWITCH = _number(0, 1, RANGE, True, True, _INT)
_DEPTH = _count(2**31 - 1, RANGE, _INT)
_PROCESS = _number(0, 2**31 - 1, INVALID, True, True, _INT)
_BURST = _number(0, (2**64 - 1) // _NANO, INVALID)

WRITES: dict[str, Write] = {
    "cpu.weight": _number(1, 10000, RANGE),
    "cpu.weight.nice": _number(-20, 19, RANGE, True),
    "cpu.max": _cpu_max,
    "cpu.max.burst": _BURST,
    "cpu.idle": _number(0, 1, INVALID, True),
    "cpu.uclamp.min": _percent,
    "cpu.uclamp.max": _percent,
    "cpu.shares": _shares,
    "cpu.cfs_period_us": _period,
    "cpu.cfs_quota_us": _quota,
    "cpu.cfs_burst_us": _BURST,
    "pids.max": _count(MOST_PIDS, INVALID),
    "cpuset.cpus": _list("cpus", MOST_CPUS),
    "cpuset.cpus.exclusive": _list("cpus", MOST_CPUS),
    "cpuset.mems": _list("mems", MOST_NODES),
    "cpuset.cpus.partition": _word("member", "root", "isolated"),
    "memory.swappiness": _number(0, 200, INVALID),
    "memory.oom_control": _oom_control,
    "memory.max": _bytes_v2,
    "memory.high": _bytes_v2,
    "memory.low": _bytes_v2,
    "memory.min": _bytes_v2,
    "memory.swap.max": _bytes_v2,
    "memory.swap.high": _bytes_v2,
    "memory.zswap.max": _bytes_v2,
    "memory.zswap.writeback": _FLAG,
    "memory.oom.group": _FLAG,
    "io.prio.class": _word("no-change", "promote-to-rt", "none-to-rt", "restrict-to-be", "idle"),
    "blkio.bfq.weight": _number(1, 1000, RANGE),
    "cgroup.freeze": _SWITCH,
    "cgroup.pressure": _SWITCH,
    "cgroup.kill": _number(1, 1, RANGE, True, True, _INT),
    "cgroup.max.depth": _DEPTH,
    "cgroup.max.descendants": _DEPTH,
    "cgroup.procs": _PROCESS,
    "cgroup.threads": _PROCESS,
    "cgroup.type": _word("threaded"),
    "cgroup.subtree_control": _subtree,
    "cpu.pressure": _trigger,
    "io.pressure": _trigger,
    "irq.pressure": _trigger,
    "memory.pressure": _trigger,
}


def _keyed(file: str, name: str) -> Write:
    """A function of ``keyed_files``, imported at the first write of ``file``: few plans have one."""

    def write(text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
        from qoslet.core.cgroup import keyed_files

        found: Write = getattr(keyed_files, name)
        WRITES[file] = found
        return found(text, current, features)

    return write


_KEYED = {
    "io.max": "rates",
    "io.weight": "weights",
    "io.bfq.weight": "bfq_weights",
    "io.latency": "latency",
    "rdma.max": "rdma",
    "misc.max": "misc",
    "dmem.max": "regions",
    "dmem.low": "regions",
    "dmem.min": "regions",
}
WRITES.update({file: _keyed(file, name) for file, name in _KEYED.items()})

KEYED = frozenset(_KEYED)
"""Files in which a write leaves the entries that it does not name."""


def written(file: str, text: str, current: str | None, features: KernelFeatures) -> str | Complaint:
    """What is read back after ``text`` was written to ``file``, which held ``current``; or why the
    kernel refuses it. Unknown files keep the text."""
    if len(text) * 4 > features.page_size or "\0" in text:
        most = _LONGEST_LIST if file.startswith("cpuset.") else features.page_size
        if len(text.encode(errors="surrogatepass")) > most:
            return TOO_LONG, f"at most {most} bytes"
        text = text.partition("\0")[0]
    write = WRITES.get(file)
    if write is not None:
        return write(text, current, features)
    if file.startswith("hugetlb."):
        return _hugepages(file, text, features)
    if file.startswith("memory.") and file.endswith("limit_in_bytes"):
        return _bytes_v1(text, current, features)
    return text


@lru_cache(maxsize=64)
def _hugetlb(file: str) -> tuple[str, int, str] | None:
    """The size of a file's pages as text and in bytes, and its word for no limit."""
    family, _, rest = file.partition(".")
    size, _, name = rest.partition(".")
    kind, digits = name.removeprefix("rsvd."), size[:-2]
    if family != "hugetlb" or kind not in ("max", "limit_in_bytes"):
        return None
    if size[-2:] not in ("KB", "MB", "GB") or not (digits.isascii() and digits.isdecimal()):
        return None
    if len(digits) > _MOST_DIGITS:
        return None
    return size, hugepage_size(file), "max" if kind == "max" else "-1"


def _hugepages(file: str, text: str, features: KernelFeatures) -> str | Complaint:
    parsed = _hugetlb(file)
    if parsed is None:
        return MISSING, "a page size such as 2MB"
    size, unit, unlimited = parsed
    if features.sizes is not None and size not in features.sizes:
        return MISSING, "a page size that the machine has"
    return _bytes(unlimited, max(features.page_size, unit), text, features)


def effective(file: str, value: str, page_size: int) -> str:
    """What a new cgroup reads back after a write of ``value``; ``value`` if the kernel refuses it."""
    result = written(file, value, None, _pages(page_size))
    return result if isinstance(result, str) else value


def same(file: str, wanted: str, actual: str, page_size: int = 4096) -> bool:
    """Whether a write of ``wanted`` leaves a file that holds ``actual`` as it is."""
    return wanted == actual or written(file, wanted, actual, _pages(page_size)) == actual


@lru_cache(maxsize=8)
def _pages(size: int) -> KernelFeatures:
    return KernelFeatures(page_size=size)


def complaint(file: str, value: str, features: KernelFeatures) -> Complaint | None:
    """Why the kernel refuses ``value`` for ``file``; None if it takes it or the file is unknown."""
    result = written(file, value, None, features)
    return result if isinstance(result, tuple) else None


__all__ = ["INVALID", "KEYED", "MISSING", "NO_DEVICE", "RANGE", "WRITES", "complaint", "written"]
