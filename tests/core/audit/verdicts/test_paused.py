"""Verdicts on cgroups whose processes hang: frozen, or waiting for memory at their limit."""

from __future__ import annotations

import pytest

from qoslet.core.audit.audit import read_request
from qoslet.core.audit.repairs import repairs
from tests.core.audit.trees import look, plan_of, tree_of, written
from tests.core.audit.verdicts.setups import first, sole
from tests.core.audit.verdicts.setups import folder as folder


@pytest.mark.parametrize("level", ["qos", "pod", "container"])
def test_a_frozen_cgroup_hangs_and_is_left_to_whoever_froze_it(folder: str, level: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    path = first(plan, level).path or ""
    assert "cgroup.freeze" in read_request(plan).files[path]
    found = sole(plan, written(tree_of(plan), path, "cgroup.freeze", "1"))
    assert (found.verdict, found.path, found.file) == ("drift", path, "cgroup.freeze")
    assert found.fix == f"printf '%s' 0 > /sys/fs/cgroup{path}/cgroup.freeze"
    todo = repairs(plan, [found])
    assert not todo.rows
    assert [one.reason for one in todo.left] == ["what froze it may be at work"]


@pytest.mark.parametrize("level", ["qos", "pod", "container"])
def test_a_frozen_cgroup_of_v1_is_found_and_not_what_it_freezes_below(
    folder: str, level: str
) -> None:
    plan = plan_of(folder, "v1")
    path = first(plan, level).path or ""
    assert "freezer.self_freezing" in read_request(plan).files[path]
    found = sole(plan, written(tree_of(plan), path, "freezer.self_freezing", "1"))
    assert (found.verdict, found.path, found.file) == ("drift", path, "freezer.state")
    assert (found.expected, found.found) == ("THAWED", "FROZEN")
    assert found.fix == f"printf '%s' THAWED > /sys/fs/cgroup/freezer{path}/freezer.state"
    todo = repairs(plan, [found])
    assert [one.reason for one in todo.left] == ["what froze it may be at work"]


@pytest.mark.parametrize("level", ["pod", "container"])
def test_processes_that_wait_at_their_limit_are_found(folder: str, level: str) -> None:
    # as cgroup-v1/memory.rst shows the file; the CRI has no field that writes it
    plan, state = plan_of(folder, "v1"), "oom_kill_disable {}\nunder_oom 0\noom_kill 0"
    path = first(plan, level).path or ""
    assert "memory.oom_control" in read_request(plan).files[path]
    clean = written(tree_of(plan), path, "memory.oom_control", state.format(0))
    assert look(plan, clean).findings == ()
    found = sole(plan, written(clean, path, "memory.oom_control", state.format(1)))
    assert (found.verdict, found.file, found.found) == ("drift", "memory.oom_control", "1")
    assert found.fix == f"printf '%s' 0 > /sys/fs/cgroup/memory{path}/memory.oom_control"
    assert not repairs(plan, [found]).rows
