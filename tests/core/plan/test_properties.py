"""What holds of the rules for any number, name and quantity."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core import quantity
from qoslet.core.cgroup import names, unit_properties
from qoslet.core.cgroup.interface_files import cpu_list
from qoslet.core.quantity import NANO, Quantity
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.resize import resize_phases
from qoslet.core.rules import cpu, memory, swap
from qoslet.core.rules.oci import bfq_to_io_weight
from tests.core.vectors import read_back

MILLI = st.integers(0, 2**53 - 1)
BYTES = st.integers(0, 2**50)
FACTOR = st.floats(0, 1, exclude_min=True, allow_subnormal=False)
SHARES = st.integers(2, 2**19)


@given(MILLI, MILLI)
def test_shares_grow_with_millicores(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert 2 <= cpu.shares(low) <= cpu.shares(high) <= 262144


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1000, 10**6))
def test_quota_grows_with_millicores(one: int, other: int, period: int) -> None:
    low, high = sorted((one, other))
    assert cpu.quota(low, period) <= cpu.quota(high, period)
    assert cpu.quota(low, period) == 0 if low == 0 else cpu.quota(low, period) >= 1000


@pytest.mark.parametrize("weight", [cpu.weight_linear, cpu.weight_quadratic])
def test_weight_grows_with_shares_over_the_whole_range(weight: object) -> None:
    assert callable(weight)
    last = 1
    for amount in range(2, 262145, 7):
        found = weight(amount)
        assert last <= found <= 10000
        last = found
    assert (weight(0), weight(2), weight(262144)) == (0, 1, 10000)


@given(st.integers(2, 250_000))
def test_millicores_come_back_from_shares(milli: int) -> None:
    assert 0 <= milli - read_back.milli_of_shares(cpu.shares(milli)) <= 1


@given(SHARES)
def test_shares_read_back_from_a_weight_are_known_again(amount: int) -> None:
    read = read_back.shares_of_weight(cpu.weight_linear(amount))
    assert cpu.weight_linear(read) <= cpu.weight_linear(amount)


@given(st.integers(1000, 10**9), st.integers(1000, 10**6))
def test_systemd_gives_at_most_one_percent_more(quota: int, period: int) -> None:
    per_second = cpu.systemd_quota_per_second(quota, period)
    assert per_second % 10_000 == 0
    assert 0 <= per_second - quota * 10**6 // period < 10_000
    assert cpu.systemd_quota(quota, period) >= quota - 1


@given(st.integers(10, 999))
def test_io_weight_grows(weight: int) -> None:
    assert 1 <= bfq_to_io_weight(weight) < bfq_to_io_weight(weight + 1) <= 10000


@given(BYTES, BYTES, BYTES, FACTOR, st.sampled_from([1, 4096, 16384, 65536, 1 << 20]))
def test_high_is_above_the_request_and_within_its_base(
    request_: int, limit: int, allocatable: int, factor: float, page: int
) -> None:
    base = limit or allocatable
    high = memory.high_1_27(request_, limit, allocatable, factor, page)
    assert high is None or (request_ < high <= max(base, request_) and high % page == 0)
    first = memory.high_1_22(request_, limit, allocatable, factor)
    assert first is None or request_ < first <= base


@given(BYTES, BYTES, FACTOR, FACTOR)
def test_high_grows_with_the_factor(request_: int, limit: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    first = memory.high_1_27(request_, request_ + limit, 0, low, 4096)
    second = memory.high_1_27(request_, request_ + limit, 0, high, 4096)
    assert (first or 0) <= (second or 0)


@given(BYTES, BYTES, BYTES, st.integers(0, 100))
def test_joining_reserves_at_most_one_byte_more(
    total: int, hard: int, soft: int, percent: int
) -> None:
    burst, best = memory.reserve_limits(total, hard, soft, percent, joined=False)
    joined_burst, joined = memory.reserve_limits(total, hard, soft, percent, joined=True)
    assert burst == joined_burst
    assert 0 <= best - joined <= 1


@given(BYTES, st.integers(1, 2**50), BYTES)
def test_limited_swap_is_within_the_swap(request_: int, total: int, swap_total: int) -> None:
    found = swap.limited_swap(request_, total, swap_total)
    assert (found is None) == (request_ > total)
    assert found is None or 0 <= found <= swap_total


# Quantities

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "e3", "E-3", "e6"]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Quantities as people write them."""
    whole = draw(st.integers(0, 10**9))
    part = draw(st.one_of(st.just(""), st.from_regex(r"\.[0-9]{0,6}", fullmatch=True)))
    return (
        draw(st.sampled_from(["", "+", "-"])) + f"{whole}{part}" + draw(st.sampled_from(SUFFIXES))
    )


