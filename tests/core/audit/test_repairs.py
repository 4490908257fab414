"""Which findings ``audit --fix`` may repair, and with which values."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.audit.live import SUBTREE
from qoslet.core.audit.repairs import repairs
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.audit.trees import (
    added,
    changed,
    look,
    plan_of,
    tree_of,
    units_of,
    without,
    written,
)
from tests.core.audit.verdicts.setups import SETUPS, first
from tests.core.audit.verdicts.setups import folder as folder


@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_values_of_planned_cgroups_are_repaired(folder: str, hierarchy: str, driver: str) -> None:
    plan = plan_of(folder, hierarchy, driver)
    file, limit = ("cpu.shares", "memory.limit_in_bytes")
    if hierarchy == "v2":
        file, limit = "cpu.weight", "memory.high"
    pod = first(plan, "pod")
    value = next(one.value for one in pod.settings if one.file == file)
    besteffort = next(
        one for one in plan.cgroups if one.level == "pod" and "besteffort" in one.name
    )
    live = written(tree_of(plan), pod.path or "", file, "77")
    live = written(live, besteffort.path or "", limit, "40960000")
    done = repairs(plan, look(plan, live, units_of(plan, tree_of(plan))).findings)
    fresh = "-1" if hierarchy == "v1" else "max"
    assert {(one.path, one.file, one.wanted) for one in done.rows} == {
        (pod.path, file, value),
        (besteffort.path, limit, fresh),
    }
    assert (done.left, done.controllers) == ((), ())
    assert len(done.commands) == 2


@pytest.mark.parametrize(
    ("found", "levels"), [("50000", "child parent"), ("200000", "parent child")]
)
def test_the_lines_come_in_an_order_that_the_kernel_takes(
    folder: str, found: str, levels: str
) -> None:
    plan, live = plan_of(folder, "v1"), tree_of(plan_of(folder, "v1"))
    file = "cpu.cfs_period_us"
    child = next(one for one in plan.cgroups if one.level == "container" and file in one.by_file)
    paths = {"child": child.path or "", "parent": (child.path or "").rpartition("/")[0]}
    for path in paths.values():
        live = written(live, path, file, found)
    lines = repairs(plan, look(plan, live).findings).commands
    assert [line.rpartition("/cpu/")[2] for line in lines] == [
        f"{paths[level][1:]}/{file}" for level in levels.split()
    ]


def is_sandbox(path: str, plan: Plan) -> bool:
    """Whether a path below a pod's is of no container."""
    pods = {one.path for one in plan.cgroups if one.level == "pod"}
    return path.rpartition("/")[0] in pods and path not in {one.path for one in plan.cgroups}


@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_a_cgroup_that_is_idle_no_more_gets_its_weight(
    folder: str, hierarchy: str, driver: str
) -> None:
    """An idle one reads 1 with Linux 7.2, which may be what is planned: the kernel then makes it 100."""
    plan = plan_of(folder, hierarchy, driver)
    container = first(plan, "container")
    weight = "cpu.shares" if hierarchy == "v1" else "cpu.weight"
    planned = container.by_file[weight].value
    sandbox = next(path for path in tree_of(plan).cgroups if is_sandbox(path, plan))
    of_sandbox = next(one for one in plan.cgroups if one.level == "sandbox").by_file[weight].value
    live = written(tree_of(plan), sandbox, "cpu.idle", "1")
    done = repairs(plan, look(plan, live, units_of(plan, tree_of(plan))).findings)
    # what is found is what is written only where it is still there
    assert [(one.path, one.file, one.wanted, one.found) for one in done.rows] == [
        (sandbox, "cpu.idle", "0", "1"),
        (sandbox, weight, of_sandbox, of_sandbox),
    ]
    live = written(tree_of(plan), container.path or "", "cpu.idle", "1")
    done = repairs(plan, look(plan, live, units_of(plan, tree_of(plan))).findings)
    assert [(one.file, one.wanted) for one in done.rows] == [("cpu.idle", "0"), (weight, planned)]
    (command,) = done.commands
    line = f"CPU{'Shares' if hierarchy == 'v1' else 'Weight'}={planned}"
    other = f"printf '%s' {planned} > "
    assert command.partition(" && ")[2].endswith(line) or other in command.partition(" && ")[2]
    live = written(live, container.path or "", weight, "3")
    both = repairs(plan, look(plan, live, units_of(plan, tree_of(plan))).findings)
    assert sorted(one.file for one in both.rows) == ["cpu.idle", weight]
    # the kernel takes no weight of an idle one: each line ends that first
    assert [one.partition(" && ")[0].partition(" > ")[0] for one in both.commands] == [
        "printf '%s' 0"
    ] * 2


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_what_belongs_to_others_is_left_with_a_reason(folder: str, hierarchy: str) -> None:
    plan = plan_of(folder, hierarchy)
    pod, container = first(plan, "pod"), first(plan, "container")
    live = tree_of(plan)
    live = without(live, container.path or "")
    live = added(live, f"{pod.path}/x", processes=2)
    live = added(live, f"{pod.path.rpartition('/')[0] if pod.path else ''}/podffff-1", processes=1)
    other = next(one for one in plan.cgroups if one.level == "container" and one is not container)
    live = changed(live, other.path or "", oom_score_adj=(-5,))
    done = repairs(plan, look(plan, live).findings)
    assert (done.rows, done.controllers, done.commands) == ((), (), ())
    assert {"missing", "foreign", "orphan", "drift"} == {one.finding.verdict for one in done.left}
    assert all(one.reason for one in done.left)


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_controllers_are_systemds_under_systemd(folder: str, driver: str) -> None:
    plan = plan_of(folder, "v2", driver)
    pod = first(plan, "pod")
    live = written(tree_of(plan), pod.path or "", SUBTREE, "memory pids cpuset hugetlb")
    done = repairs(plan, look(plan, live).findings)
    if driver == "systemd":
        assert (done.controllers, len(done.left)) == ((), 1)
    else:
        assert [(one.path, one.value) for one in done.controllers] == [(pod.path, "+cpu")]


def test_a_latent_value_is_set_as_a_property_again(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    pod, live = first(plan, "pod"), tree_of(plan)
    units = units_of(plan, live)
    units[pod.unit or ""] = {**units[pod.unit or ""], "CPUWeight": "77"}
    done = repairs(plan, look(plan, live, units).findings)
    assert done.latent == {(pod.path, "cpu.weight")}
    assert [one.file for one in done.rows] == ["cpu.weight"]
    assert done.commands[0].startswith("systemctl set-property --runtime")


@pytest.mark.parametrize(("kernel", "is_repaired"), [("6.12.1", False), ("7.0.0", True)])
def test_a_set_that_was_taken_away_comes_back_where_release_can_undo_it(
    folder: str, kernel: str, is_repaired: bool
) -> None:
    plan = plan_of(folder)
    node = replace(plan.node, host=replace(plan.node.host, kernel=kernel))
    plan = replace(plan, node=node)
    kubepods = next(one for one in plan.cgroups if one.name == "/kubepods")
    live = written(tree_of(plan), kubepods.path or "", "cpuset.cpus", "")
    done = repairs(plan, look(plan, live).findings)
    assert [one.file for one in done.rows] == ["cpuset.cpus"] * is_repaired
    assert len(done.left) == (not is_repaired)
