"""Values that runtimes or systemd give to all containers alike, as beside a kubelet 1.36.2 with containerd: ``max``
with cgroupfs, DefaultTasksMax of systemd in scopes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.audit.live import LiveTree
from qoslet.core.audit.repairs import repairs
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.audit.trees import changed, look, plan_of, tree_of, units_of, written
from tests.core.audit.verdicts.setups import SETUPS, first, sole
from tests.core.audit.verdicts.setups import folder as folder

LEVELS = ("sandbox", "container")


def of_level(plan: Plan, live: LiveTree, level: str) -> list[str]:
    """The paths of sandboxes or containers, in the order in which they were created."""
    containers = {one.path for one in plan.cgroups if one.level == "container"}
    with_processes = [path for path, one in live.cgroups.items() if one.processes]
    return [path for path in with_processes if (path in containers) == (level == "container")]


def with_default(live: LiveTree, paths: list[str], value: str) -> LiveTree:
    for path in paths:
        live = written(live, path, "pids.max", value)
    return live


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_a_limit_of_processes_that_one_has_alone_is_drift(
    folder: str, hierarchy: str, driver: str, level: str
) -> None:
    plan = plan_of(folder, hierarchy, driver)
    live = tree_of(plan)
    paths = of_level(plan, live, level)
    usual = "4915" if driver == "systemd" else "max"
    live = with_default(live, paths, usual)
    units = {
        name: {**one, "TasksMax": usual} if name.endswith(".scope") else one
        for name, one in units_of(plan, live).items()
    }
    assert look(plan, live, units).findings == ()
    found = sole(plan, written(live, paths[2], "pids.max", "77"), units=units)
    assert (found.verdict, found.path, found.expected, found.found, found.writer) == (
        "drift", paths[2], usual, "77", "runtime",
    )  # fmt: skip
    assert found.reset_by is not None
    assert ("systemd" in found.reset_by) == (driver == "systemd")
    assert repairs(plan, [found]).rows[0].wanted == usual
    assert usual in (found.fix or "")


@pytest.mark.parametrize("level", LEVELS)
def test_a_default_that_was_changed_meanwhile_is_no_finding(folder: str, level: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    paths = of_level(plan, live, level)
    for at in range(len(paths) + 1):
        assert look(plan, with_default(live, paths[:at], "4915")).findings == ()
        assert look(plan, with_default(live, paths[at:], "4915")).findings == ()


def test_what_a_runtime_class_gives_is_no_finding(folder: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    paths = of_level(plan, live, "container")
    uid = next(one.pod.uid for one in plan.cgroups if one.path == paths[2] and one.pod is not None)
    cgroups = []
    for one in plan.cgroups:
        pod = one.pod
        if pod is not None and pod.uid == uid:
            one = replace(
                one, pod=replace(pod, platform=replace(pod.platform, runtime_class="kata"))
            )
        cgroups.append(one)
    live = written(live, paths[2], "pids.max", "77")
    assert [one.file for one in look(plan, live).findings] == ["pids.max"]
    assert look(replace(plan, cgroups=tuple(cgroups)), live).findings == ()


def test_two_containers_tell_nothing(folder: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    _, second, *others = of_level(plan, live, "container")
    for path in others:
        live = changed(
            live,
            path,
            values={k: v for k, v in live.cgroups[path].values.items() if k != "pids.max"},
        )
    assert look(plan, written(live, second, "pids.max", "77")).findings == ()


@pytest.mark.parametrize(
    ("hierarchy", "level", "file", "value"),
    [
        ("v1", "container", "cpu.cfs_burst_us", "20000"),
        ("v2", "container", "cpu.max.burst", "20000"),
        ("v2", "pod", "memory.swap.high", "4096"),
        ("v2", "qos", "cgroup.max.descendants", "3"),
        ("v2", "pod", "cgroup.max.depth", "0"),
    ],
)
def test_what_nobody_writes_is_as_in_a_new_cgroup(
    folder: str, hierarchy: str, level: str, file: str, value: str
) -> None:
    plan = plan_of(folder, hierarchy)
    live = tree_of(plan)
    path = first(plan, level).path or ""
    fresh = live.cgroups[path].values[file]
    found = sole(plan, written(live, path, file, value))
    assert (found.verdict, found.path, found.expected, found.writer, found.reset_by) == (
        "drift", path, fresh, None, "nothing resets it",
    )  # fmt: skip
    assert (found.fix or "").startswith(f"printf '%s' {fresh} > ")
    assert [(one.file, one.wanted) for one in repairs(plan, [found]).rows] == [(file, fresh)]
