"""Fair shares of CPU, usage between two looks, and the report on a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.cgroup.usage.fair_share import Contender, cap_of, fair_shares, wanted, weight_of
from qoslet.core.cgroup.usage.rates import between
from qoslet.core.status.run_report import report
from qoslet.core.status.snapshot import GroupRow, Snapshot


def leaf(name: str, weight: float, demand: float = 2.0, cap: float | None = None) -> Contender:
    return Contender(name, weight, cap, demand)


SHARES = [
    ("weights share", [leaf("a", 300), leaf("b", 100)], {"a": 1.5, "b": 0.5}),
    ("a quota leaves the rest", [leaf("a", 1024, cap=0.5), leaf("b", 2)], {"a": 0.5, "b": 1.5}),
    ("idle ones leave theirs", [leaf("a", 1000, 0.2), leaf("b", 1)], {"a": 0.2, "b": 1.8}),
    ("no more than threads", [leaf("a", 1, 1.0)], {"a": 1.0}),
    ("nobody", [leaf("a", 1, 0.0)], {"a": 0.0}),
    (
        "level by level",
        [
            Contender("p", 1, children=(leaf("p/a", 1), leaf("p/b", 3))),
            Contender("q", 1, cap=0.4, children=(leaf("q/a", 9),)),
        ],
        {"p": 1.6, "p/a": 0.4, "p/b": 1.2, "q": 0.4, "q/a": 0.4},
    ),
]


@pytest.mark.parametrize(
    ("groups", "expected"), [pytest.param(g, e, id=name) for name, g, e in SHARES]
)
def test_fair_shares(groups: list[Contender], expected: dict[str, float]) -> None:
    assert fair_shares(groups, 2.0) == pytest.approx(expected)


contenders = st.lists(
    st.builds(
        Contender,
        path=st.uuids().map(str),
        weight=st.floats(2, 10_000),
        cap=st.none() | st.floats(0.01, 4),
        demand=st.floats(0, 8),
    ),
    max_size=8,
)


@given(contenders, st.floats(0, 16))
def test_nothing_is_lost_or_given_twice(groups: list[Contender], cores: float) -> None:
    shares = fair_shares(groups, cores)
    most = sum(wanted(group) for group in groups)
    assert sum(shares.values()) == pytest.approx(min(cores, most), abs=1e-6)
    for group in groups:
        assert shares[group.path] <= wanted(group) + 1e-6


def seen(identity: int, usec: int | None, kills: int = 0) -> ObservedCgroup:
    return ObservedCgroup("/a", identity, usage_usec=usec, oom_kills=kills, throttled_usec=0)


def test_usage_is_a_rate_of_the_same_group() -> None:
    before = Observed(10.0, {"/a": seen(1, 1_000_000)})
    used = between(before, Observed(12.0, {"/a": seen(1, 4_000_000, 2)}))
    assert used["/a"].cpu == pytest.approx(1.5)
    assert used["/a"].oom_kills == 2


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(seen(2, 4_000_000), id="another group at the same path"),
        pytest.param(seen(1, None), id="no counter"),
        pytest.param(seen(1, 5), id="the counter went back"),
    ],
)
def test_usage_is_unknown_rather_than_wrong(after: ObservedCgroup) -> None:
    used = between(Observed(10.0, {"/a": seen(1, 1_000_000)}), Observed(12.0, {"/a": after}))
    assert "/a" not in used or used["/a"].cpu is None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            {"cpu.shares": "512", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"},
            (512, None),
        ),
        ({"cpu.shares": "2", "cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}, (2, 0.5)),
        ({"cpu.weight": "79", "cpu.max": "max 100000"}, (79, None)),
        ({"cpu.weight": "79", "cpu.max": "150000 100000"}, (79, 1.5)),
        ({}, (1024, None)),
    ],
)
def test_weight_and_quota_of_both_hierarchies(
    found: dict[str, str], expected: tuple[float, float | None]
) -> None:
    assert (weight_of(found), cap_of(found)) == expected


def shot(at: float, busy: float, *rows: tuple[str, str, float]) -> Snapshot:
    """A snapshot of one top group with containers: name, shares, CPU seconds."""
    top = GroupRow("/q", "/q", "node", "q", cpu_seconds=sum(r[2] for r in rows), identity=1)
    groups = [
        GroupRow(
            f"/q/{name}",
            name,
            "container",
            name,
            found={"cpu.shares": shares},
            cpu_seconds=seconds,
            runnable=2,
            identity=2,
            state="running",
        )
        for name, shares, seconds in rows
    ]
    return Snapshot(1, at, 2.0, 0, (top, *groups), busy_seconds=busy)


def test_the_report_compares_with_what_others_left() -> None:
    made = report(
        [
            shot(0.0, 0.0, ("a", "300", 0.0), ("b", "100", 0.0)),
            shot(10.0, 20.0, ("a", "300", 7.5), ("b", "100", 2.5)),
        ]
    )
    assert made.elsewhere == pytest.approx(50)
    assert [got.cpu for got in made.containers] == pytest.approx([37.5, 12.5])
    assert [got.expected for got in made.containers] == pytest.approx([37.5, 12.5])
    assert made.fair


def test_the_report_says_what_is_off() -> None:
    made = report(
        [
            shot(0.0, 0.0, ("a", "300", 0.0), ("b", "100", 0.0)),
            shot(10.0, 20.0, ("a", "300", 10.0), ("b", "100", 10.0)),
        ]
    )
    assert [got.fair for got in made.containers] == [False, False]


def test_a_report_on_nothing() -> None:
    assert report([]).containers == ()
