"""Pods of a runtime that keeps the processes of all containers in its sandbox, as gVisor and Kata do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.audit.live import LiveTree
from qoslet.core.cgroup.interface_files import released
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.audit.trees import changed, look, plan_of, tree_of, units_of, without, written
from tests.core.audit.verdicts.setups import first, is_clean
from tests.core.audit.verdicts.setups import folder as folder


def classed(plan: Plan) -> tuple[Plan, str, list[str]]:
    """The plan with a RuntimeClass at a pod of which all containers run; its path and theirs."""
    for row in plan.cgroups:
        uid = row.pod.uid if row.level == "pod" and row.pod is not None else None
        inner = [one for one in plan.cgroups if one.container and one.pod and one.pod.uid == uid]
        if len(inner) > 1 and all(
            one.path and one.container and one.container.runs for one in inner
        ):
            break
    assert row.pod is not None
    platform = replace(row.pod.platform, runtime_class="gvisor")
    cgroups = tuple(
        replace(one, pod=replace(one.pod, platform=platform))
        if one.pod is not None and one.pod.uid == uid
        else one
        for one in plan.cgroups
    )
    return replace(plan, cgroups=cgroups), row.path or "", [one.path or "" for one in inner]


def emptied(plan: Plan, live: LiveTree, paths: list[str]) -> LiveTree:
    """The tree with cgroups as new, without processes."""
    for path in paths:
        values = {
            file: released(file, plan.node.hierarchy) or "" for file in live.cgroups[path].values
        }
        live = changed(live, path, values=values, processes=0, pids=(), oom_score_adj=None)
    return live


@pytest.mark.parametrize(("hierarchy", "driver"), [("v2", "systemd"), ("v1", "cgroupfs")])
def test_containers_without_cgroups_are_in_the_sandbox_of_their_pod(
    folder: str, hierarchy: str, driver: str
) -> None:
    plan, pod, paths = classed(plan_of(folder, hierarchy, driver))
    live = emptied(plan, tree_of(plan), paths)
    if driver == "systemd":
        for path in paths:
            live = without(live, path)
    report = look(plan, live)
    assert is_clean(report)
    (note,) = report.notes
    assert note.startswith(
        "containers of 1 pod were not compared: the runtime of their RuntimeClass"
    )
    (found,) = look(plan, written(live, pod, "pids.max", "7")).findings
    assert (found.path, found.file) == (pod, "pids.max")


@pytest.mark.parametrize("has_class", [True, False])
def test_a_pod_whose_processes_are_gone_is_missing(folder: str, has_class: bool) -> None:
    given = plan_of(folder, "v2", "cgroupfs")
    plan, pod, paths = classed(given)
    live = emptied(plan, tree_of(plan), paths)
    if has_class:
        below = [path for path in live.cgroups if path.startswith(f"{pod}/")]
        live = emptied(plan, live, below)
    report = look(plan if has_class else given, live)
    assert {one.path for one in report.findings if one.verdict == "missing"} == set(paths)
    assert not report.notes


def test_a_runtime_class_of_runc_is_compared_as_any(folder: str) -> None:
    plan, _, paths = classed(plan_of(folder, "v2", "cgroupfs"))
    (found,) = look(plan, written(tree_of(plan), paths[0], "cpu.weight", "77")).findings
    assert (found.path, found.verdict) == (paths[0], "drift")


def in_crun(plan: Plan) -> tuple[LiveTree, str]:
    """The tree of a plan whose first container crun made, as 1.21 does below containerd, and its path."""
    live, scope = tree_of(plan), first(plan, "container").path or ""
    outer = live.cgroups[scope]
    inner = replace(outer, path=f"{scope}/container", identity=9999)
    live = LiveTree({**live.cgroups, inner.path: inner})
    values = {**outer.values, "memory.oom.group": "0", "memory.swap.max": "67108864"}
    return changed(live, scope, values=values, processes=0, pids=(), oom_score_adj=None), scope


def test_values_that_crun_gives_below_a_scope_alone_are_compared_there(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    live, scope = in_crun(plan)
    units = units_of(plan, tree_of(plan))
    name = scope.rpartition("/")[2]
    units[name] = {**units[name], "MemorySwapMax": "67108864"}
    assert look(plan, live, units).findings == ()
    for file, value in (("memory.oom.group", "0"), ("memory.max", "4096"), ("cpu.weight", "77")):
        inner = f"{scope}/container"
        (found,) = look(plan, written(live, inner, file, value), units).findings
        assert (found.verdict, found.path, found.file) == ("drift", inner, file)
        assert (found.fix or "").endswith(f"{inner}/{file}")
    (found,) = look(plan, written(live, scope, "cpu.weight", "77"), units).findings
    assert (found.path, found.file) == (scope, "cpu.weight")
    (found,) = look(plan, changed(live, f"{scope}/container", oom_score_adj=(5,)), units).findings
    assert (found.file, found.found) == ("oom_score_adj", "5")
