"""Steps as work on units: what goes together, and what has to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.cgroup import unit_properties
from qoslet.core.reconcile.steps import Step
from qoslet.core.reconcile.unit_jobs import Piece, pieces, waves


def a_set(path: str, file: str = "memory.max", value: str = "1") -> Step:
    return Step("set", path, file, value)


def work(*steps: Step, above: tuple[str, ...] = ()) -> list[Piece]:
    return pieces(steps, lambda step: step.file != "hugetlb.2MB.max", lambda _: above)


def numbers(found: list[Piece]) -> list[list[int]]:
    return [[number for number, _ in piece.steps] for piece in found]


def test_neighbours_of_one_group_are_one_piece() -> None:
    found = work(a_set("/a"), a_set("/a", "pids.max"), a_set("/b"), a_set("/a"))
    assert numbers(found) == [[0, 1], [2], [3]]


def test_values_join_the_creation_of_their_group_but_files_wait() -> None:
    steps = [Step("create", "/a"), Step("create", "/a/b"), a_set("/a/b"), a_set("/a")]
    found = work(*steps, a_set("/a", "hugetlb.2MB.max"))
    assert numbers(found) == [[0, 3], [1, 2], [4]]


def test_a_second_value_of_a_file_waits() -> None:
    found = work(Step("create", "/a"), a_set("/a"), a_set("/a", value="2"))
    assert numbers(found) == [[0, 1], [2]]


def test_groups_above_are_made_once_and_first() -> None:
    found = work(Step("create", "/a/b"), Step("create", "/a/c"), above=("/a",))
    assert [(piece.path, piece.number) for piece in found] == [("/a", 0), ("/a/b", 0), ("/a/c", 1)]


def test_a_value_after_a_removal_does_not_join_the_creation_before_it() -> None:
    found = work(Step("create", "/a"), Step("remove", "/a"), a_set("/a"))
    assert numbers(found) == [[0], [1], [2]]


def test_waves_end_where_groups_stand_above_each_other() -> None:
    found = work(*(Step("create", path) for path in ("/a", "/a/b", "/a/c", "/a/b/d", "/e")))
    assert [[one.path for one in wave] for wave in waves(found)] == [
        ["/a"],
        ["/a/b", "/a/c"],
        ["/a/b/d", "/e"],
    ]


PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/c", "/a/b/d", "/e", "/e/f"])
STEPS = st.lists(
    st.one_of(
        st.builds(lambda path: Step("create", path), PATHS),
        st.builds(lambda path: Step("remove", path), PATHS),
        st.builds(a_set, PATHS, st.sampled_from(["memory.max", "pids.max", "hugetlb.2MB.max"])),
    ),
    max_size=20,
)


@given(STEPS)
def test_every_step_is_in_one_piece_and_related_groups_are_apart(steps: list[Step]) -> None:
    found = work(*steps)
    assert sorted(n for piece in found for n, _ in piece.steps) == list(range(len(steps)))
    assert [piece.number for piece in found] == sorted(piece.number for piece in found)
    again = [piece for wave in waves(found) for piece in wave]
    assert again == found
    for wave in waves(found):
        paths = [piece.path for piece in wave]
        assert len(set(paths)) == len(paths)
        inside = [
            (a, b) for a in paths for b in paths if a != b and b.startswith(a.rstrip("/") + "/")
        ]
        assert inside == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"memory.limit_in_bytes": "4096"}, [("MemoryLimit", 4096)]),
        ({"memory.limit_in_bytes": "-1"}, [("MemoryLimit", unit_properties.UNLIMITED)]),
        ({"cpu.shares": "2", "pids.max": "max"},
         [("CPUShares", 2), ("TasksMax", unit_properties.UNLIMITED)]),
        ({"cpu.cfs_quota_us": "11500"}, [("CPUQuotaPerSecUSec", 230_000)]),
        ({"cpu.cfs_quota_us": "-1"}, [("CPUQuotaPerSecUSec", unit_properties.UNLIMITED)]),
        ({"cpu.cfs_quota_us": "11500", "cpu.cfs_period_us": "100000"},
         [("CPUQuotaPeriodUSec", 100_000), ("CPUQuotaPerSecUSec", 120_000)]),
        ({"cpu.cfs_period_us": "20000"}, [("CPUQuotaPeriodUSec", 20_000)]),
        ({"memory.memsw.limit_in_bytes": "1"}, []),
    ],
)  # fmt: skip
def test_properties_of_v1(files: dict[str, str], found: list[unit_properties.Property]) -> None:
    assert unit_properties.properties_v1(files, 252, 50_000) == found


@pytest.mark.parametrize(
    ("file", "value", "left"),
    [
        ("cpu.max", "11500 100000", "12000 100000"),
        ("cpu.max", "max 5000", "max 100000"),
        ("cpu.cfs_quota_us", "5750", "6000"),
        ("cpu.cfs_quota_us", "-1", "-1"),
        ("memory.max", "5000", "5000"),
    ],
)
def test_what_systemd_leaves(file: str, value: str, left: str) -> None:
    assert unit_properties.written_by_systemd(file, value, 50_000) == left


def test_what_comes_first_on_v1_is_unset() -> None:
    given = unit_properties.signed([("CPUShares", 102), ("TasksMax", 9)])
    assert unit_properties.alone(given) == [*given, ("CPUWeight", "t", unit_properties.UNLIMITED)]


def test_what_a_new_unit_is() -> None:
    slice_ = {name: value for name, _, value in unit_properties.creation("a-b.slice", "a.slice")}
    assert slice_["Wants"] == ["a.slice"]
    assert "Delegate" not in slice_
    scope = {name: value for name, _, value in unit_properties.creation("x.scope", "a.slice", [7])}
    assert (scope["Slice"], scope["Delegate"], scope["PIDs"]) == ("a.slice", True, [7])
    for made in (slice_, scope):
        assert made["DefaultDependencies"] is False
        assert all(made[name] for name in unit_properties.ACCOUNTING)


def test_words_of_systemctl() -> None:
    sent: list[tuple[str, int | bytes]] = [
        ("CPUQuotaPerSecUSec", unit_properties.UNLIMITED),
        ("AllowedCPUs", b"\x07"),
        ("TasksMax", 3),
    ]
    assert unit_properties.words(sent) == ["CPUQuota=", "AllowedCPUs=0-2", "TasksMax=3"]


@pytest.mark.parametrize("limit", [4096, unit_properties.UNLIMITED])
def test_the_memory_limit_that_comes_first_on_v1_says_the_same(limit: int) -> None:
    given = unit_properties.signed([("MemoryLimit", limit)])
    assert unit_properties.alone(given) == [*given, ("MemoryMax", "t", limit)]
