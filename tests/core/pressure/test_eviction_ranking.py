"""Who is ended where memory is short: what holds of the choice for any pods, and its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.pressure.eviction_ranking import (
    ENDING_SECONDS,
    MIN_FREED_BYTES,
    UNDER_REQUEST_SECONDS,
    Candidate,
    EvictionChoice,
    EvictionReason,
    choose_victim,
)

MIB = 1 << 20
SIZES = st.integers(0, 4096).map(lambda number: number * MIB)


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    """Pods as a node may have them: a guaranteed one can hold more than its request, too."""
    found = []
    for number in range(draw(st.integers(0, 7))):
        qos = draw(st.sampled_from(["Guaranteed", "Burstable", "BestEffort"]))
        held = draw(SIZES)
        found.append(
            Candidate(
                uid=f"u{number}",
                key=f"d/p{number}",
                qos=qos,  # type: ignore[arg-type]
                request=0 if qos == "BestEffort" else draw(SIZES),
                charged=held,
                freed=draw(st.integers(0, held)),
                protected=draw(SIZES),
                priority=draw(st.integers(-2, 2)),
                critical=draw(st.booleans()) and draw(st.booleans()),
                ending=draw(st.booleans()) and draw(st.booleans()),
                mode=draw(st.sampled_from(["act", "act", "observe", "off"])),
            )
        )
    return found


PODS = candidates()
MISSING = SIZES
LASTED = st.sampled_from([0.0, 1.0, UNDER_REQUEST_SECONDS, 100.0])


def chosen(pods: Sequence[Candidate], missing: int, lasted: float) -> EvictionChoice:
    return choose_victim(pods, missing, lasted)


@given(PODS, MISSING, LASTED, st.randoms())
def test_the_choice_does_not_depend_on_the_order(
    pods: list[Candidate], missing: int, lasted: float, random: Random
) -> None:
    shuffled = list(pods)
    random.shuffle(shuffled)
    assert chosen(pods, missing, lasted) == chosen(shuffled, missing, lasted)


@given(PODS, MISSING, LASTED)
def test_nobody_is_ended_who_frees_nothing_or_may_not_be(
    pods: list[Candidate], missing: int, lasted: float
) -> None:
    choice = chosen(pods, missing, lasted)
    assert choice.because
    for uid in choice.order:
        one = next(pod for pod in pods if pod.uid == uid)
        assert one.freed >= MIN_FREED_BYTES
        assert not (one.critical)
        assert not (one.ending)
        assert one.mode != "off"
    if choice.victim is None:
        assert choice.verdict == "none"
        return
    assert choice.order[0] == choice.victim.uid
    assert choice.verdict == ("end" if choice.victim.mode == "act" else "would end")


def _under(one: Candidate) -> bool:
    return one.qos == "Guaranteed" or (one.qos == "Burstable" and one.excess < MIN_FREED_BYTES)


@given(PODS, MISSING, LASTED)
def test_who_is_under_its_request_goes_last(
    pods: list[Candidate], missing: int, lasted: float
) -> None:
    choice = chosen(pods, missing, lasted)
    if choice.victim is None or not _under(choice.victim):
        return
    assert lasted >= UNDER_REQUEST_SECONDS
    able = [one for one in pods if one.uid in choice.order]
    above = [one for one in able if not _under(one)]
    assert sum(one.freed for one in above) < max(missing, 1), "they are not enough"
    assert all(one.freed < max(MIN_FREED_BYTES, missing // 8) for one in above), "nor do they help"


@given(PODS, MISSING)
def test_pods_go_in_the_order_of_the_kubelet(pods: list[Candidate], missing: int) -> None:
    """Of two pods of which either is enough, the first by request, priority and usage goes."""
    choice = chosen(pods, missing, 100.0)
    if choice.victim is None or choice.victim.freed < missing:
        return
    for one in pods:
        if one.uid in choice.order and one.freed >= missing:
            assert _rank(choice.victim) <= _rank(one)


def _rank(one: Candidate) -> tuple[bool, int, int]:
    return _under(one), one.priority, 0 if _under(one) else -one.excess


@given(PODS, MISSING)
def test_no_more_pods_end_than_are_needed(pods: list[Candidate], missing: int) -> None:
    left = [one for one in pods if not _under(one)]
    wanted, ended = max(1, missing), list[Candidate]()
    while wanted > 0:
        victim = chosen(left, wanted, 100.0).victim
        if victim is None:
            break
        ended.append(victim)
        left.remove(victim)
        wanted -= victim.freed
    if wanted > 0:
        return
    for one in ended:
        assert sum(other.freed for other in ended) - one.freed < max(1, missing), "not needed"


@given(PODS, MISSING, LASTED)
def test_to_observe_chooses_the_same_and_ends_nobody(
    pods: list[Candidate], missing: int, lasted: float
) -> None:
    modes = {"act": "observe", "observe": "observe", "off": "off"}
    looks = chosen([replace(one, mode=modes[one.mode]) for one in pods], missing, lasted)
    acts = chosen(pods, missing, lasted)
    assert looks.verdict != "end"
    assert (acts.order, acts.because) == (looks.order, looks.because)


def pod(
    name: str, qos: str = "BestEffort", held: int = 100, request: int = 0, **more: object
) -> Candidate:
    made = {"uid": name, "key": f"d/{name}", "qos": qos, "request": request * MIB}
    return Candidate(**{**made, "charged": held * MIB, "freed": held * MIB, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pods", "victim"),
    [
        ([pod("small", held=60), pod("big", held=400)], "big"),
        ([pod("small", held=60, priority=-1), pod("big", held=400)], "big"),
        ([pod("low", held=300, priority=-1), pod("big", held=400)], "low"),
        # the hog of a burstable pod goes, and the quiet best-effort one stays
        ([pod("quiet", held=120), pod("hog", "Burstable", 1252, 32)], "hog"),
        # the class breaks ties
        ([pod("b", "Burstable", 500, 100), pod("a", held=400)], "a"),
        # two are needed: the one that helps most of the first
        ([pod("x", held=90), pod("y", held=120), pod("z", held=20)], "y"),
        # what is enough by itself spares two that come first
        ([pod("x", held=150, priority=-1), pod("g", "Burstable", 300, 0)], "g"),
        # a tenth of what is missing is little help
        ([pod("small", held=20, priority=-1), pod("big", held=400)], "big"),
        ([pod("small", held=20), pod("b", "Burstable", 900, 100)], "b"),
        ([pod("small", held=60), pod("b", "Burstable", 900, 100)], "b"),
        # a leak above its request goes before a small one that asked for nothing
        ([pod("c", "Burstable", 900, 850), pod("b", "Burstable", 600, 100)], "b"),
        # protection counts where it is more than the request
        ([pod("c", "Burstable", 900, 0, protected=850 * MIB), pod("b", "Burstable", 600, 0)], "b"),
        ([pod("c", "Burstable", 900, 100, priority=5), pod("b", "Burstable", 600, 100)], "b"),
        ([pod("tied-2"), pod("tied-1")], "tied-1"),
    ],
)
def test_who_goes_first(pods: list[Candidate], victim: str) -> None:
    choice = choose_victim(pods, 200 * MIB, 1.0)
    assert choice.victim is not None
    assert choice.victim.uid == victim, choice


@pytest.mark.parametrize(
    ("pods", "lasted", "reason", "because"),
    [
        ([], 1.0, EvictionReason.NO_PODS, "no pod below it"),
        (
            [
                pod("a", critical=True),
                pod("b", ending=True),
                pod("c", mode="off"),
                pod("d", held=1),
            ],
            60.0,
            EvictionReason.NOT_EVICTABLE,
            (
                "none of 4 pods can be evicted: 1 critical, 1 ending already, 1 with guard off, "
                "1 that would free nothing"
            ),
        ),
        (
            [pod("g", "Guaranteed", 500, 500), pod("b", "Burstable", 90, 100)],
            3.0,
            EvictionReason.TOO_EARLY,
            (
                "all 2 candidates are below their request and use 590 MiB; 200 MiB are "
                "missing for 3.0 s, such pods are evicted after 10 s"
            ),
        ),
        (
            [pod("quiet", held=120), pod("hog", held=900, ending=True)],
            3.0,
            EvictionReason.IN_PROGRESS,
            "ending already: d/hog; that frees 900 MiB of 200 MiB missing",
        ),
        (
            [pod("a", held=10)],
            60.0,
            EvictionReason.OUTSIDE_PODS,
            (
                "evicting all pods would free 10 MiB of 200 MiB missing: the rest is used "
                "outside of pods"
            ),
        ),
    ],
)
def test_why_nobody_goes(
    pods: list[Candidate], lasted: float, reason: EvictionReason, because: str
) -> None:
    choice = choose_victim(pods, 200 * MIB, lasted)
    assert choice.reason is reason
    assert (choice.verdict, choice.because, choice.victim) == ("none", because, None)


@pytest.mark.parametrize(("held", "seconds"), [(900, ENDING_SECONDS), (150, 1.0)])
def test_who_ends_already_is_not_waited_for_where_that_is_too_long_or_too_little(
    held: int, seconds: float
) -> None:
    pods = [pod("quiet", held=220), pod("hog", held=held, ending=True, ending_seconds=seconds)]
    choice = choose_victim(pods, 200 * MIB, 1.0)
    assert choice.victim is not None
    assert choice.victim.uid == "quiet"


@pytest.mark.parametrize(
    ("seconds", "fills", "goes"),
    [(1.0, False, False), (ENDING_SECONDS, False, True), (1.0, True, True)],
)
def test_who_ends_already_is_ended_at_once_where_it_takes_long_or_fills_the_node(
    seconds: float, fills: bool, goes: bool
) -> None:
    hog = pod("hog", held=900, ending=True, ending_seconds=seconds, hastens=True, fills=fills)
    choice = choose_victim([pod("quiet", held=220), hog], 200 * MIB, 1.0)
    assert choice.victim == (hog if goes else None)
    assert not goes or f"; it has been stopping for {seconds:.0f} s; other" in choice.because


def test_the_numbers_behind_it() -> None:
    pods = [pod("hog", held=900), pod("b", "Burstable", 90, 100)]
    assert choose_victim(pods, 200 * MIB, 1.0).because == (
        "best-effort: uses 900 MiB, request 0 MiB, protected 0 MiB, 900 MiB above, priority 0; "
        "evicting it frees 900 MiB of 200 MiB missing; other candidates: 1"
    )


def test_one_that_the_guard_decides_about_is_left_to_it() -> None:
    hog = Candidate("h", "d/hog", "BestEffort", 0, 900 * MIB, 900 * MIB)
    stalled = Candidate("s", "d/app", "Burstable", 16 * MIB, 90 * MIB, 90 * MIB)
    first = choose_victim([stalled, hog], 16 * MIB, 0.0, {"s"})
    assert (first.verdict, first.victim) == ("end", hog)
    found = choose_victim([stalled], 16 * MIB, 0.0, {"s"})
    assert (found.verdict, found.reason) == ("none", EvictionReason.GUARDED)


QUIET = Candidate("quiet", "d/quiet", "BestEffort", 0, 120 * MIB, 120 * MIB)
HOG = Candidate("hog", "d/hog", "BestEffort", 0, 900 * MIB, 2 * MIB, fills=True)


@pytest.mark.parametrize("frees", [0, 2, 60])
def test_who_fills_the_node_goes_though_what_it_holds_outlives_it(frees: int) -> None:
    """Whoever went in its place would only make room for it."""
    choice = chosen([QUIET, replace(HOG, freed=frees * MIB)], 150 * MIB, 1.0)
    assert (choice.verdict, choice.victim and choice.victim.uid) == ("end", "hog")
    assert choice.because.startswith(
        "BestEffort, and its end frees little of what it holds, and it would go on to fill the node: uses 900 MiB"
    )


@pytest.mark.parametrize(
    "hog",
    [
        replace(HOG, fills=False),
        replace(HOG, charged=100 * MIB),
        replace(HOG, qos="Burstable", request=900 * MIB),
        replace(HOG, priority=1),
        replace(HOG, critical=True),
        replace(HOG, mode="off"),
        replace(HOG, ending=True, ending_seconds=ENDING_SECONDS),
    ],
)
def test_who_holds_what_outlives_it_is_spared_otherwise(hog: Candidate) -> None:
    """It does not grow, others come before it, it is within its request, or it may not be ended."""
    choice = chosen([QUIET, hog], 100 * MIB, 1.0)
    assert choice.victim == QUIET
