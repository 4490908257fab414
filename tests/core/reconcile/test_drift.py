"""Differences between a plan and a look at a kernel, verdict by verdict."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.cgroup.accepts import effective
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import Cause, compare
from qoslet.core.reconcile.steps import Step
from qoslet.sim.kernel import SimKernel
from tests.core.reconcile.trees import ROOT, plan_of, trees

HIERARCHIES: tuple[Hierarchy, ...] = get_args(Hierarchy)


def look(**groups: ObservedCgroup) -> Observed:
    return Observed(0.0, {group.path: group for group in groups.values()})


def rows(plan, observed):
    return [(d.path, d.verdict, d.file, d.wanted, d.found) for d in compare(plan, observed)]


def test_an_absent_group_and_each_of_its_values():
    plan = plan_of("v2", {ROOT: {"pids.max": "7"}})
    assert rows(plan, look()) == [
        (ROOT, "absent", "", None, None),
        (ROOT, "unread", "pids.max", "7", None),
    ]


def test_another_value_and_one_that_could_not_be_read():
    plan = plan_of("v2", {ROOT: {"pids.max": "7", "cpu.weight": "9"}})
    seen = ObservedCgroup(ROOT, 1, values={"pids.max": "8", "memory.max": "1"})
    assert rows(plan, look(a=seen)) == [
        (ROOT, "differs", "pids.max", "7", "8"),
        (ROOT, "unread", "cpu.weight", "9", None),
        (ROOT, "differs", "memory.max", "max", "1"),
    ]


@pytest.mark.parametrize(
    ("hierarchy", "values", "wanted"),
    [
        ("v2", {"memory.max": "4096", "cpu.max": "1000 100000"}, ["max", "max 100000"]),
        ("v2", {"memory.max": "max", "cpu.weight": "100", "memory.low": "0"}, []),
        ("v2", {"cpuset.cpus": "0-1"}, [""]),
        ("v1", {"cpu.shares": "512", "cpu.cfs_quota_us": "5000"}, ["1024", "-1"]),
        ("v1", {"memory.limit_in_bytes": "9223372036854771712", "cpuset.cpus": "0"}, []),
    ],
)
def test_what_the_plan_dropped_goes_back_to_a_fresh_groups_value(hierarchy, values, wanted):
    plan = plan_of(hierarchy, {ROOT: {"pids.max": "7"}})
    seen = ObservedCgroup(ROOT, 1, values={"pids.max": "7", **values})
    dropped = compare(plan, look(a=seen))
    assert [d.wanted for d in dropped] == wanted
    assert all(d.cause is Cause.NO_LONGER_PLANNED for d in dropped)


def test_a_group_that_lacks_a_v1_hierarchy_is_absent_there():
    plan = plan_of("v1", {ROOT: {}})
    (found,) = compare(plan, look(a=ObservedCgroup(ROOT, 1, missing=("cpu", "memory"))))
    assert (found.verdict, found.why) == ("absent", "cpu,memory")


def test_surplus_groups_come_last_and_deepest_first_but_not_those_of_a_container():
    plan = plan_of("v2", {f"{ROOT}/poda": {}, f"{ROOT}/poda/c1": {}})
    paths = [ROOT, "/q/poda", "/q/poda/c1", "/q/poda/c1/own", "/q/x", "/q/x/y", "/q/poda/z"]
    observed = Observed(0.0, {path: ObservedCgroup(path, 1) for path in paths})
    assert [(d.path, d.verdict) for d in compare(plan, observed)] == [
        ("/q/poda/z", "surplus"),
        ("/q/x/y", "surplus"),
        ("/q/x", "surplus"),
    ]


@pytest.mark.parametrize(
    ("file", "written", "read"),
    [
        ("memory.max", "4097", "4096"),
        ("memory.limit_in_bytes", "-1", "9223372036854771712"),
        ("hugetlb.2MB.max", "3145728", "2097152"),
        ("hugetlb.2MB.limit_in_bytes", "-1", "9223372036852678656"),
        ("cpuset.cpus", "1,0,3", "0-1,3"),
        ("cpu.max", "5000 100000", "5000 100000"),
    ],
)
def test_what_the_kernel_keeps_of_a_value_is_no_difference(file, written, read):
    hierarchy: Hierarchy = "v1" if "limit_in_bytes" in file else "v2"
    plan = plan_of(hierarchy, {ROOT: {file: written}})
    assert compare(plan, look(a=ObservedCgroup(ROOT, 1, values={file: read}))) == []
    assert effective(file, written, 4096) == read


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@settings(max_examples=100)
@given(data=st.data())
def test_exactly_the_values_that_others_changed_differ(hierarchy, data):
    groups = data.draw(trees(hierarchy), "groups")
    plan = plan_of(hierarchy, {path: {**files, "pids.max": "7"} for path, files in groups.items()})
    kernel = SimKernel(hierarchy)
    for path in sorted(groups):
        kernel.perform([Step("create", path), Step("set", path, "pids.max", "7")])
    before = {(d.path, d.file) for d in compare(plan, kernel.observe(ROOT))}
    changed = data.draw(st.sets(st.sampled_from(sorted(groups))), "changed")
    for path in changed:
        kernel.write(path, "pids.max", "8")
    after = {(d.path, d.file) for d in compare(plan, kernel.observe(ROOT))}
    assert after - before == {(path, "pids.max") for path in changed}


@pytest.mark.parametrize(
    ("hierarchy", "file", "value", "later"),
    [
        ("v2", "cpu.max", "1500 100000", "2000 100000"),
        ("v1", "cpu.cfs_quota_us", "1500", "2000"),
    ],
)
def test_a_quota_that_systemd_wrote_again_is_no_difference(hierarchy, file, value, later) -> None:
    plan = plan_of(hierarchy, {ROOT: {file: value}})
    told = replace(plan, node=replace(plan.node, driver="systemd"))
    for found in (value, later):
        seen = ObservedCgroup(ROOT, 1, values={file: found})
        assert rows(told, look(a=seen)) == []
    seen = ObservedCgroup(ROOT, 1, values={file: later})
    assert rows(plan, look(a=seen)) == [(ROOT, "differs", file, value, later)]
    for found in ("2500 100000", "2500"):
        seen = ObservedCgroup(ROOT, 1, values={file: found})
        assert rows(told, look(a=seen)) == [(ROOT, "differs", file, value, found)]
