"""What another process wrote so that a cgroup of ours cannot end, on this machine's kernel."""

from __future__ import annotations

import time
from functools import partial

import pytest

from qoslet.agent.state.memory_journal import MemoryJournal
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.lifted_limits import lift
from tests.live.kernel.cgroupfs import driver as driver
from tests.live.kernel.cgroupfs import good, inside
from tests.live.kernel.cgroupfs import root as root
from tests.live.kernel.cgroupfs import v1 as v1
from tests.live.kernel.cgroupfs import v2 as v2

pytestmark = pytest.mark.live
OURS = str(64 << 20)


def text(driver: Cgroupfs, path: str, file: str) -> str:
    tree = driver.layout.tree_of(file.partition(".")[0])
    assert tree is not None
    return tree.read(path, file).strip()


def theirs(driver: Cgroupfs, path: str, file: str, value: str) -> None:
    tree = driver.layout.tree_of(file.partition(".")[0])
    if tree is None:
        pytest.skip(f"no {file} here")
    tree.write(path, file, value)


def test_a_frozen_cgroup_is_thawed_with_what_another_process_made_in_it(driver: Cgroupfs) -> None:
    journal = driver.journal = MemoryJournal()
    pod = f"{driver.root}/pod"
    good(driver, Step("create", f"{pod}/app"))
    # on v2 a signal that nobody handles ends a frozen process, too
    handled = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
    process = inside(driver, f"{pod}/app", handled)
    file, frozen, thawed = ("cgroup.freeze", "1", "0")
    if driver.hierarchy == "v1":
        file, frozen, thawed = ("freezer.state", "FROZEN", "THAWED")
    for path in (pod, f"{pod}/app"):
        theirs(driver, path, file, frozen)
    process.terminate()
    time.sleep(0.3)
    assert process.poll() is None
    seen = set[str]()
    assert lift(driver, journal.ledger, pod, frozen=seen, widened=set()) == [], (
        "a runtime may have, for a moment"
    )
    assert seen == {pod, f"{pod}/app"}
    said = lift(driver, journal.ledger, pod, frozen=seen, widened=set())
    assert said == [
        f"{path}: it was frozen, which kept it from ending; thawed it"
        for path in (pod, f"{pod}/app")
    ]
    assert process.wait(10) == 7
    assert text(driver, pod, file) == thawed
    assert lift(driver, journal.ledger, pod, frozen=seen, widened=set()) == []
    assert seen == set()


def test_a_cgroup_that_is_frozen_for_a_moment_is_left_alone(driver: Cgroupfs) -> None:
    journal = driver.journal = MemoryJournal()
    pod = f"{driver.root}/pod"
    good(driver, Step("create", pod))
    file, frozen, thawed = ("cgroup.freeze", "1", "0")
    if driver.hierarchy == "v1":
        file, frozen, thawed = ("freezer.state", "FROZEN", "THAWED")
    seen = set[str]()
    for value in (frozen, thawed, frozen):
        theirs(driver, pod, file, value)
        assert lift(driver, journal.ledger, pod, frozen=seen, widened=set()) == []
    assert text(driver, pod, file) == frozen


def test_what_others_froze_beside_the_pods_that_end_stays_frozen(driver: Cgroupfs) -> None:
    journal = driver.journal = MemoryJournal()
    pod, beside = f"{driver.root}/pod", f"{driver.root}/beside"
    good(driver, Step("create", pod))
    file, frozen = ("cgroup.freeze", "1")
    if driver.hierarchy == "v1":
        file, frozen = ("freezer.state", "FROZEN")
    tree = driver.layout.tree_of(file.partition(".")[0])
    if tree is None:
        pytest.skip(f"no {file} here")
    for path in (beside, f"{pod}/inner"):
        tree.mkdir(path)
    for path in (driver.root, pod, f"{pod}/inner", beside):
        theirs(driver, path, file, frozen)
    seen = {driver.root, pod, f"{pod}/inner", beside}
    said = lift(driver, journal.ledger, driver.root, {pod}, frozen=seen, widened=set())
    assert {line.partition(":")[0] for line in said} == {driver.root, pod, f"{pod}/inner"}
    assert text(driver, beside, file) == frozen
    tree.rmdir(beside)
    tree.rmdir(f"{pod}/inner")


