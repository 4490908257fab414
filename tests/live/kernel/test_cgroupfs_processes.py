"""Processes in cgroups on this machine's kernel: joined, found, attached and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.errors import QosletError
from qoslet.host.cgroupfs.driver import Cgroupfs
from tests.live.kernel.cgroupfs import driver as driver
from tests.live.kernel.cgroupfs import (
    ended,
    error_of,
    eyes,
    good,
    inside,
    started_inside,
    v1_mounts,
    v2_point,
)
from tests.live.kernel.cgroupfs import root as root
from tests.live.kernel.cgroupfs import v1 as v1
from tests.live.kernel.cgroupfs import v2 as v2

pytestmark = pytest.mark.live


def test_processes_join_are_found_and_killed_with_all_below(driver: Cgroupfs) -> None:
    leaf = f"{driver.root}/a/b"
    good(driver, Step("create", leaf))
    process = inside(driver, leaf, "import os; os.fork() or os.setsid()")
    deadline = time.monotonic() + 5
    while len(driver.members(leaf)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.pid in driver.members(leaf)
    assert set(eyes(driver).observe(driver.root).cgroups[leaf].pids) == driver.members(leaf)
    assert driver.kill(driver.root)
    assert driver.members(leaf) == set()
    ended(process)
    assert process.returncode == -signal.SIGKILL
    good(driver, Step("remove", leaf))


def test_without_cgroup_kill_members_are_frozen_and_killed(
    v2: Cgroupfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = f"{v2.root}/a"
    good(v2, Step("create", leaf))
    process = inside(v2, leaf, "import os; os.fork() or os.setsid()")
    written: list[tuple[str, str]] = []
    real = v2.layout.trees[0].write

    def write(path: str, file: str, value: str) -> None:
        written.append((file, value))
        if file == "cgroup.kill":
            raise FileNotFoundError(file)
        real(path, file, value)

    monkeypatch.setattr(v2.layout.trees[0], "write", write)
    assert v2.kill(v2.root)
    assert written[:3] == [("cgroup.kill", "1"), ("cgroup.freeze", "1"), ("cgroup.freeze", "0")]
    ended(process)
    assert process.returncode == -signal.SIGKILL
    assert v2.members(leaf) == set()


def test_a_process_is_attached_everywhere(driver: Cgroupfs) -> None:
    good(driver, Step("create", driver.root))
    process = subprocess.Popen(["sleep", "300"])
    good(driver, Step("attach", driver.root, pid=process.pid))
    own = Path(f"/proc/{process.pid}/cgroup").read_text()
    assert own.count(driver.root) == len(driver.layout.trees)
    process.kill()
    ended(process)
    text, name = error_of(driver, Step("attach", driver.root, pid=process.pid))
    assert (name, "has ended" in text) == ("ESRCH", True)


@pytest.mark.parametrize("pid", ["0", "1", "self"])
def test_nobody_else_is_moved_or_killed(v1: Cgroupfs, pid: str) -> None:
    good(v1, Step("create", v1.root))
    number = os.getpid() if pid == "self" else int(pid)
    text, _ = error_of(v1, Step("attach", v1.root, pid=number))
    assert "is not moved" in text
    outside = Cgroupfs("v1", v1_mounts(), f"{v1.root}/other")
    with pytest.raises(QosletError, match="is not below"):
        outside.kill(v1.root)


def test_a_group_that_holds_ourselves_is_not_killed(v2: Cgroupfs) -> None:
    code = f"""
import sys
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.driver import Cgroupfs
try:
    Cgroupfs("v2", {v2_point()!r}, {v2.root!r}).kill({v2.root!r})
except CannotDo as error:
    print(error, flush=True)
"""
    good(v2, Step("create", v2.root))
    process, said = started_inside(v2, v2.root, code)
    assert b"nothing was killed" in said
    assert v2.members(v2.root) == {process.pid}


def test_a_busy_group_stays_and_says_who_is_in_it(driver: Cgroupfs) -> None:
    path = f"{driver.root}/a"
    good(driver, Step("create", path))
    process = inside(driver, path, "")
    text, name = error_of(driver, Step("remove", path))
    assert (name, f"in it: {process.pid}" in text) == ("EBUSY", True)
    text, name = error_of(driver, Step("remove", driver.root))
    assert (name, path in text) == ("EBUSY", True)
    process.kill()
    ended(process)
    good(driver, Step("remove", path))


def test_a_group_that_ends_meanwhile_is_removed_with_patience(v1: Cgroupfs) -> None:
    path = f"{v1.root}/a"
    good(v1, Step("create", path))
    process = inside(v1, path, "")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            process.kill()
            ended(process)

    patient = Cgroupfs("v1", v1_mounts(), v1.root, sleep=sleep)
    good(patient, Step("remove", path))
    assert slept[:3] == [0.001, 0.002, 0.004]


@pytest.mark.parametrize("frozen", ["/a/b/c", "/a/b", "/a", ""])
def test_frozen_processes_of_v1_are_thawed_to_die(v1: Cgroupfs, frozen: str) -> None:
    """A container froze a cgroup below its own, or another process one on the way."""
    from qoslet.host.keeper.container_cgroups import KernelContainerCgroups, end_group

    groups = KernelContainerCgroups("v1", v1_mounts(), v1.root)
    container, leaf = f"{v1.root}/a/b", f"{v1.root}/a/b/c"
    good(v1, Step("create", leaf))
    process = inside(v1, leaf, "")
    freezer = v1.layout.tree_of("freezer")
    assert freezer is not None
    freezer.write(f"{v1.root}{frozen}", "freezer.state", "FROZEN")
    deadline = time.monotonic() + 5
    while (why := end_group(groups, container)) and time.monotonic() < deadline:
        assert "processes are left in" in why
        if not frozen:
            # what is not of the pod is not thawed for it
            assert f"{v1.root} is frozen; thaw it" in why
            break
        time.sleep(0.01)
    if frozen:
        assert why is None
    else:
        assert v1.kill(v1.root)
    ended(process)
    assert process.returncode == -signal.SIGKILL
    groups.close()
