"""CPUs taken away from cgroups in which no plan sets them, as beside a kubelet 1.36.2 without a CPU manager
on cgroup v1."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.api.pod import Pod, Resources
from qoslet.core.audit.live import LiveTree
from qoslet.core.audit.repairs import repairs
from qoslet.core.node.topology import NumaNode
from qoslet.core.plan.plan import plan as planned
from qoslet.core.quantity import parse
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.audit.trees import look, plan_of, tree_of, units_of, written
from tests.core.audit.verdicts.setups import first, sole
from tests.core.audit.verdicts.setups import folder as folder

ALL = {"cpuset.cpus": "0-1", "cpuset.mems": "0"}


def with_sets(plan: Plan) -> LiveTree:
    """The tree as the kernel has it: on v1 every cgroup has the CPUs of its parent."""
    live = tree_of(plan)
    if plan.node.hierarchy == "v2":
        return live
    for path in live.cgroups:
        for file, value in ALL.items():
            live = written(live, path, file, value)
    for cgroup in plan.cgroups:
        for one in cgroup.settings:
            if one.file in ALL and cgroup.path:
                for path in live.cgroups:
                    live = written(live, path, one.file, one.applied)
    return live


@pytest.mark.parametrize(
    ("hierarchy", "driver"), [("v1", "cgroupfs"), ("v2", "cgroupfs"), ("v2", "systemd")]
)
@pytest.mark.parametrize("level", ["qos", "pod", "container"])
def test_cpus_that_were_taken_away_are_found(
    folder: str, hierarchy: str, driver: str, level: str
) -> None:
    plan = plan_of(folder, hierarchy, driver)
    live = with_sets(plan)
    units = units_of(plan, live)
    assert look(plan, live, units).findings == ()
    every = next(s.value for one in plan.cgroups for s in one.settings if s.file == "cpuset.cpus")
    path = [one for one in plan.cgroups if one.level == level and one.path][-1].path or ""
    found = look(plan, written(live, path, "cpuset.cpus", "1"), units).findings
    one = next(row for row in found if row.path == path)
    # the kernel refuses an empty set where processes run: what it may have is written
    assert (one.verdict, one.file, one.expected, one.found) == ("drift", "cpuset.cpus", every, "1")
    assert every in (one.fix or "")
    assert repairs(plan, [one]).rows[0].wanted == every
    assert look(plan, written(live, path, "cpuset.cpus", every), units).findings == ()


def test_a_set_that_cannot_be_written_is_left(folder: str) -> None:
    plan = plan_of(folder, "v2")
    path = first(plan, "pod").path or ""
    found = sole(plan, written(tree_of(plan), path, "cpuset.mems", "1"))
    assert (found.verdict, found.expected, found.fix) == ("drift", "", None)
    assert "restart the pod" in found.hint
    assert [one.reason for one in repairs(plan, [found]).left] == [found.hint]


def test_where_no_cgroup_above_has_a_set_all_of_the_machine_is_written(folder: str) -> None:
    # beside a kubelet 1.36.2 with the static CPU manager, which leaves kubepods without a set
    plan = plan_of(folder, "v2", "systemd")
    nodes = tuple(NumaNode(cpus, 1 << 30, id) for id, cpus in enumerate(("0-1", "2-3")))
    plan = replace(plan, node=replace(plan.node, host=replace(plan.node.host, numa=nodes)))
    path = first(plan, "pod").path or ""
    found = sole(
        plan, written(tree_of(plan), path, "cpuset.mems", "1"), units=units_of(plan, tree_of(plan))
    )
    assert (found.verdict, found.expected, found.found) == ("drift", "0-1", "1")
    assert (found.fix or "").endswith("AllowedMemoryNodes=0-1")
    assert look(plan, written(tree_of(plan), path, "cpuset.mems", "0-1")).findings == ()


def test_on_v1_a_set_below_one_that_was_not_read_may_be_its_administrators(folder: str) -> None:
    plan = plan_of(folder, "v1")
    nodes = tuple(NumaNode(cpus, 1 << 30, id) for id, cpus in enumerate(("0-1", "2-3")))
    plan = replace(plan, node=replace(plan.node, host=replace(plan.node.host, numa=nodes)))
    live = tree_of(plan)
    for one in plan.cgroups:
        if one.path:
            live = written(live, one.path, "cpuset.mems", "0")
    assert look(plan, live).findings == ()


def test_a_set_that_the_kernel_takes_away_is_cleared(folder: str) -> None:
    plan = plan_of(folder, "v2")
    plan = replace(plan, node=replace(plan.node, host=replace(plan.node.host, kernel="7.0.1")))
    path = first(plan, "pod").path or ""
    found = sole(plan, written(tree_of(plan), path, "cpuset.mems", "1"))
    assert (found.verdict, found.fix) == ("drift", f"echo > /sys/fs/cgroup{path}/cpuset.mems")
    assert repairs(plan, [found]).rows[0].wanted == ""


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_what_all_containers_up_to_one_have_a_policy_left(folder: str, hierarchy: str) -> None:
    plan = plan_of(folder, hierarchy)
    live = with_sets(plan)
    rows = [one.path for one in plan.cgroups if one.level == "container" and one.path]
    for path in rows[:2]:
        live = written(live, path, "cpuset.cpus", "1")
    found = look(plan, live).findings
    assert [one.verdict for one in found] == ["stale", "stale"]
    assert all("another CPU or memory manager policy" in one.message for one in found)


def test_a_cgroup_without_a_set_yet_has_no_other(folder: str) -> None:
    plan = plan_of(folder, "v1")
    path = first(plan, "pod").path or ""
    live = with_sets(plan)
    for file in ALL:
        live = written(live, path, file, "")
    assert look(plan, live).findings == ()


def test_the_set_of_a_reserved_cgroup_is_its_administrators(folder: str) -> None:
    flags = {
        "enforce_node_allocatable": "pods,system-reserved",
        "system_reserved_cgroup": "/system.slice",
        "system_reserved": "memory=100Mi",
    }
    plan = plan_of(folder, "v2", **flags)
    live = tree_of(plan)
    path = next(one.path or "" for one in plan.cgroups if "system.slice" in (one.path or ""))
    assert look(plan, written(live, path, "cpuset.cpus", "0")).findings == ()
    assert sole(plan, written(live, path, "memory.max", "4096")).verdict == "drift"


def exclusive(given: Plan) -> Pod:
    """The Guaranteed pod of a plan, whose containers ask for a CPU of their own."""
    whole = {"cpu": parse("1"), "memory": parse("1Gi")}
    pod = next(one.pod for one in given.pods if one.qos == "Guaranteed")
    made = [replace(one, resources=Resources(whole, whole)) for one in pod.containers]
    return replace(pod, containers=tuple(made))


@pytest.mark.parametrize(("cpus", "verdict"), [("1", "stale"), ("1-2", "drift")])
def test_exclusive_cpus_of_a_policy_of_before_are_stale(
    folder: str, cpus: str, verdict: str
) -> None:
    # beside a kubelet 1.36.2: after policy static one container kept its own, the others have all again
    given = plan_of(folder, "v1")
    pod = exclusive(given)
    plan = planned([one.pod for one in given.pods if one.pod.uid != pod.uid] + [pod], given.node)
    live = with_sets(plan)
    rows = [one for one in plan.cgroups if one.level == "container" and one.pod is not None]
    path = next(one.path or "" for one in rows if one.pod.uid == pod.uid)  # type: ignore[union-attr]
    found = sole(plan, written(live, path, "cpuset.cpus", cpus))
    assert (found.verdict, found.file, found.found) == (verdict, "cpuset.cpus", cpus)


@pytest.mark.parametrize(("before", "now"), [("none", "static"), ("static", "none")])
def test_the_quota_of_exclusive_cpus_is_that_of_another_policy(
    folder: str, before: str, now: str
) -> None:
    given = plan_of(folder, "v2")
    pods = [exclusive(given)]

    def under(policy: str) -> Plan:
        kubelet = replace(given.node.kubelet, cpu_manager_policy=policy)
        return planned(pods, replace(given.node, kubelet=kubelet))

    plan, live = under(now), tree_of(under(now))
    for cgroup in under(before).cgroups:
        for one in cgroup.settings:
            if one.file == "cpu.max" and cgroup.path:
                live = written(live, cgroup.path, "cpu.max", one.applied)
    found = [one for one in look(plan, live).findings if one.file == "cpu.max"]
    assert {one.verdict for one in found} == {"stale"}
    assert any(f"cpuManagerPolicy {before}" in one.message for one in found) or before == "static"


def test_containers_of_before_the_memory_manager_have_no_memory_nodes(folder: str) -> None:
    # beside a kubelet 1.36.2 that was started again with memoryManagerPolicy Static
    given = plan_of(folder, "v2")
    kubelet = replace(given.node.kubelet, memory_manager_policy="Static")
    plan = planned([one.pod for one in given.pods], replace(given.node, kubelet=kubelet))
    live, paths = tree_of(plan), set[str]()
    for cgroup in plan.cgroups:
        if cgroup.path and any(one.file == "cpuset.mems" for one in cgroup.settings):
            live = written(live, cgroup.path, "cpuset.mems", "")
            paths.add(cgroup.path)
    found = [one for one in look(plan, live).findings if one.file == "cpuset.mems"]
    assert {one.path for one in found if one.verdict == "stale"} == paths != set()
    assert all("memoryManagerPolicy None" in one.message for one in found)
    # what --fix would write, release could not take away
    todo = repairs(plan, found)
    assert not todo.rows
    assert all("release could not undo it" in one.reason for one in todo.left)
