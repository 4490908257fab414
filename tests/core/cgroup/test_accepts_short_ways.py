"""The short ways to what the kernel makes of a write give what the long ones give."""

from __future__ import annotations

import pytest

from qoslet.core.cgroup.accepts import _hugetlb, written
from qoslet.core.cgroup.features import ALL_FEATURES
from qoslet.core.cgroup.kernel_numbers import memparse, whole


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("hugetlb.2MB.max", ("2MB", 2 << 20, "max")),
        ("hugetlb.1GB.rsvd.max", ("1GB", 1 << 30, "max")),
        ("hugetlb.64KB.limit_in_bytes", ("64KB", 64 << 10, "-1")),
        ("hugetlb.2MB.rsvd.limit_in_bytes", ("2MB", 2 << 20, "-1")),
        ("hugetlb.2MB.current", None),
        ("hugetlb.MB.max", None),
        ("hugetlb.2TB.max", None),
        ("hugetlb.٢MB.max", None),
        ("hugetlb.1234567890KB.max", None),
        ("hugetlb.2MB.max\n", None),
        ("hugetlb.2MB.rsvd.rsvd.max", None),
        ("hugetlb", None),
    ],
)
def test_a_limit_of_huge_pages(file: str, found: tuple[str, int, str] | None) -> None:
    assert _hugetlb(file) == found


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("signed", [False, True])
def test_a_plain_number_is_read_as_any_other(signed: bool, bits: int) -> None:
    numbers = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 10**17, 10**18 - 1]
    for number in [*numbers, *(-one for one in numbers)]:
        longer = f"-0x{-number:x}" if number < 0 else f"0x{number:x}"
        assert whole(str(number), signed, bits) == whole(longer, signed, bits), number


@pytest.mark.parametrize("number", [10**18, 9223372036854771712, 2**63, 10**19 - 1, 10**19, 2**64])
@pytest.mark.parametrize("wraps", [False, True])
def test_a_number_of_nineteen_digits_is_read_as_any_other(number: int, wraps: bool) -> None:
    assert memparse(str(number), wraps) == memparse(f"0x{number:x}", wraps)


@pytest.mark.parametrize("period", ["100000", "1000", "999", "1000001", "0", "", "5x"])
def test_no_quota_is_read_as_with_a_blank_before_it(period: str) -> None:
    wanted = written("cpu.max", f" max {period}", None, ALL_FEATURES)
    assert written("cpu.max", f"max {period}", None, ALL_FEATURES) == wanted
