"""What is answered to a stall: never more than there is, never an end while there is another way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure.guard_decision import GrowthBounds, GuardDecision, answer, spare_bytes
from qoslet.core.pressure.guard_mode import default_mode
from qoslet.core.pressure.guard_report import GuardRow
from qoslet.core.pressure.headroom import Headroom
from qoslet.core.pressure.stall_signs import StallSignals
from qoslet.core.pressure.throttle_guard import (
    GUARD_POLICY,
    HighOverride,
    lowered_high,
    may_restore,
    raised_seconds,
    with_fit,
)
from qoslet.core.pressure.throttle_stall import StallVerdict

MIB = 1 << 20


def node(available: int, total: int = 4096) -> NodeMemory:
    """Amounts in MiB."""
    return NodeMemory(0.0, total * MIB, available * MIB, 0)


def stalled(used: int = 250, high: int = 243, cold: int = 0) -> tuple[StallVerdict, MemorySample]:
    """A group that is stalled; amounts in MiB."""
    signs = StallSignals(
        0.5, used * MIB, high * MIB, (used - cold) * MIB, cold * MIB, 0, 0.0, 300.0
    )
    stat = {"inactive_file": cold * MIB, "anon": (used - cold) * MIB}
    sample = MemorySample("/a", 9.0, 1, used * MIB, high * MIB, stat=stat)
    return StallVerdict("stalled", 8.0, "", signs), sample


def decided(
    available: int, limit: int | None, *, given: int = 0, ends: bool = True, **more: int
) -> GuardDecision:
    verdict, sample = stalled(**more)
    bounds = GrowthBounds(UNLIMITED if limit is None else limit * MIB, ends)
    room = Headroom(spare_bytes(node(available)) - given * MIB, given * MIB)
    return answer(None, verdict, sample, room, bounds)


@pytest.mark.parametrize(
    ("decision", "wanted", "value"),
    [
        (decided(1000, 256), "limit", UNLIMITED),
        (decided(1000, 256, cold=8), "reclaim", 8 * MIB),
        (decided(1000, 900), "limit", UNLIMITED),
        (decided(400, 900), "raise", 310 * MIB),
        (decided(1000, 900, given=500), "raise", 310 * MIB),
        (decided(4000, 64 << 10, high=200, used=200), "raise", 250 * MIB),
        (decided(1000, None, high=240), "raise", 310 * MIB),
        (decided(1000, None, high=16, used=17), "raise", 33 * MIB),
        (decided(225, None), "raise", 270 * MIB),
        (decided(1000, None, high=400, used=390), "raise", 500 * MIB),
        (decided(210, 900), "end", 0),
        (decided(1000, None, given=780), "end", 0),
        (decided(210, None, ends=False), "none", 0),
    ],
)
def test_answers(decision: GuardDecision, wanted: str, value: int) -> None:
    assert decision.answer == wanted
    assert abs(decision.value - value) <= MIB, decision


def test_the_numbers_say_what_others_have() -> None:
    has = "295.2 MiB free"
    assert decided(500, None).because == f"to 310.0 MiB, {has}"
    others = "100.0 MiB granted to others and not used yet"
    assert decided(600, None, given=100).because == f"to 310.0 MiB, {has}, without {others}"


amounts = st.integers(0, 1 << 44)


@given(amounts, amounts, st.integers(1 << 20, 1 << 44), amounts, st.booleans(), st.booleans())
def test_nobody_gets_more_than_there_is(
    available: int, used: int, high: int, limit: int, limited: bool, ends: bool
) -> None:
    signs = StallSignals(0.5, used, high, used, 0, 0, 0.0, 1.0)
    room = spare_bytes(NodeMemory(0.0, 1 << 44, available, 0))
    sample = MemorySample("/a", 0.0, 1, used, high)
    bounds = GrowthBounds(limit if limited else UNLIMITED, ends)
    found = answer(None, StallVerdict("stalled", 0.0, "", signs), sample, Headroom(room), bounds)
    match found.answer:
        case "raise":
            assert max(high, used) < found.value <= used + room
            assert found.value <= max(high, used) + max(GUARD_POLICY.min_step_bytes, high // 4)
        case "limit":
            assert limited
            assert limit - used <= room
        case "end":
            assert ends
            least = max(high, used) + GUARD_POLICY.min_step_bytes
            assert used + room < least or (limited and limit < least)
        case other:
            assert other == "none"
            assert not ends


def test_what_is_planned_comes_back_only_after_it_fitted_for_a_while() -> None:
    hold = HighOverride(243 * MIB, UNLIMITED, 0.0, 1, 1)
    _, sample = stalled(used=240)
    assert with_fit(hold, sample, 0).fits_since is None
    _, sample = stalled(used=250, cold=60)
    hold = with_fit(hold, sample, 0)
    assert hold.fits_since == sample.at
    assert not may_restore(hold, sample.at + GUARD_POLICY.min_raised_seconds - 1)
    assert may_restore(hold, sample.at + GUARD_POLICY.min_raised_seconds)
    _, sample = stalled(used=240)
    assert with_fit(hold, sample, 0).fits_since is None


def test_what_is_killed_between_two_samples_did_not_fit() -> None:
    """A container that is restarted, fills its limit within half a second and is killed again."""
    hold = HighOverride(38 * MIB, UNLIMITED, 0.0, 1, 1)
    sample = MemorySample("/a", 9.0, 1, 2 * MIB, events={"oom_kill": 2})
    hold = with_fit(hold, sample, 0)
    assert hold.fits_since == 9.0, "what was killed before says nothing"
    hold = with_fit(hold, replace(sample, at=11.0), 0)
    assert hold.fits_since == 9.0
    hold = with_fit(hold, replace(sample, at=13.0, events={"oom_kill": 3}), 0)
    assert (hold.fits_since, hold.close_since) == (None, None)
    hold = with_fit(hold, replace(sample, at=15.0, events={"oom_kill": 3}), 0)
    assert hold.fits_since == 15.0


def test_memory_that_only_looked_reclaimable_counts_until_it_is_gone() -> None:
    """Page cache that sockets hold: of 90 MiB 40 are on the lists, and none of it was freed."""
    sample = MemorySample("/a", 9.0, 1, 90 << 20, stat={"inactive_file": 40 << 20})
    override = HighOverride(76 << 20, 96 << 20, 0.0, 1, 1)
    assert with_fit(override, sample, 0).fits_since == 9.0
    assert with_fit(replace(override, doubted=True), sample, 0).fits_since is None
    less = replace(sample, current=60 << 20)
    assert with_fit(replace(override, doubted=True), less, 0).fits_since == 9.0


def test_a_load_that_settles_just_below_gets_its_value_back_later() -> None:
    hold = HighOverride(243 * MIB, UNLIMITED, 0.0, 1, 1)
    _, sample = stalled(used=233)
    hold = with_fit(hold, sample, 0)
    assert (hold.fits_since, hold.close_since) == (None, sample.at)
    assert not may_restore(hold, sample.at + 4 * GUARD_POLICY.min_raised_seconds - 1)
    assert may_restore(hold, sample.at + 4 * GUARD_POLICY.min_raised_seconds)
    often = with_fit(HighOverride(243 * MIB, UNLIMITED, 0.0, 1, 9), sample, 0)
    assert may_restore(often, sample.at + GUARD_POLICY.max_raised_seconds)
    _, over = stalled(used=244)
    assert with_fit(hold, over, 0).close_since is None, "a trickle over it begins the time again"


def test_what_is_taken_back_leaves_what_is_used_and_the_least_step() -> None:
    hold = HighOverride(243 * MIB, UNLIMITED, 0.0, 1, 1)
    assert lowered_high(hold, stalled(used=200)[1]) == 259 * MIB
    assert lowered_high(hold, stalled(used=250)[1]) == 266 * MIB


def test_it_stays_twice_as_long_each_time_but_not_for_ever() -> None:
    found = [raised_seconds(HighOverride(1, 2, 0.0, 1, times)) for times in (0, 1, 2, 3, 9, 90)]
    assert found == [30, 30, 60, 120, 600, 600]


def test_the_mode_goes_with_the_form() -> None:
    assert [default_mode(form) for form in ("off", "1.22", "1.37", "design", "qoslet")] == [
        "off",
        "observe",
        "observe",
        "observe",
        "act",
    ]


def test_a_decision_in_one_line() -> None:
    row = GuardRow(0.0, "/q/a", "d/a", "app", "act", "end", 0, "no way", "250 MiB")
    assert row.describe() == ("killed container d/a/app: stalled at memory.high: no way (250 MiB)")
    lower = GuardRow(0.0, "/q/a", "d/a", "app", "act", "lower", 9, "to 9", "")
    assert lower.describe() == "lowered memory.high of d/a/app: to 9"
    tier = GuardRow(0.0, "/q/a", "", "", "observe", "raise", 9, "to 9", "", "EBUSY")
    assert tier.describe() == (
        "would raise memory.high of /q/a: stalled at memory.high: to 9; it failed: EBUSY"
    )
