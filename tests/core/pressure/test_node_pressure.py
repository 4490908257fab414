"""Where memory is short, and whose doing it is: looks at a node and at groups as numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.memory.breakdown import held_bytes, page_cache_bytes, protected_cache
from qoslet.core.memory.sample import MemorySample, NodeMemory, Pressure
from qoslet.core.pressure.eviction_ranking import charged_and_freed
from qoslet.core.pressure.node_pressure import (
    PRESSURE_THRESHOLDS,
    is_uneasy,
    node_state,
)
from tests.live.memory import pulse
from tests.paths import DATA

MIB = 1 << 20
TOTAL = 2048 * MIB


def waited(some: float, full: float) -> Pressure:
    """Totals after so many seconds of waiting."""
    return Pressure(0.0, int(some * 1e6), 0.0, int(full * 1e6))


def nodes(
    had: Sequence[int],
    full: float = 0.0,
    some: float | None = None,
    *,
    scans: int = 0,
    take: float = 1.0,
    psi: bool = True,
    every: float = 0.5,
) -> list[NodeMemory]:
    """Looks at a node of 2 GiB, with MiB that can be had and steady shares and rates."""
    some = full if some is None else some
    return [
        NodeMemory(
            at=100 + number * every,
            total=TOTAL,
            available=amount * MIB,
            free=amount * MIB,
            pressure=waited(some * number * every, full * number * every) if psi else None,
            scanned=int(scans * number * every),
            stolen=int(scans * take * number * every),
        )
        for number, amount in enumerate(had)
    ]


def bursts(had: Sequence[int]) -> list[NodeMemory]:
    """Looks between which all reclaim is in the last moment, without PSI."""
    last = nodes(had, psi=False)[-1]
    return [*nodes(had, psi=False)[:-1], replace(last, scanned=9000, stolen=9000)]


@pytest.mark.parametrize(
    ("looks", "kind"),
    [
        (nodes([1000, 1000, 1000]), "calm"),
        # talos#12526: pressure with half of the memory free comes from somebody's own limit
        (nodes([1000, 1000, 1000], 0.9), "own limit"),
        (nodes([60, 60, 60], 0.0), "calm"),
        (nodes([60, 60, 60], 0.5), "short"),
        (nodes([60, 60, 60], 0.02, 0.6), "short"),
        # who waits where the kernel reclaims nothing of the node waits for a limit
        (nodes([150, 150, 150], 0.0, 1.0), "own limit"),
        (nodes([150, 150, 150], 0.9, scans=50), "own limit"),
        (nodes([150, 150, 150], 0.9, scans=5000), "short"),
        # one look is not enough, nor are two that do not agree
        (nodes([60, 60], 0.5), "calm"),
        (nodes([1000, 1000, 60], 0.5), "own limit"),
        # kswapd works in bursts
        (bursts([60, 60, 60]), "short"),
        (bursts([60, 60, 150]), "calm"),
        # without PSI: the work of reclaim
        (nodes([60, 60, 60], scans=90_000, take=0.2, psi=False), "short"),
        (nodes([60, 60, 60], scans=90_000, take=0.99, psi=False), "short"),
        (nodes([150, 150, 150], scans=90_000, take=0.99, psi=False), "calm"),
        (nodes([150, 150, 150], scans=90_000, take=0.2, psi=False), "short"),
        (nodes([60, 60, 60], scans=10, take=0.1, psi=False), "calm"),
        (nodes([1000, 1000, 1000], scans=90_000, take=0.1, psi=False), "calm"),
    ],
)
def test_the_node(looks: list[NodeMemory], kind: str) -> None:
    assert node_state(looks).kind == kind, node_state(looks)


@pytest.mark.parametrize(
    ("had", "scans", "missing"),
    [
        # more than is wanted can be had, but less than the threshold of a node's owner
        ([1000, 1000, 1000], 10_000, 500),
        ([700, 700, 700], 10_000, 800),
        ([1000, 1000, 1000], 400, None),
        ([1600, 1000, 1000], 10_000, 500),
        ([1000, 1600, 1000], 10_000, None),
        ([1000, 1000, 1600], 10_000, None),
    ],
)
def test_a_threshold_above_what_is_wanted(had: list[int], scans: int, missing: int | None) -> None:
    marks = replace(PRESSURE_THRESHOLDS, eviction_bytes=1500 * MIB)
    state = node_state(nodes(had, scans=scans), thresholds=marks)
    if missing is None:
        assert (state.kind, state.missing) == ("calm", 0)
    else:
        assert (state.kind, state.missing) == ("short", missing * MIB)
        assert f"{had[-1]} MiB available of 1500 MiB wanted" in state.because
    assert is_uneasy(nodes(had, scans=scans), thresholds=marks) == (had[-1] < 1500 and scans > 500)


@pytest.mark.parametrize(
    ("had", "kind"),
    [
        # on its way down, looked at four times a second
        ([190, 160, 130, 115, 105, 90], "calm"),
        ([190, 160, 130, 105, 90, 80], "calm"),
        ([190, 160, 130, 90, 80, 70], "short"),
        # it comes and goes
        ([130, 90, 80, 105, 90, 80], "calm"),
        ([300, 90, 80, 90, 80, 90], "short"),
        ([90, 80, 300, 90, 80, 90], "calm"),
    ],
)
def test_less_than_the_threshold_for_a_while_is_enough(had: list[int], kind: str) -> None:
    state = node_state(nodes(had, scans=20_000, every=0.25))
    assert state.kind == kind, state
    assert state.missing == (int(TOTAL * 0.1) - had[-1] * MIB if kind == "short" else 0)


def test_looks_that_lie_close_together_are_no_pauses() -> None:
    """Tasks wait for 12 % of each half second, and not for the moment between two looks."""
    looks = nodes([150, 150, 150, 150], 0.12, scans=20_000)
    again = replace(looks[-1], at=looks[-1].at + 0.03)
    state = node_state([*looks, again])
    assert state.kind == "short", state
    assert [round(one.seconds, 2) for one in state.rates] == [0.5, 0.53]
    pause = replace(looks[-1], at=looks[-1].at + 0.5)
    assert node_state([*looks, pause]).kind != "short"


def test_page_cache_that_is_protected_cannot_be_had() -> None:
    looks = nodes([500, 500, 500], 0.5)
    assert node_state(looks).kind == "own limit"
    state = node_state(looks, protected=450 * MIB)
    assert (state.kind, state.missing) == ("short", int(TOTAL * 0.1) - 50 * MIB)
    assert state.because == (
        "50 MiB available of 205 MiB wanted, all tasks waited 50% and some 50% of the time, "
        "0 pages/s scanned, over 0.5 s, 450 MiB of page cache are protected"
    )


@pytest.mark.parametrize("psi", [True, False])
def test_a_hog_as_a_real_kernel_tells_of_it(psi: bool) -> None:
    """Linux 6.12, 1973 MiB, no swap, a disk that is fast: tasks hardly wait while two readers'
    page cache is taken and read again. MiB, shares of time and pages since the row before."""
    text = (DATA / "pressure-6.12.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    looks: list[NodeMemory] = []
    scanned = stolen = 0
    some = full = 0.0
    found: list[float] = []
    for before, row in pairwise([rows[0], *rows]):
        seconds = row["at"] - before["at"]
        scanned, stolen = scanned + row["scanned"], stolen + row["stolen"]
        some, full = some + row["some"] * seconds, full + row["full"] * seconds
        looks.append(
            NodeMemory(
                at=row["at"],
                total=1973 * MIB,
                available=row["available"] * MIB,
                free=70 * MIB,
                pressure=waited(some, full) if psi else None,
                scanned=scanned,
                stolen=stolen,
            )
        )
        if node_state(looks).kind == "short":
            found.append(row["at"])
    onset = next(row["at"] for row in rows if row["available"] < 100 and row["scanned"])
    assert onset <= found[0] <= onset + 2.0
    assert found == [row["at"] for row in rows if row["at"] >= found[0]], "it stays so"


@pytest.mark.parametrize("phase", [0, 1])
def test_a_hog_in_a_guest_beside_others(phase: int) -> None:
    """Linux 7.2: everything waits for a fifth of half a second, three calm seconds pass, and then
    the hog takes what is left. Looked at four times a second."""
    rows = pulse.rows(DATA / "pressure-7.2.jsonl")
    moment = next(row["at"] for row in rows if row["full"] > 150_000)
    onset = pulse.times(rows).onset
    assert onset is not None
    assert onset > moment + 3.0, "a moment is no onset"
    looks = [pulse.node(row) for row in rows[phase::2]]
    found = [
        one.at
        for number, one in enumerate(looks)
        if node_state(looks[: number + 1]).kind == "short"
    ]
    (first, *_) = [at for at in found if at > onset - 0.5]
    assert first <= onset + 1.0
    calm = [one.at for one in looks if moment + 1.2 < one.at < onset - 0.5]
    assert calm
    assert not set(calm) & set(found)


def test_little_memory_without_any_work_of_reclaim_is_short_after_ten_seconds() -> None:
    looks = nodes([34, 34, 34])
    assert node_state(looks, low_seconds=9.0).kind == "calm"
    state = node_state(looks, low_seconds=10.0)
    assert (state.kind, state.missing) == ("short", int(TOTAL * 0.1) - 34 * MIB)
    assert node_state(nodes([34, 34, 300]), low_seconds=10.0).kind == "calm"


def test_what_happened_long_ago_does_not_count() -> None:
    old = nodes([60, 60, 60], 0.9)
    calm = NodeMemory(at=400.0, total=TOTAL, available=60 * MIB, free=0, pressure=waited(9, 9))
    assert node_state([*old, calm]).kind == "calm"


@given(
    st.lists(st.integers(0, 2000), min_size=3, max_size=6),
    st.floats(0, 1),
    st.integers(1, 2000),
)
def test_more_that_can_be_had_never_makes_a_node_short(
    had: list[int], full: float, more: int
) -> None:
    less, better = nodes(had, full), nodes([amount + more for amount in had], full)
    if node_state(better).kind == "short":
        assert node_state(less).kind == "short"
    assert (node_state(less).kind == "short") <= (node_state(less).missing > 0)


@pytest.mark.parametrize(
    ("free", "take", "seconds", "kind"),
    [
        (60, 0.0, 4, "short"),
        (60, 0.01, 4, "short"),
        (60, 0.1, 4, "own limit"),
        (300, 0.0, 4, "own limit"),
        (60, 0.0, 2, "own limit"),
    ],
)
@pytest.mark.parametrize("full", [0.0, 0.4])
def test_page_cache_that_is_scanned_and_not_taken_cannot_be_had(
    free: int, take: float, seconds: int, kind: str, full: float
) -> None:
    """Of 1300 MiB that look available; a fast disk, or no task that counts, hides the waiting."""
    looks = nodes([1300] * (2 * seconds + 1), full, scans=50_000, take=take)
    state = node_state([replace(look, free=free * MIB) for look in looks])
    assert state.kind == (kind if full or kind == "short" else "calm")
    assert state.in_vain == (kind == "short")
    if state.in_vain:
        assert "page cache was scanned over and over and not taken" in state.because
        assert abs(state.missing - (TOTAL // 10 - 60 * MIB)) < MIB


def test_what_the_memory_of_a_group_is_made_of() -> None:
    stat = {
        "anon": 50 * MIB,
        "file": 130 * MIB,
        "shmem": 30 * MIB,
        "kernel_stack": MIB,
        "pagetables": MIB,
    }
    group = MemorySample("/k", 0.0, 1, 190 * MIB, low=80 * MIB, min=0, swap=7 * MIB, stat=stat)
    assert page_cache_bytes(group) == 100 * MIB, "what lies in a tmpfs cannot be dropped"
    assert held_bytes(group) == 97 * MIB, "with what the kernel keeps for it"
    assert charged_and_freed(group, 0) == (97 * MIB, 97 * MIB), "no file survives it"
    assert charged_and_freed(group, 20 * MIB) == (97 * MIB, 77 * MIB)
    names = replace(group, stat={**group.stat, "slab_reclaimable": 30 * MIB})
    assert charged_and_freed(names, 0) == (97 * MIB, 67 * MIB), "names of files do"
    held, freed = charged_and_freed(names, 0, in_vain=True)
    assert held == freed >= 97 * MIB, "unless nobody can take them"
    assert charged_and_freed(group, 900 * MIB) == (97 * MIB, 67 * MIB)
    assert protected_cache(group, 80 * MIB) == 0
    assert protected_cache(group, 150 * MIB) == 60 * MIB
    assert protected_cache(group, 200 * MIB) == 100 * MIB


def test_how_much_should_be_had() -> None:
    gib = 1024 * MIB
    assert [PRESSURE_THRESHOLDS.wanted_bytes(gib * size) // MIB for size in (1, 2, 16, 256)] == [
        128,
        204,
        1638,
        4096,
    ]
    assert PRESSURE_THRESHOLDS.wanted_bytes(256 * MIB) == 64 * MIB
