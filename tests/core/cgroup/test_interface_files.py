"""What the kernel keeps of a value, and which systemd carries it.

v1, pids and hugetlb rows were read back on kernel 6.18; the others follow mm/page_counter.c.
"""

from __future__ import annotations

import pytest

from qoslet.core.cgroup.accepts import effective, same
from qoslet.core.cgroup.interface_files import knob, property_of

KiB4 = 4096
V1_MOST = "9223372036854771712"


@pytest.mark.parametrize(
    ("file", "value", "kept"),
    [
        ("memory.max", "4097", "4096"),
        ("memory.max", "4095", "0"),
        ("memory.max", "max", "max"),
        ("memory.max", "9223372036854775807", "max"),
        ("memory.high", "8191", "4096"),
        ("memory.min", "0", "0"),
        ("memory.limit_in_bytes", "-1", V1_MOST),
        ("memory.limit_in_bytes", "9223372036854775807", V1_MOST),
        ("memory.memsw.limit_in_bytes", "10000000", "9998336"),
        ("hugetlb.2MB.max", "5000000", "4194304"),
        ("hugetlb.2MB.max", "4611686018427387904", "4611686018427387904"),
        ("hugetlb.2MB.max", "9223372036854775807", "max"),
        ("hugetlb.1GB.rsvd.max", "1073741825", "1073741824"),
        ("hugetlb.2MB.limit_in_bytes", "-1", str((2**63 - 1) // 2**21 * 2**21)),
        ("cpu.max", "max", "max 100000"),
        ("cpu.max", "5000 10000", "5000 10000"),
        ("cpu.shares", "0", "2"),
        ("cpu.shares", "300000", "262144"),
        ("cpu.weight", "1", "1"),
        ("cpu.cfs_quota_us", "-2", "-1"),
        ("cpu.cfs_quota_us", "5000", "5000"),
        ("cpuset.cpus", "3,0-1,2", "0-3"),
        ("cpuset.cpus", "", ""),
        ("pids.max", "max", "max"),
        ("some.file", "1,0", "1,0"),
    ],
)
def test_what_the_kernel_keeps(file: str, value: str, kept: str) -> None:
    assert effective(file, value, KiB4) == kept
    assert same(file, value, kept)
    assert same(file, kept, kept), "what is kept is kept again"


def test_pages_of_64_kib() -> None:
    assert effective("memory.max", "100000", 65536) == "65536"
    assert effective("memory.limit_in_bytes", "-1", 65536) == str((2**63 - 1) // 65536 * 65536)


@pytest.mark.parametrize(
    ("file", "wanted", "found"),
    [
        ("memory.max", "8192", "4096"),
        ("memory.max", "4096", "max"),
        ("cpu.max", "5000", "6000 100000"),
        ("cpu.max", "max 100000", "max 50000"),
        ("cpuset.cpus", "0-1", "0"),
        ("cpu.weight", "300000", "262144"),
    ],
)
def test_what_is_not_the_same(file: str, wanted: str, found: str) -> None:
    assert not same(file, wanted, found)


def test_a_quota_without_a_period_leaves_the_period() -> None:
    assert same("cpu.max", "5000", "5000 10000")


@pytest.mark.parametrize(
    ("file", "hierarchy", "systemd", "name"),
    [
        ("memory.min", "v2", 239, None),
        ("memory.min", "v2", 240, "MemoryMin"),
        ("memory.max", "v2", 230, None),
        ("memory.limit_in_bytes", "v1", 219, "MemoryLimit"),
        ("cpu.shares", "v1", 219, "CPUShares"),
        ("cpu.weight", "v2", 231, None),
        ("cpu.weight", "v2", 232, "CPUWeight"),
        ("cpu.max", "v2", 257, "CPUQuotaPerSecUSec"),
        ("cpu.cfs_period_us", "v1", 241, None),
        ("cpu.cfs_period_us", "v1", 242, "CPUQuotaPeriodUSec"),
        ("cpuset.cpus", "v2", 243, None),
        ("cpuset.cpus", "v2", 244, "AllowedCPUs"),
        ("cpuset.mems", "v2", None, "AllowedMemoryNodes"),
        ("cpuset.cpus", "v1", 252, None),
        ("memory.oom.group", "v2", 257, None),
        ("hugetlb.2MB.max", "v2", 257, None),
        ("memory.memsw.limit_in_bytes", "v1", 252, None),
        ("io.latency", "v2", 257, None),
    ],
)
def test_the_property_that_carries_a_file(
    file: str, hierarchy: str, systemd: int | None, name: str | None
) -> None:
    assert property_of(file, hierarchy, systemd) == name


def test_an_unknown_file_is_no_knob() -> None:
    with pytest.raises(ValueError, match="not a known cgroup file"):
        knob("cgroup.kill")
