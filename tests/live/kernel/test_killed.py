"""The driver's process killed (-9) at any moment: the next run knows its groups and cleans them."""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest

from qoslet.core.cgroup.observed import Observed
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.machine.probe import probe
from qoslet.host.state.journal_file import claim
from tests.contract.drivers import mounts_of
from tests.core.reconcile.trees import plan_of
from tests.live.machine import begun, ended

pytestmark = pytest.mark.live

KILLS = 30
LONGEST = 0.06
"""Seconds after the first group within which the process is killed."""


def work(root: str, state: str, claimed: int) -> int:
    """Make, write and remove groups until this process ends."""
    hierarchy = probe().hierarchy or "v1"
    driver = Cgroupfs(hierarchy, mounts_of(hierarchy), root)
    driver.journal = claim(root, driver, state=state)
    os.write(claimed, b"claimed")
    while True:
        made = [f"{root}/p{number}{leaf}" for number in range(6) for leaf in ("", "/c")]
        steps = [Step("create", path) for path in made]
        steps += [Step("set", path, "pids.max", "9") for path in made]
        steps += [Step("remove", path) for path in reversed(made)]
        for at in range(0, len(steps), 7):
            wrong = [one.error for one in driver.perform(steps[at : at + 7]) if one.error]
            assert not wrong, wrong


@pytest.fixture
def driver() -> Iterator[Cgroupfs]:
    hierarchy = probe().hierarchy or "v1"
    made = Cgroupfs(hierarchy, mounts_of(hierarchy), f"/qoslet-test-{secrets.token_hex(4)}")
    yield made
    made.kill(made.root)
    for path in made.below(made.root):
        made.discard(path)
    left = made.below(made.root)
    made.close()
    assert left == []


def test_after_a_kill_at_any_moment_the_next_run_starts_clean(driver: Cgroupfs, tmp_path) -> None:
    state = str(tmp_path / "state")
    halves = 0
    for _ in range(KILLS):
        said, claimed = os.pipe()
        child = begun(partial(work, driver.root, state, claimed))
        os.close(claimed)
        with open(said, "rb", buffering=0) as pipe:
            assert pipe.read(7) == b"claimed", "the next run could not start"
        time.sleep(random.uniform(0, LONGEST))
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL
        halves += any(_half(driver, path) for path in driver.below(driver.root))
        claim(driver.root, driver, state=state).close(gone=True)
        assert driver.below(driver.root) == []
    assert halves, "no kill met a group on its way: nothing was proven"


def _half(driver: Cgroupfs, path: str) -> bool:
    """Whether a group stands in some hierarchies only; v2 has one: whether it stands."""
    trees = driver.layout.trees
    return len(trees) == 1 or any(tree.identity(path) is None for tree in trees)


@pytest.mark.parametrize("hierarchies", [1, 2, 5])
def test_a_v1_group_that_was_half_removed_is_still_ours(
    driver: Cgroupfs, tmp_path, monkeypatch: pytest.MonkeyPatch, hierarchies: int
) -> None:
    if driver.hierarchy == "v2":
        pytest.skip("v2 is one hierarchy: no group is half removed")
    state = str(tmp_path / "state")
    driver.journal = journal = claim(driver.root, driver, state=state)
    driver.perform([Step("create", f"{driver.root}/a")])
    removed: list[str] = []

    class Killed(BaseException):
        pass

    for tree in driver.layout.trees:

        def rmdir(path: str, real=tree.rmdir, point: str = tree.point) -> bool:
            if len(removed) == hierarchies:
                raise Killed
            removed.append(point)
            return bool(real(path))

        monkeypatch.setattr(tree, "rmdir", rmdir)
    with pytest.raises(Killed):
        driver.perform([Step("remove", f"{driver.root}/a")])
    assert len(removed) == hierarchies
    assert driver.identity(f"{driver.root}/a") is not None
    monkeypatch.undo()
    journal.close(gone=False)
    claim(driver.root, driver, state=state).close(gone=True)
    assert driver.below(driver.root) == []


def prefix(hierarchy: Hierarchy, root: str, state: str, length: int) -> int:
    """The first steps, then the end of this process."""
    driver = Cgroupfs(hierarchy, mounts_of(hierarchy), root)
    driver.journal = claim(root, driver, state=state)
    steps = steps_of(hierarchy, root)[:length]
    wrong = [one.error for one in driver.perform(steps) if one.error]
    assert not wrong, wrong
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def wanted(hierarchy: Hierarchy, root: str) -> Plan:
    limit = "memory.limit_in_bytes" if hierarchy == "v1" else "memory.max"
    weight = "cpu.shares" if hierarchy == "v1" else "cpu.weight"
    files = {limit: "67108864", weight: "102", "pids.max": "99"}
    return plan_of(hierarchy, {root: {}, f"{root}/pod": files, f"{root}/pod/c": files})


def steps_of(hierarchy: Hierarchy, root: str) -> list[Step]:
    empty = Observed(0.0, {})
    return ordered(compare(wanted(hierarchy, root), empty), empty)


def test_after_a_kill_between_any_two_steps_the_next_run_converges(
    driver: Cgroupfs, tmp_path
) -> None:
    state = str(tmp_path / "state")
    hierarchy: Hierarchy = "v2" if driver.hierarchy == "v2" else "v1"
    eyes = CgroupObserver(hierarchy, mounts_of(hierarchy))
    steps = steps_of(hierarchy, driver.root)
    assert len(steps) >= 9
    for length in range(len(steps) + 1):
        killed = begun(partial(prefix, hierarchy, driver.root, state, length))
        assert ended(killed) == -signal.SIGKILL
        driver.journal = journal = claim(driver.root, driver, state=state)
        plan = wanted(hierarchy, driver.root)
        seen = eyes.observe(driver.root)
        again = driver.perform(ordered(compare(plan, seen), seen))
        assert not [one.error for one in again if one.error]
        assert compare(plan, eyes.observe(driver.root)) == []
        for path in driver.below(driver.root):
            assert driver.perform([Step("remove", path)])[0].error is None
        driver.journal = None
        journal.close(gone=True)
