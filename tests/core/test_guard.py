"""What is answered to a stall: never more than there is, never an end while there is another way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.guard import (
    POLICY,
    Bounds,
    Decision,
    GuardRow,
    Hold,
    answer,
    by_form,
    held_on,
    is_over,
    spare,
    stays,
)
from qoslet.core.memsample import NO_LIMIT, MemorySample, NodeMemory
from qoslet.core.stall import Signs, Verdict

MIB = 1 << 20


def node(available: int, total: int = 4096) -> NodeMemory:
    """Amounts in MiB."""
    return NodeMemory(0.0, total * MIB, available * MIB, 0)


def stalled(used: int = 250, high: int = 243, cold: int = 0) -> tuple[Verdict, MemorySample]:
    """A group that is stalled; amounts in MiB."""
    signs = Signs(0.5, used * MIB, high * MIB, (used - cold) * MIB, cold * MIB, 0, 0.0, 300.0)
    stat = {"inactive_file": cold * MIB, "anon": (used - cold) * MIB}
    sample = MemorySample("/a", 9.0, 1, used * MIB, high * MIB, stat=stat)
    return Verdict("stalled", 8.0, "", signs), sample


def decided(
    available: int, limit: int | None, *, above: int | None = None, ends: bool = True, **more: int
) -> Decision:
    verdict, sample = stalled(**more)
    bounds = Bounds(
        NO_LIMIT if limit is None else limit * MIB,
        NO_LIMIT if above is None else above * MIB,
        ends,
    )
    return answer(None, verdict, sample, node(available), bounds)


@pytest.mark.parametrize(
    ("decision", "wanted", "value"),
    [
        (decided(1000, 256), "limit", NO_LIMIT),
        (decided(1000, 256, cold=8), "reclaim", 8 * MIB),
        (decided(1000, 900), "limit", NO_LIMIT),
        (decided(400, 900), "raise", 445 * MIB),
        (decided(1000, None, high=240), "raise", 310 * MIB),
        (decided(1000, None, high=16, used=17), "raise", 33 * MIB),
        (decided(1000, None, above=20), "raise", 270 * MIB),
        (decided(210, 900), "end", 0),
        (decided(1000, None, above=8), "end", 0),
        (decided(210, None, ends=False), "none", 0),
    ],
)
def test_answers(decision: Decision, wanted: str, value: int) -> None:
    assert decision.answer == wanted
    assert abs(decision.value - value) <= MIB, decision


amounts = st.integers(0, 1 << 44)


@given(amounts, amounts, st.integers(1 << 20, 1 << 44), amounts, st.booleans(), st.booleans())
def test_nobody_gets_more_than_there_is(
    available: int, used: int, high: int, limit: int, limited: bool, ends: bool
) -> None:
    signs = Signs(0.5, used, high, used, 0, 0, 0.0, 1.0)
    machine = NodeMemory(0.0, 1 << 44, available, 0)
    sample = MemorySample("/a", 0.0, 1, used, high)
    bounds = Bounds(limit if limited else NO_LIMIT, NO_LIMIT, ends)
    found = answer(None, Verdict("stalled", 0.0, "", signs), sample, machine, bounds)
    room = spare(machine)
    match found.answer:
        case "raise":
            assert high < found.value <= max(high, used) + room
        case "limit":
            assert limited
            assert limit - used <= room
        case "end":
            assert ends
            assert room < POLICY.least_step or (limited and limit - used < POLICY.least_step)
        case other:
            assert other == "none"
            assert not ends


def test_what_is_planned_comes_back_only_after_it_fitted_for_a_while() -> None:
    hold = Hold(243 * MIB, NO_LIMIT, 0.0, 1, 1)
    _, sample = stalled(used=240)
    assert held_on(hold, sample, 0).fits_since is None
    _, sample = stalled(used=250, cold=60)
    hold = held_on(hold, sample, 0)
    assert hold.fits_since == sample.at
    assert not is_over(hold, sample.at + POLICY.hold - 1)
    assert is_over(hold, sample.at + POLICY.hold)
    _, sample = stalled(used=240)
    assert held_on(hold, sample, 0).fits_since is None


def test_it_stays_twice_as_long_each_time_but_not_for_ever() -> None:
    found = [stays(Hold(1, 2, 0.0, 1, times)) for times in (0, 1, 2, 3, 9, 90)]
    assert found == [30, 30, 60, 120, 600, 600]


def test_the_mode_goes_with_the_form() -> None:
    assert [by_form(form) for form in ("off", "1.22", "1.37", "design", "qoslet")] == [
        "off",
        "observe",
        "observe",
        "observe",
        "act",
    ]


def test_a_decision_in_one_line() -> None:
    row = GuardRow(0.0, "/q/a", "d/a", "app", "act", "end", 0, "no way", "250 MiB")
    assert row.describe() == (
        "d/a/app: stalled at memory.high: the container is ended: no way (250 MiB)"
    )
    tier = GuardRow(0.0, "/q/a", "", "", "observe", "raise", 9, "to 9", "", "EBUSY")
    assert tier.describe() == (
        "/q/a: stalled at memory.high: would raise memory.high: to 9; it failed: EBUSY"
    )
