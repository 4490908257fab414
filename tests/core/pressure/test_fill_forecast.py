"""Whether a node fills faster than a verdict on it takes: samples of a node and of pods as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure.fill_forecast import (
    FillForecast,
    fill_forecast,
    filling_state,
    growing,
)
from qoslet.core.pressure.node_pressure import PRESSURE_THRESHOLDS

MIB = 1 << 20
TOTAL = 1800 * MIB


def node(available: Sequence[int], every: float = 0.25) -> list[NodeMemory]:
    """Samples of a node with so many MiB available."""
    return [
        NodeMemory(10.0 + number * every, TOTAL, one * MIB, one * MIB)
        for number, one in enumerate(available)
    ]


def falling(rate: int, available: int = 80) -> FillForecast:
    """So many MiB available, and so many a second less."""
    found = fill_forecast(
        node([available + rate, available + rate // 2, available], 0.5), 0, PRESSURE_THRESHOLDS
    )
    assert found is not None
    return found


def pod(path: str, held: Sequence[int], every: float = 0.5) -> tuple[MemorySample, ...]:
    """Samples of a pod that holds so many MiB beside 50 MiB of page cache."""
    return tuple(
        MemorySample(path, 10.0 + number * every, 1, (one + 50) * MIB, stat={"file": 50 * MIB})
        for number, one in enumerate(held)
    )


@pytest.mark.parametrize(
    ("available", "outruns"),
    [
        # 130 MiB a second: not above the threshold, at once below it
        ([190, 157, 125], False),
        ([165, 132, 100], False),
        ([157, 125, 92], True),
        # it ends 100 MiB before the machine is full
        ([165, 132, 100, 100], False),
        ([145, 112, 100], False),
        # faster than any end: above the threshold as well, but not where more is available than wanted
        ([500, 340, 179], True),
        ([900, 600, 181], False),
        # slow enough for a verdict
        ([95, 85, 75], False),
        # one that took much at once, and a pause in which nothing fell
        ([300, 300, 60], False),
        ([120, 60, 60], False),
        ([60, 90, 120], False),
    ],
)
def test_what_fills_before_a_verdict(available: list[int], outruns: bool) -> None:
    forecast = fill_forecast(node(available), 0, PRESSURE_THRESHOLDS)
    assert (forecast is not None and forecast.outruns(PRESSURE_THRESHOLDS)) is outruns


def test_a_rate_needs_three_samples_apart_and_none_that_is_old() -> None:
    thresholds = PRESSURE_THRESHOLDS
    assert fill_forecast([], 0, thresholds) is None
    assert fill_forecast(node([150, 90]), 0, thresholds) is None
    assert fill_forecast(node([150, 120, 90], 0.1), 0, thresholds) is None
    assert fill_forecast(node([900, 500, 90], 6.0), 0, thresholds) is None
    close = fill_forecast(node([150, 140, 130, 120, 110, 100, 90], 0.1), 0, thresholds)
    assert close is not None
    assert close.rate == pytest.approx(100 * MIB)


def test_protected_page_cache_cannot_be_had() -> None:
    looks = node([265, 232, 200])
    calm = fill_forecast(looks, 0, PRESSURE_THRESHOLDS)
    short = fill_forecast(looks, 110 * MIB, PRESSURE_THRESHOLDS)
    assert calm is not None
    assert short is not None
    assert not calm.outruns(PRESSURE_THRESHOLDS)
    assert short.outruns(PRESSURE_THRESHOLDS)


def test_what_may_go_to_swap_is_no_end() -> None:
    forecast = fill_forecast(node([145, 112, 80]), 0, PRESSURE_THRESHOLDS)
    assert forecast is not None
    assert forecast.outruns(PRESSURE_THRESHOLDS)
    assert forecast.with_swap(MIB).outruns(PRESSURE_THRESHOLDS)
    assert not forecast.with_swap(800 * MIB).outruns(PRESSURE_THRESHOLDS)


def test_it_is_sampled_closely_seconds_before() -> None:
    far = fill_forecast(node([1000, 968, 935]), 0, PRESSURE_THRESHOLDS)
    near = fill_forecast(node([500, 468, 435]), 0, PRESSURE_THRESHOLDS)
    assert far is not None
    assert near is not None
    assert (far.near, near.near) == (False, True)


def test_what_is_said_has_the_numbers() -> None:
    forecast = fill_forecast(node([145, 112, 80]), 0, PRESSURE_THRESHOLDS)
    assert forecast is not None
    state = filling_state(forecast)
    assert (state.path, state.kind, state.missing) == ("", "filling", 100 * MIB)
    assert state.because == (
        "80 MiB available of 180 MiB wanted and 128 MiB/s less: nothing is left in 0.6 s"
    )


def test_only_pods_that_grow_fill_a_node() -> None:
    histories = {
        "/big": pod("/big", [800, 800, 800]),
        "/hog": pod("/hog", [100, 165, 230]),
        "/also": pod("/also", [20, 40, 60]),
        "/slow": pod("/slow", [300, 302, 304]),
        "/stopped": pod("/stopped", [100, 200, 200]),
        "/shrinks": pod("/shrinks", [300, 200, 100]),
        "/new": pod("/new", [400]),
    }
    forecast = falling(150)
    assert growing(histories, forecast) == {"/hog", "/also"}
    again = replace(histories["/hog"][-1], identity=2)
    assert growing({"/hog": (*histories["/hog"][:-1], again)}, forecast) == frozenset(), "made anew"
    assert growing({}, forecast) == frozenset()


def test_a_pod_that_happens_to_grow_while_others_fill_the_node_does_not() -> None:
    histories = {"/quiet": pod("/quiet", [100, 110, 120]), "/other": pod("/other", [60, 66, 72])}
    assert growing(histories, falling(130)) == frozenset()
    assert growing(histories, falling(40)) == {"/quiet", "/other"}


def test_names_and_inodes_of_files_fill_no_node() -> None:
    backup = tuple(
        replace(one, stat={**one.stat, "slab_reclaimable": number * 60 * MIB})
        for number, one in enumerate(pod("/backup", [80, 140, 200]))
    )
    assert growing({"/backup": backup}, falling(130)) == frozenset()
    hog = pod("/hog", [100, 165, 230])
    assert growing({"/backup": backup, "/hog": hog}, falling(130)) == {"/hog"}


def test_memory_given_back_by_madv_free_fills_no_node() -> None:
    heap = tuple(
        replace(one, stat={"file": 50 * MIB, "anon": one.current, "inactive_file": one.current})
        for one in pod("/heap", [80, 140, 200])
    )
    assert growing({"/heap": heap}, falling(130)) == frozenset()


@pytest.mark.parametrize(
    ("limit", "available", "fills"),
    [
        (260, 160, False),
        (320, 160, True),
        # less than the threshold is available already
        (232, 95, True),
        (None, 160, True),
    ],
)
def test_a_pod_that_its_limit_stops_in_time_fills_no_node(
    limit: int | None, available: int, fills: bool
) -> None:
    *before, last = pod("/hog", [30, 130, 230])
    hog = replace(last, max=None if limit is None else limit * MIB)
    found = growing({"/hog": (*before, hog)}, falling(400, available))
    assert found == (frozenset({"/hog"}) if fills else frozenset())
    swapped = replace(hog, swap=100 * MIB, current=hog.current - 100 * MIB)
    still = growing({"/hog": (*before, swapped)}, falling(400, available))
    assert bool(still) == (fills or limit == 260), "what is in swap leaves room"
    older = tuple(replace(one, at=one.at - 0.25) for one in (*before, hog))
    assert bool(growing({"/hog": older}, falling(400, available))) == (fills and limit != 320)


@given(st.lists(st.integers(0, 2000), min_size=3, max_size=8), st.sampled_from([0.1, 0.25, 0.5]))
def test_nothing_outruns_that_does_not_fall_at_the_end(had: list[int], every: float) -> None:
    still = [*had, had[-1], had[-1], had[-1]]
    forecast = fill_forecast(node(still, every), 0, PRESSURE_THRESHOLDS)
    assert forecast is None or not forecast.outruns(PRESSURE_THRESHOLDS)