def test_limits_tighter_than_ours_become_ours_and_others_the_kernels_on_v2(v2: Cgroupfs) -> None:
    journal = v2.journal = MemoryJournal()
    pod, other = f"{v2.root}/pod", f"{v2.root}/pod/other"
    tree = v2.layout.trees[0]
    if not {"memory", "pids", "cpu"} <= set(tree.read("/", "cgroup.controllers").split()):
        pytest.skip("the controllers are those of v1 here")
    good(v2, Step("create", pod), Step("set", pod, "memory.max", OURS))
    tree.mkdir(other)
    tree.write(pod, "cgroup.subtree_control", "+memory")
    tree.write(other, "memory.high", "8192")
    written = {
        "memory.high": ("4096", "max"),
        "memory.max": ("4096", OURS),
        "pids.max": ("0", "max"),
        "cpu.max": ("1000 1000000", "max 100000"),
    }
    for file, (value, _) in written.items():
        theirs(v2, pod, file, value)
    assert len(lift(v2, journal.ledger, pod, frozen=set(), widened=set())) == len(written)
    assert {file: text(v2, pod, file) for file in written} == {
        file: wanted for file, (_, wanted) in written.items()
    }
    assert text(v2, other, "memory.high") == "8192", "it is not ours"
    theirs(v2, pod, "memory.max", str(32 << 20))
    theirs(v2, pod, "cpu.max", "10000 100000")
    assert lift(v2, journal.ledger, pod, frozen=set(), widened=set()) == [], (
        "what leaves enough holds nobody back"
    )


def test_a_memory_limit_that_is_all_used_is_widened_where_an_end_is_overdue(
    driver: Cgroupfs,
) -> None:
    journal = driver.journal = MemoryJournal()
    pod, file, usage = f"{driver.root}/pod", "memory.max", "memory.current"
    if driver.hierarchy == "v1":
        file, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
    good(driver, Step("create", pod))
    try:
        text(driver, pod, usage)
    except FileNotFoundError:
        pytest.skip("no memory controller here")
    good(driver, Step("set", pod, file, str(16 << 20)))
    filled = "held = b'1' * (9 << 20)"
    process = inside(driver, pod, filled)
    until_used = time.monotonic() + 10
    while int(text(driver, pod, usage)) < 9 << 20:
        assert time.monotonic() < until_used
        time.sleep(0.05)
    ends = partial(lift, driver, journal.ledger, pod, frozen=set(), widened=set())
    assert ends(overdue=True) == [], "it has room"
    good(driver, Step("set", pod, file, str(int(text(driver, pod, usage)) + (64 << 10))))
    full = text(driver, pod, file)
    assert ends() == [], "it has time"
    assert text(driver, pod, file) == full
    (line,) = ends(overdue=True)
    assert line.startswith(f"{pod}: its {file} of {full} kept it from ending; set it to ")
    assert int(text(driver, pod, file)) >= int(text(driver, pod, usage)) + (12 << 20)
    theirs(driver, pod, file, str(int(full) + 4096))
    assert ends(overdue=True) == [], "who was not killed yet may go on taking memory"
    process.kill()
    process.wait(10)


def test_limits_tighter_than_ours_are_lifted_on_v1(v1: Cgroupfs) -> None:
    journal = v1.journal = MemoryJournal()
    pod = f"{v1.root}/pod"
    good(v1, Step("create", pod), Step("set", pod, "pids.max", "50"))
    theirs(v1, pod, "pids.max", "0")
    theirs(v1, pod, "cpu.cfs_quota_us", "1000")
    assert sorted(
        line.rpartition(" set it to ")[2]
        for line in lift(v1, journal.ledger, pod, frozen=set(), widened=set())
    ) == [
        "-1",
        "50",
    ]
    assert (text(v1, pod, "pids.max"), text(v1, pod, "cpu.cfs_quota_us")) == ("50", "-1")
