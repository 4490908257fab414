"""Writes texts to the files of one cgroup and records what the running kernel makes of each.

`python -m tests.live.kernel.kernel_writes FILE` as root in a guest; the rows of FILE are committed
below tests/data/kernel-writes.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path("/sys/fs/cgroup")
NAME: Final = "qoslet-test-kernel-writes"

BEFORE_V1: Final = {
    "cpu.shares": "512",
    "cpu.cfs_quota_us": "-1",
    "cpu.cfs_period_us": "50000",
    "pids.max": "77",
    "memory.limit_in_bytes": "67108864",
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "hugetlb.2MB.limit_in_bytes": "4194304",
}
"""The files of v1, and what stands in each before a write."""

BEFORE_V2: Final = {
    "cpu.weight": "50",
    "cpu.idle": "0",
    "cpu.max": "max 50000",
    "cpu.max.burst": "0",
    "pids.max": "77",
    "memory.max": "67108864",
    "memory.high": "67108864",
    "memory.low": "4096",
    "memory.min": "4096",
    "memory.swap.max": "67108864",
    "memory.oom.group": "0",
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "hugetlb.2MB.max": "4194304",
}

TEXTS: Final = (
    *("0", "1", "-1", "max", "2", "100", "10000", "10001", "262145", "999", "1000", "1000000"),
    *("1000001", "4194304", "4194305", "1k", "1K", "1G", "4097", "0x10", "010", " 5", "5 ", "5\n"),
    *("", "abc", "0-1", "0,1", "1-0", "0-3", "N", "all", "max 100000", "50000 100000", "50000"),
    *("max 999", "9223372036854771712", "9223372036854775807", "18446744073709551615"),
    *("18446744073709551616", "99999999999999999999", "1.5", "1T", "0-1:1/2", " 0-1 ", "+5", "-5"),
    *("1023", "1024", "8191", "8192", "2147483647", "2147483648", "4294967296", "K", "G5", "8E"),
    *("16E", "16777216T", "9223372036854771711", "9223372036854775808", "-9223372036854775809"),
    *("17592186044415", "17592186044416", "1000 1000", "100000 max", "max 1000000", "max 1000001"),
    *("max max", "maximum", " max\n", "MAX", "5,", ",5", "0, 1", "0 1", "08", "0x", "- 5", "5\t"),
    *("18446744073709551", "18446744073709552", "18446744073709551615 100000", "5000 5000 5000"),
    *("18446744073709551614", "9223372036850581504", "9223372036852678656", "9" * 30, "1-1", "0-0"),
)


class Write(NamedTuple):
    """One write: what stood, the text, the name of the error if any, and what reads back."""

    kernel: str
    file: str
    before: str
    text: str
    error: str
    reads: str


class Machine(NamedTuple):
    """What the answers depend on beside the kernel; lists as the kernel prints them."""

    kernel: str
    hierarchy: str
    page_size: int
    cpus: str
    mems: str


def machine() -> Machine:
    """The running one."""
    hierarchy = "v2" if (ROOT / "cgroup.controllers").exists() else "v1"
    cpus = Path("/sys/devices/system/cpu/possible").read_text().strip()
    return Machine(os.uname().release, hierarchy, os.sysconf("SC_PAGE_SIZE"), cpus, memory_nodes())


def memory_nodes() -> str:
    """The nodes with memory, as the kernel prints them; one without NUMA has a single one, and no list."""
    found = Path("/sys/devices/system/node/has_memory")
    return found.read_text().strip() if found.exists() else "0"


def path(file: str, hierarchy: str) -> Path:
    """Where the cgroup of the recording has a file."""
    root = ROOT if hierarchy == "v2" else ROOT / file.partition(".")[0]
    return root / NAME / file


def write(target: Path, text: str) -> str:
    """Writes the text in one call; returns the name of the error, or an empty text."""
    handle = os.open(target, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    finally:
        os.close(handle)
    return ""


def read(target: Path) -> str:
    """What the file prints, without the last end of line."""
    return target.read_text().removesuffix("\n")


def files(here: Machine) -> dict[str, str]:
    """The files that this machine has, and what stands in each before a write."""
    if here.hierarchy == "v2":
        there = (ROOT / "cgroup.controllers").read_text().split()
        rows = BEFORE_V2
    else:
        there = [folder.name for folder in ROOT.iterdir()]
        rows = BEFORE_V1
    return {file: before for file, before in rows.items() if file.partition(".")[0] in there}


def writes(here: Machine) -> Iterator[Write]:
    """Every text to every file, each over the same value."""
    for file, before in files(here).items():
        target = path(file, here.hierarchy)
        if not target.exists():
            continue
        for text in TEXTS:
            failed = write(target, before or "\n")
            if failed or read(target) != before:
                raise SystemExit(f"{target}: {before!r} cannot be set: {failed or read(target)}")
            error = write(target, text)
            yield Write(here.kernel, file, before, text, error, read(target))


def record(here: Machine) -> list[Write]:
    """Makes the cgroup, performs every write and removes the cgroup."""
    known = files(here)
    if here.hierarchy == "v2":
        controllers = sorted({f"+{file.partition('.')[0]}" for file in known})
        (ROOT / "cgroup.subtree_control").write_text(" ".join(controllers))
    made: list[Path] = []
    try:
        for folder in {path(file, here.hierarchy).parent for file in known}:
            folder.mkdir()
            made.append(folder)
        return list(writes(here))
    finally:
        for folder in made:
            folder.rmdir()


def main(out: Path) -> None:
    """Writes the machine as the first row, then one row for each write."""
    here = machine()
    rows: list[tuple[object, ...]] = [here, *record(here)]
    out.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