QUANTITIES = texts().map(quantity.parse)


@given(QUANTITIES.filter(lambda amount: abs(amount.nano) < 10**30))
def test_what_is_printed_reads_as_the_same_amount(amount: Quantity) -> None:
    # From 1000E on there is no suffix: the mantissa is printed alone.
    again = quantity.parse(quantity.canonical(amount))
    assert again == amount
    assert quantity.canonical(again) == quantity.canonical(amount)


SCALES: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000 ** (at + 1)) for at, suffix in enumerate("kMGTP")},
    **{suffix: Fraction(1024 ** (at + 1)) for at, suffix in enumerate(("Ki", "Mi", "Gi"))},
}


@given(st.decimals(0, 10**9, places=6), st.sampled_from(sorted(SCALES)))
def test_reading_is_exact_to_a_nano_away_from_zero(number: Decimal, suffix: str) -> None:
    exact = Fraction(number) * SCALES[suffix]
    for sign in ("", "-"):
        found = Fraction(quantity.parse(f"{sign}{number:f}{suffix}").nano, NANO)
        assert 0 <= abs(found) - exact < Fraction(1, NANO)
        assert found * exact == 0 or (found < 0) == bool(sign)


@given(st.lists(QUANTITIES, max_size=6), st.randoms())
def test_sums_do_not_depend_on_the_order(amounts: list[Quantity], shuffled: object) -> None:
    exact = sum(amount.nano for amount in amounts)
    assert quantity.total(amounts).nano == exact
    assert quantity.total(reversed(amounts)).nano == exact
    half = len(amounts) // 2
    left, right = quantity.total(amounts[:half]), quantity.total(amounts[half:])
    assert quantity.add(left, right).nano == exact


@given(QUANTITIES, QUANTITIES)
def test_subtracting_undoes_adding(one: Quantity, other: Quantity) -> None:
    assert quantity.sub(quantity.add(one, other), other) == one


@given(QUANTITIES)
def test_value_and_milli_round_up(amount: Quantity) -> None:
    if 0 <= amount.nano < 2**63 * 10**6:
        assert (amount.value - 1) * NANO < amount.nano <= amount.value * NANO
        assert (amount.milli - 1) * 10**6 < amount.nano <= amount.milli * 10**6


# Names

COMPONENT = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,20}", fullmatch=True)
NAME = st.lists(COMPONENT, min_size=1, max_size=5).map(tuple)


@given(NAME)
def test_names_come_back_from_both_drivers(name: tuple[str, ...]) -> None:
    assert names.extend((), *name) == name
    assert names.from_cgroupfs(names.to_cgroupfs(name)) == name
    assert names.from_systemd(names.to_systemd(name)) == name
    assert names.expand_slice(names.unit_of(name)) == names.to_systemd(name)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_masks_come_back(cpus: set[int]) -> None:
    text = ",".join(str(number) for number in cpus)
    mask = unit_properties.cpu_mask(text)
    assert unit_properties.cpu_list(mask) == cpu_list(text)
    assert unit_properties.cpu_mask(unit_properties.cpu_list(mask)) == mask


# Resize

LIMIT = st.integers(1, 10**6)


@given(LIMIT, LIMIT, st.integers(2, 2000), st.integers(2, 2000))
def test_a_resize_ends_at_what_is_wanted(was: int, becomes: int, had: int, gets: int) -> None:
    rows = [
        Difference("/pod", "differs", "cpu.cfs_quota_us", str(becomes), str(was)),
        Difference("/pod", "differs", "cpu.shares", str(gets), str(had)),
        Difference("/pod/c", "differs", "cpu.shares", "3", "2"),
    ]
    phases = resize_phases([row for row in rows if row.wanted != row.found], ["/pod"])
    assert sum(len(phase) for phase in phases) == 1 + (was != becomes) + (had != gets)
    at = [phase[0].path for phase in phases].index("/pod/c")
    grows = [int(row.wanted or 0) > int(row.found or 0) for (row,) in phases]
    assert all(grows[:at])
    assert not any(grows[at + 1 :])


@given(BYTES, BYTES, st.sampled_from([4096, 16384, 65536]))
def test_seven_eighths_leave_a_page_and_sums_cover_their_parts(
    one: int, other: int, page: int
) -> None:
    part = memory.less_an_eighth(one, page)
    assert part % page == 0
    assert part <= max(0, one // page - 1) * page
    assert part + memory.less_an_eighth(other, page) <= memory.less_an_eighth(one + other, page)
