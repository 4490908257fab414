"""A limit below what is in use: converged to, refused, or written because somebody insists."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.limit_shrink import (
    LIMIT,
    ROOM,
    SWAP_TOTAL,
    Shrink,
    Waiting,
    eased,
    near,
    with_cache,
)
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.sim.kernel import SimKernel
from tests.core.reconcile.trees import ROOT, MiB, plan_of

HIERARCHIES: tuple[Hierarchy, ...] = get_args(Hierarchy)
MAX: dict[Hierarchy, str] = {"v1": LIMIT, "v2": "memory.max"}


def limited(hierarchy: Hierarchy, limit: int, total: int | None = None) -> Plan:
    files = {MAX[hierarchy]: str(limit * MiB)}
    if total is not None:
        files[SWAP_TOTAL] = str(total * MiB)
    return plan_of(hierarchy, {ROOT: files})


def look(plan: Plan, kernel: SimKernel, shrink: Shrink) -> tuple[list[Step], list[Waiting]]:
    observed = kernel.observe(ROOT)
    differences = compare(plan, observed)
    return ordered(differences, observed, shrink), eased(differences, observed, shrink)[1]


def turn(plan: Plan, kernel: SimKernel, shrink: Shrink = "converge") -> list[str | None]:
    """What the steps of one turn were refused with."""
    return [one.errno_name for one in kernel.perform(look(plan, kernel, shrink)[0])]


def made(hierarchy: Hierarchy, limit: int, total: int | None = None, using: int = 0) -> SimKernel:
    kernel = SimKernel(hierarchy)
    assert not any(turn(limited(hierarchy, limit, total), kernel))
    if using:
        kernel.spawn(ROOT, memory=using * MiB)
    return kernel


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_it_converges_as_the_usage_falls_and_nobody_is_killed(hierarchy: Hierarchy):
    kernel = made(hierarchy, 100, using=60)
    (process,) = kernel.processes.values()
    wanted, file = limited(hierarchy, 10), MAX[hierarchy]
    seen = []
    for using in (60, 60, 50, 55, 20, 7, 7):
        process.memory = using * MiB
        assert not any(turn(wanted, kernel))
        seen.append(int(kernel.read(ROOT, file)) // MiB)
        assert process.exit_code is None
    assert seen == [64, 64, 54, 54, 24, 10, 10], "4 MiB of room, and it never rises again"
    assert look(wanted, kernel, "converge") == ([], [])


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_it_is_left_alone_and_said_where_that_is_wanted(hierarchy: Hierarchy):
    kernel = made(hierarchy, 100, using=60)
    steps, waiting = look(limited(hierarchy, 10), kernel, "refuse")
    assert steps == []
    (row,) = waiting
    assert row == Waiting(ROOT, MAX[hierarchy], str(10 * MiB), None, 60 * MiB)
    said = row.describe()
    assert (
        f"{ROOT}/{MAX[hierarchy]}: cannot lower to {10 * MiB} yet, {60 * MiB} bytes are in use"
        in said
    )
    assert said.endswith("unchanged")


def test_force_writes_it_and_v2_kills():
    kernel = made("v2", 100, using=60)
    assert turn(limited("v2", 10), kernel, "force") == [None]
    assert [one.oom_killed for one in kernel.processes.values()] == [True]
    kernel = made("v1", 100, using=60)
    assert turn(limited("v1", 10), kernel, "force") == ["EBUSY"]


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_other_changes_of_the_group_do_not_wait(hierarchy: Hierarchy):
    kernel = made(hierarchy, 100, using=60)
    wanted = plan_of(hierarchy, {ROOT: {MAX[hierarchy]: str(10 * MiB), "pids.max": "7"}})
    assert not any(turn(wanted, kernel, "refuse"))
    assert kernel.read(ROOT, "pids.max") == "7"


@pytest.mark.parametrize(("shrink", "expected"), [("converge", (64, 80)), ("refuse", (100, 100))])
def test_memory_and_swap_is_never_below_the_memory_limit_that_waits(shrink, expected):
    kernel = made("v1", 100, 100, using=60)
    wanted = limited("v1", 50, 80)
    for _ in range(2):
        assert not any(turn(wanted, kernel, shrink))
        found = tuple(int(kernel.read(ROOT, file)) // MiB for file in (LIMIT, SWAP_TOTAL))
        assert found == expected
    for process in kernel.processes.values():
        kernel.end(process.pid, 0)
    assert not any(turn(wanted, kernel, shrink))
    assert look(wanted, kernel, shrink) == ([], [])


@given(used=st.integers(0, 1 << 50))
def test_near_leaves_room_in_whole_mebibytes(used: int):
    limit = near(used)
    assert limit % MiB == 0
    assert limit - used >= max(ROOM, used >> 5)
    assert limit - used <= max(ROOM, used >> 5) + MiB


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@given(steps=st.lists(st.tuples(st.integers(1, 200), st.integers(0, 200)), min_size=1, max_size=8))
def test_whatever_is_used_meanwhile_nothing_is_killed_or_refused(hierarchy, steps):
    kernel = made(hierarchy, 200)
    kernel.spawn(ROOT)
    (process,) = kernel.processes.values()
    for limit, using in steps:
        process.memory = min(using * MiB, int(kernel.read(ROOT, MAX[hierarchy])))
        assert not any(turn(limited(hierarchy, limit), kernel))
        assert process.exit_code is None
    process.memory = 0
    assert not any(turn(limited(hierarchy, steps[-1][0]), kernel))
    assert kernel.read(ROOT, MAX[hierarchy]) == str(steps[-1][0] * MiB)


def held(
    values: dict[str, str], *, memory: int, memory_swap: int | None = None, cache: int = 0
) -> Observed:
    swap = None if memory_swap is None else memory_swap * MiB
    group = ObservedCgroup(
        ROOT, 1, values, memory=memory * MiB, memory_swap=swap, cache=cache * MiB
    )
    return Observed(0.0, {ROOT: group})


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@pytest.mark.parametrize(
    ("wanted", "written", "waits"),
    [(50, [104, 50], False), (10, [104, 20], True), (18, [104, 18], False), (102, [102], False),
     (110, [110], False)],
)  # fmt: skip
def test_page_cache_is_taken_back_and_what_is_held_is_not(hierarchy, wanted, written, waits):
    """100 MiB in use, 84 of them page cache; the limit was 200."""
    file = MAX[hierarchy]
    seen = held({file: str(200 * MiB)}, memory=100, cache=84)
    differences = compare(limited(hierarchy, wanted), seen)
    steps = ordered(differences, seen)
    assert [(step.file, int(step.value) // MiB) for step in steps] == [(file, n) for n in written]
    assert [step.gently for step in steps] == [int(step.value) < 100 * MiB for step in steps]
    assert bool(eased(differences, seen, "converge")[1]) is waits
    assert bool(eased(differences, seen, "refuse")[1]) is (wanted < 100), "refuse takes none back"
    assert not any(step.gently for step in ordered(differences, seen, "force"))


def test_memory_and_swap_is_judged_by_memory_and_swap():
    """40 MiB of memory and 60 of swap in use."""
    files = {LIMIT: str(200 * MiB), SWAP_TOTAL: str(200 * MiB)}
    seen = held(files, memory=40, memory_swap=100)
    differences = compare(limited("v1", 50, 50), seen)
    rows, waiting = eased(differences, seen, "converge")
    assert {row.file: int(row.wanted or 0) // MiB for row in rows} == {LIMIT: 50, SWAP_TOTAL: 104}
    (row,) = waiting
    assert (row.file, row.used) == (SWAP_TOTAL, 100 * MiB)
    unknown = held(files, memory=40)
    assert eased(differences, unknown, "converge")[1] == []


def test_cache_is_asked_for_where_a_limit_would_be_below_the_usage_only():
    asked: list[str] = []

    def cache(path: str) -> int:
        asked.append(path)
        return 7 * MiB

    seen = held({"memory.max": str(200 * MiB)}, memory=100)
    assert with_cache(compare(limited("v2", 150), seen), seen, cache) == seen
    found = with_cache(compare(limited("v2", 50), seen), seen, cache)
    assert asked == [ROOT]
    assert found.cgroups[ROOT].cache == 7 * MiB
