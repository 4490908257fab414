"""CPU limits that the kernel scaled, and what runs in sandboxes: as seen beside a kubelet 1.36.2 on cgroup v2."""

from __future__ import annotations

import pytest

from qoslet.core.audit.audit import read_request
from qoslet.core.audit.live import LiveCgroup, LiveTree
from qoslet.core.node.node import Hierarchy
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from tests.core.audit.trees import changed, look, plan_of, tree_of, written
from tests.core.audit.verdicts.setups import first, sole
from tests.core.audit.verdicts.setups import folder as folder


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_a_sandbox_has_the_oom_score_adj_of_its_runtime(folder: str, driver: str) -> None:
    plan = plan_of(folder, "v2", driver)
    live = tree_of(plan)
    planned_ones = {one.path for one in plan.cgroups}
    parents = {one.path for one in plan.cgroups if one.level == "pod"}
    sandbox = next(
        path
        for path in live.cgroups
        if path not in planned_ones and path.rpartition("/")[0] in parents
    )
    request = read_request(plan)
    assert request.wants_scores(sandbox)
    assert not request.wants_scores(first(plan, "pod").path or "")
    found = sole(plan, changed(live, sandbox, oom_score_adj=(500,)))
    assert (found.verdict, found.file, found.expected) == ("drift", "oom_score_adj", "-998")
    assert (found.rule, found.writer) == ("oom.sandbox", "runtime")
    stranger = sole(plan, changed(live, sandbox, strangers=(7,)))
    assert (stranger.verdict, stranger.found) == ("foreign", "7")
    assert "not started in this sandbox" in stranger.message


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_process_that_was_moved_out_of_a_container_is_missing(
    folder: str, hierarchy: Hierarchy
) -> None:
    plan = plan_of(folder, hierarchy, "cgroupfs")
    live = tree_of(plan)
    path = first(plan, "container").path or ""
    commands = {7: "sh"}
    found = sole(plan, changed(live, path, away={7: "/elsewhere"}, commands=commands))
    assert (found.verdict, found.severity, found.found) == ("missing", "error", "7")
    told = "a process of this container in /elsewhere: 7 (sh), the parent of those here"
    assert found.message == told
    line = f"printf '%s' 7 > /sys/fs/cgroup{path}/cgroup.procs"
    assert found.fix == (line if hierarchy == "v2" else None)
    above = LiveTree({**live.cgroups, "/": LiveCgroup("/", 1, {}, pids=(7,), processes=1)})
    assert sole(plan, changed(above, path, away={7: "/"})).verdict == "missing"
    elsewhere = changed(live, first(plan, "pod").path or "", pids=(7,), processes=1)
    both = changed(elsewhere, path, away={7: first(plan, "pod").path or ""})
    assert sole(plan, both).verdict == "foreign"


def limited(plan: Plan, file: str) -> Cgroup:
    """The first container with a CPU limit."""
    return next(
        one
        for one in plan.cgroups
        if one.level == "container"
        and one.path
        and any(row.file == file and row.value[:1].isdigit() for row in one.settings)
    )


@pytest.mark.parametrize(
    ("found", "severity"),
    [("doubled", "info"), ("by hand", "warning"), ("too long", "warning"), ("more", "warning")],
)
def test_a_period_that_the_kernel_doubled_is_a_note_v2(
    folder: str, found: str, severity: str
) -> None:
    plan = plan_of(folder)
    cgroup = limited(plan, "cpu.max")
    planned_one = next(row for row in cgroup.settings if row.file == "cpu.max").applied
    quota, period = map(int, planned_one.split())
    texts = {
        "doubled": f"{4 * quota} {4 * period}",
        "by hand": f"{quota} {4 * period}",
        "too long": f"{16 * quota} {16 * period}",
        "more": f"{4 * quota + 4000} {4 * period}",
    }
    one = sole(plan, written(tree_of(plan), cgroup.path or "", "cpu.max", texts[found]))
    assert (one.severity, one.file) == (severity, "cpu.max")
    assert ("the kernel makes them" in one.message) == (severity == "info")


def test_a_period_that_the_kernel_doubled_is_a_note_v1(folder: str) -> None:
    plan = plan_of(folder, "v1")
    cgroup = limited(plan, "cpu.cfs_quota_us")
    quota = int(next(row for row in cgroup.settings if row.file == "cpu.cfs_quota_us").value)
    path = cgroup.path or ""
    live = written(tree_of(plan), path, "cpu.cfs_quota_us", str(2 * quota))
    report = look(plan, written(live, path, "cpu.cfs_period_us", "200000"))
    assert {(one.file, one.severity) for one in report.findings} == {
        ("cpu.cfs_quota_us", "info"),
        ("cpu.cfs_period_us", "info"),
    }
    assert sole(plan, live).severity == "warning"
