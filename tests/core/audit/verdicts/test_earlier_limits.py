"""Limits that more than one field of an earlier configuration tells of, or more than one cgroup has to have."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.audit.verdicts.left_behind import PERIOD
from qoslet.core.quantity import parse
from tests.core.audit.trees import look, plan_of, tree_of, written
from tests.core.audit.verdicts.setups import folder as folder
from tests.core.audit.verdicts.test_earlier import old_paths, under


@pytest.mark.parametrize(
    ("hierarchy", "file"), [("v2", "memory.max"), ("v1", "memory.limit_in_bytes")]
)
@pytest.mark.parametrize("both", [True, False])
def test_qos_reserved_left_a_limit_in_both_classes(
    folder: str, hierarchy: str, file: str, both: bool
) -> None:
    # cm/qos_container_manager_linux.go setMemoryReserve
    plan = plan_of(folder, hierarchy, "cgroupfs")
    classes = [one.path or "" for one in plan.cgroups if one.level == "qos"]
    live = tree_of(plan)
    for number, path in enumerate(classes if both else classes[:1], 1):
        live = written(live, path, file, str(number << 30))
    found = look(plan, live).findings
    assert [one.path for one in found] == (classes if both else classes[:1])
    assert {one.verdict for one in found} == {"stale" if both else "drift"}


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@pytest.mark.parametrize("enforced", [True, False])
def test_quota_and_period_were_changed_at_once(folder: str, hierarchy: str, enforced: bool) -> None:
    # of a kubelet 1.36.2 whose cpuCFSQuotaPeriod 5ms and cpuCFSQuota were changed with one start
    given = plan_of(folder, hierarchy)
    now = under(given, {"cpu_cfs_quota": enforced})
    then = under(given, {"cpu_cfs_quota": not enforced, "cpu_cfs_quota_period_us": 5000})
    found = [one for one in look(now, tree_of(then)).findings if one.verdict != "ineffective"]
    assert found
    assert {one.verdict for one in found} == {"stale"}
    told = f"cpuCFSQuota {str(not enforced).lower()} and cpuCFSQuotaPeriod 5ms"
    assert any(told in one.message for one in found)


@pytest.mark.parametrize("last", [5, 99])
def test_throttling_and_reservation_were_changed_at_once(folder: str, last: int) -> None:
    given = plan_of(folder, "v2", memory_qos="1.36")
    fields = {"memory_throttling_factor": 0.5, "kube_reserved": {"memory": parse("1Gi")}}
    now, then = under(given, {}), under(given, fields)
    old, before = old_paths(now, last), tree_of(then).cgroups
    live = tree_of(now)
    mixed = {path: before[path] if path in old else one for path, one in live.cgroups.items()}
    found = [one for one in look(now, replace(live, cgroups=mixed)).findings if one.counts]
    assert {one.verdict for one in found} == {"stale"}
    told = {one.message.partition("left by ")[2].partition(", in")[0] for one in found}
    both = "memoryThrottlingFactor 0.5 and another reservation of memory"
    assert told == {"memoryThrottlingFactor 0.5", both}


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@pytest.mark.parametrize("count", [1, 3])
def test_containers_without_a_limit_tell_of_an_earlier_period(
    folder: str, hierarchy: str, count: int
) -> None:
    # of pods without limits that were created under a period of 1s, before cpuCFSQuota was switched off
    now = under(plan_of(folder, hierarchy), {"cpu_cfs_quota": False})
    file, value = ("cpu.max", "max 1000000") if hierarchy == "v2" else (PERIOD, "1000000")
    limits = {"cpu.max", "cpu.cfs_quota_us"}
    with_limits = under(now, {"cpu_cfs_quota": True, "cpu_cfs_quota_period_us": 1_000_000})
    free = [
        one.path or ""
        for one in with_limits.cgroups
        if one.level == "container"
        and value in (one.applied.get(file), one.applied.get("cpu.cfs_period_us"))
        and not any(one.applied.get(name, "max")[0] not in "m-" for name in limits)
    ]
    live = tree_of(now)
    for path in free[:count]:
        live = written(live, path, file, value)
    found = [one for one in look(now, live).findings if one.counts]
    assert len(found) == count
    assert {one.verdict for one in found} == {"drift" if count == 1 else "stale"}
