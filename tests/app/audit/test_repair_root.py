"""Where a node has no cgroup of all pods, nothing is repaired, and it is said before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.app.audit.machine import Audited
from qoslet.app.audit.repair import repair
from qoslet.core.plan.plan import plan as planned
from qoslet.errors import CannotDo
from tests.core.audit.trees import look, plan_of, tree_of, written


def test_pods_without_cgroups_of_their_own_are_left(tmp_path: Path) -> None:
    # beside a kubelet 1.36.2 with cgroupsPerQOS false and no cgroupRoot
    given = plan_of(str(tmp_path), "v1")
    kubelet = replace(given.node.kubelet, cgroups_per_qos=False, enforce_node_allocatable=("none",))
    plan = planned([one.pod for one in given.pods], replace(given.node, kubelet=kubelet))
    rows = tuple(one for one in plan.cgroups if one.level != "sandbox")
    plan = replace(plan, cgroups=rows)
    path = next(one.path or "" for one in plan.cgroups if one.level == "container" and one.path)
    live = written(tree_of(plan), path, "cpu.shares", "777")
    audited = Audited(plan, look(plan, live))
    with pytest.raises(CannotDo, match="cgroupsPerQOS is false"):
        repair(lambda: audited, lambda one: one.report, dry_run=False)
    shown = repair(lambda: audited, lambda one: one.report, dry_run=True)
    assert any("777" not in line and "cpu.shares" in line for line in shown.commands)
