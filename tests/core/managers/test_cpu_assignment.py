"""Which CPUs are picked: the tables of the kubelet's own tests, and what must always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.managers.cpu_assignment import PickOptions, pick
from qoslet.core.node.topology import Topology, listed
from tests.core.managers.cpu_topologies import MACHINES

_COMMON = (
    ("single", "0,2,4,6", 5, None),
    ("single", "0-7", 0, ""),
    ("single", "0-7", 1, "0"),
    ("single", "1,3,5,6,7", 1, "6"),
    ("single", "0-7", 2, "0,4"),
    ("single", "0-7", 8, "0-7"),
    ("single", "0-3,6", 2, "2,6"),
    ("dual", "0-11", 6, "0,2,4,6,8,10"),
    ("dual-four-nodes", "0-79", 40, "0-19,40-59"),
    ("dual-four-nodes", "0-79", 20, "0-9,40-49"),
    ("dual-four-nodes", "10-39,50-79", 20, "10-19,50-59"),
    ("dual-four-nodes", "0-79", 60, "0-29,40-69"),
    ("dual-four-nodes", "1-39,41-79", 60, "10-39,50-79"),
)

_PACKED = (
    *_COMMON,
    ("dual", "1-5,7-11", 1, "2"),
    ("dual", "0-11", 8, "0,6,2,8,4,10,1,7"),
    ("dual-four-nodes", "0-79", 64, "0-29,40-69,30,31,70,71"),
)

_CACHES = (
    ("caches", "1-15", 10, "1,2,4-11"),
    ("caches-dual", "0-15", 4, "0-3"),
    ("caches-dual", "2-15", 6, "2-7"),
    ("caches-dual", "8-15", 4, "8-11"),
    ("caches-two-nodes", "3,4-8,12", 2, "4,5"),
    ("caches-threads", "2-3,10-11,4-7,12-15", 6, "4-6,12-14"),
    ("caches-threads", "1-7,9-15", 10, "4-7,12-15,1,9"),
)

_SPREAD = (
    ("single", "0-7", 3, "0-2"),
    ("dual", "0-11", 2, "0,2"),
    ("dual", "0-11", 3, "0,2,4"),
    ("dual", "0-11", 6, "0,2,4,6,8,10"),
    ("dual", "0-11", 8, "0,2,4,6,8,10,1,3"),
    ("dual-no-threads", "0-7", 2, "0,1"),
    ("dual-four-nodes", "0-79", 8, "0-7"),
)

_LIVE = (
    "0,128,30,31,158,159,43-47,171-175,62,63,190,191,75-79,203-207,94,96,222,223,101-111,229-239,"
    "126,127,254,255"
)

_DISTRIBUTED = (
    *((*row[:3], 1, row[3]) for row in _COMMON),
    ("dual", "0-11", 8, 1, "0,6,2,8,1,7,3,9"),
    ("dual-four-nodes", "0-79", 64, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-67,70-77"),
    ("dual-four-nodes", "0-79", 48, 1, "0-7,10-17,20-27,40-47,50-57,60-67"),
    ("dual-four-nodes", "1-29,32-39,41-69,72-79", 48, 1, "1-8,10-17,20-27,41-48,50-57,60-67"),
    ("dual-four-nodes", "2-29,31-39,42-69,71-79", 48, 1, "10-17,20-27,31-38,50-57,60-67,71-78"),
    (
        "dual-four-nodes",
        "0-2,10-12,20-22,30-32,40-41,50-51,60-61,70-71",
        16,
        1,
        "0-1,10-11,20-21,30-31,40-41,50-51,60-61,70-71",
    ),
    ("dual", "1-5,7-11", 1, 2, "2"),
    ("dual-four-nodes", "0-79", 26, 1, "0-6,10-16,40-45,50-55"),
    ("dual-four-nodes", "0-79", 26, 2, "0-6,10-15,40-46,50-55"),
    ("dual-four-nodes", "0-79", 62, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-66,70-76"),
    ("dual-four-nodes", "0-79", 62, 2, "0-7,10-17,20-27,30-36,40-47,50-57,60-67,70-76"),
    (
        "dual-four-nodes",
        "0-8,10-18,20-39,40-48,50-58,60-79",
        62,
        1,
        "0-7,10-17,20-27,30-37,40-46,50-56,60-67,70-77",
    ),
    (
        "dual-four-nodes",
        "0-8,10-18,20-39,40-48,50-58,60-79",
        62,
        2,
        "0-7,10-16,20-27,30-37,40-47,50-56,60-67,70-77",
    ),
    (
        "dual-four-nodes",
        "0-3,10-13,20-23,30-36,40-43,50-53,60-63,70-76",
        34,
        1,
        "0-3,10-13,20-23,30-34,40-43,50-53,60-63,70-74",
    ),
    ("dual-eight-nodes", _LIVE, 28, 1, "43-47,75-79,96,101-105,171-174,203-206,229-232"),
)
"""Source of all tables: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment_test.go of 1.36."""


def _picked(name: str, free: str, count: int, options: PickOptions) -> str | None:
    found = pick(MACHINES[name], cpu_numbers(free), count, options)
    return None if found is None else listed(found)


def _same(expected: str | None) -> str | None:
    return None if expected is None else listed(cpu_numbers(expected))


@pytest.mark.parametrize(("name", "free", "count", "expected"), _PACKED)
def test_packed(name: str, free: str, count: int, expected: str | None) -> None:
    assert _picked(name, free, count, PickOptions()) == _same(expected)


@pytest.mark.parametrize(("name", "free", "count", "expected"), _CACHES)
def test_a_last_level_cache_is_preferred(name: str, free: str, count: int, expected: str) -> None:
    assert _picked(name, free, count, PickOptions(prefer_uncore=True)) == _same(expected)


@pytest.mark.parametrize(("name", "free", "count", "expected"), _SPREAD)
def test_spread_over_cores(name: str, free: str, count: int, expected: str) -> None:
    assert _picked(name, free, count, PickOptions(distribute_across_cores=True)) == _same(expected)


@pytest.mark.parametrize(("name", "free", "count", "group", "expected"), _DISTRIBUTED)
def test_distributed_over_numa_nodes(
    name: str, free: str, count: int, group: int, expected: str | None
) -> None:
    options = PickOptions(distribute_across_numa=True, full_pcpus_only=group > 1)
    assert _picked(name, free, count, options) == _same(expected)


def test_distributed_takes_from_the_node_with_more_left() -> None:
    """The kubelet's row of the dual machine whose first core is taken: socket 1 has more."""
    options = PickOptions(distribute_across_numa=True)
    assert _picked("dual", "1-5,7-11", 1, options) == "1"


@given(
    name=st.sampled_from(sorted(set(MACHINES) - {"dual-eight-nodes"})),
    seed=st.randoms(use_true_random=False),
    options=st.builds(PickOptions, *[st.booleans() for _ in range(6)]),
)
def test_always_as_many_as_asked_and_only_free_ones(
    name: str, seed: object, options: PickOptions
) -> None:
    machine: Topology = MACHINES[name]
    cpus = sorted(machine.cpus)
    free = frozenset(cpu for cpu in cpus if seed.random() < 0.6)  # type: ignore[attr-defined]
    count = seed.randint(0, len(cpus))  # type: ignore[attr-defined]
    found = pick(machine, free, count, options)
    assert (found is None) == (count > len(free))
    if found is not None:
        assert len(found) == count
        assert found <= free
        assert found == pick(machine, free, count, options)
