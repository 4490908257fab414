"""The cgroupfs driver and the observer on this machine's kernel, below groups of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import Created, CreateIntent, Entry, Removed, Set
from qoslet.core.reconcile.steps import Step
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.state.journal_file import claim
from tests.live.kernel.cgroupfs import driver as driver
from tests.live.kernel.cgroupfs import (
    ended,
    error_of,
    eyes,
    good,
    inside,
    place,
    v1_mounts,
    v2_point,
)
from tests.live.kernel.cgroupfs import root as root
from tests.live.kernel.cgroupfs import v1 as v1
from tests.live.kernel.cgroupfs import v2 as v2

pytestmark = pytest.mark.live


def test_a_group_is_made_in_every_hierarchy_and_removed(v1: Cgroupfs) -> None:
    path = f"{v1.root}/pods/one"
    good(v1, Step("create", path))
    for controller in ("cpu", "cpuacct", "cpuset", "memory", "pids", "freezer"):
        assert Path(f"/sys/fs/cgroup/{controller}{path}").is_dir()
    for file in ("cpuset.cpus", "cpuset.mems"):
        above = Path(f"/sys/fs/cgroup/cpuset/{file}").read_text()
        assert Path(f"/sys/fs/cgroup/cpuset{path}/{file}").read_text() == above
    good(v1, Step("create", path))
    good(v1, Step("remove", path), Step("remove", path))
    assert path not in eyes(v1).observe(v1.root).cgroups


def test_values_are_written_and_read(v1: Cgroupfs) -> None:
    path = f"{v1.root}/a"
    good(
        v1,
        Step("create", path),
        Step("set", path, "cpu.shares", "512"),
        Step("set", path, "cpu.cfs_period_us", "50000"),
        Step("set", path, "cpu.cfs_quota_us", "20000"),
        Step("set", path, "memory.limit_in_bytes", "10000000"),
        Step("set", path, "pids.max", "100"),
        Step("set", path, "cpuset.cpus", "0"),
    )
    files = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes", "pids.max", "cpuset.cpus")
    huge = "hugetlb.2MB.limit_in_bytes"
    seen = eyes(v1, *files, huge).observe(v1.root).cgroups
    assert list(seen) == [v1.root, path]
    values = dict(seen[path].values)
    limit = Path(f"{v1_mounts().get('hugetlb', '/absent')}{path}/{huge}")
    assert values.pop(huge, None) == (limit.read_text().strip() if limit.exists() else None)
    assert values == dict(zip(files, ("512", "20000", "9998336", "100", "0"), strict=True))
    assert seen[path].identity == v1.identity(path) != seen[v1.root].identity
    assert seen[path].usage_usec == 0
    assert seen[path].memory is not None
    assert seen[path].oom_kills == 0
    assert eyes(v1).observe(f"{v1.root}-absent").cgroups == {}


def test_cpus_narrowed_above_are_what_new_groups_below_get(v1: Cgroupfs) -> None:
    good(
        v1,
        Step("create", f"{v1.root}/a"),
        Step("create", f"{v1.root}/a/early"),
        Step("set", f"{v1.root}/a/early", "cpuset.cpus", "0"),
        Step("set", f"{v1.root}/a", "cpuset.cpus", "0"),
        Step("create", f"{v1.root}/a/late"),
    )
    seen = eyes(v1, "cpuset.cpus").observe(v1.root).cgroups
    assert seen[f"{v1.root}/a/late"].values == {"cpuset.cpus": "0"}


def test_the_kernel_gives_new_groups_below_the_root_its_cpus(v1: Cgroupfs) -> None:
    good(v1, Step("create", f"{v1.root}/a"), Step("set", f"{v1.root}/a", "cpuset.cpus", "0"))
    other = Path(f"{place('cpuset')}{v1.root}/a/other")
    other.mkdir()
    assert (other / "cpuset.cpus").read_text() == "0\n"
    other.rmdir()


def test_a_root_that_does_not_give_cpus_is_copied_from(v1: Cgroupfs) -> None:
    good(v1, Step("create", v1.root))
    Path(f"{place('cpuset')}{v1.root}/cgroup.clone_children").write_text("0")
    anew = Cgroupfs("v1", v1_mounts(), v1.root)
    good(anew, Step("create", f"{v1.root}/a/b"))
    seen = eyes(v1, "cpuset.cpus", "cpuset.mems").observe(v1.root).cgroups
    assert all(seen[f"{v1.root}/a/b"].values.values())


def test_a_partly_missing_group_is_seen_and_completed(v1: Cgroupfs) -> None:
    path = f"{v1.root}/a"
    good(v1, Step("create", path))
    cpu = place("cpu")
    Path(f"{cpu}{path}").rmdir()
    together = {one for one in ("cpu", "cpuacct") if place(one) == cpu}
    assert {*eyes(v1).observe(v1.root).cgroups[path].missing} == together
    good(v1, Step("create", path))
    assert eyes(v1).observe(v1.root).cgroups[path].missing == ()


def test_what_is_left_in_one_hierarchy_is_found_and_removed(v1: Cgroupfs) -> None:
    path = f"{v1.root}/a"
    good(v1, Step("create", path))
    Path(f"/sys/fs/cgroup/memory{path}").rmdir()
    assert path not in eyes(v1).observe(v1.root).cgroups
    assert path in eyes(v1).observe(v1.root, values=False).cgroups
    good(v1, Step("remove", path))
    assert not Path(f"/sys/fs/cgroup/cpu{path}").exists()


def test_one_refusal_rolls_back_every_hierarchy(v1: Cgroupfs) -> None:
    bare = f"{v1.root}/bare"
    good(v1, Step("create", v1.root))
    Path(f"{place('cpuset')}{v1.root}/cgroup.clone_children").write_text("0")
    for point in {place(one) for one in ("cpu", "cpuacct", "cpuset", "memory", "pids", "freezer")}:
        Path(f"{point}{bare}").mkdir()
    fresh = Cgroupfs("v1", v1_mounts(), f"{bare}/sub")
    text, _ = error_of(fresh, Step("create", f"{bare}/sub"))
    assert "cpuset.cpus or cpuset.mems is empty" in text
    assert fresh.below(fresh.root) == []


def test_v2_gives_controllers_down_to_the_parent(v2: Cgroupfs) -> None:
    path = f"{v2.root}/a/b"
    good(v2, Step("create", path))
    point = v2_point()
    there = set(Path(f"{point}/cgroup.controllers").read_text().split())
    given = Path(f"{point}{v2.root}/a/cgroup.subtree_control").read_text().split()
    assert set(given) == there & {"cpu", "cpuset", "hugetlb", "memory", "pids"}
    seen = eyes(v2).observe(v2.root).cgroups
    assert list(seen) == [v2.root, f"{v2.root}/a", path]
    assert seen[path].usage_usec == 0


def test_v2_says_why_a_group_with_processes_gives_nothing(v2: Cgroupfs) -> None:
    if not Path(f"{v2_point()}/cgroup.controllers").read_text().split():
        pytest.skip("this v2 hierarchy has no controllers")
    good(v2, Step("create", v2.root))
    process = inside(v2, v2.root, "")
    text, name = error_of(v2, Step("create", f"{v2.root}/a"))
    assert name == "EBUSY"
    assert "cgroup with processes" in text
    process.kill()
    ended(process)


def test_a_limit_below_usage_is_refused_and_explained(v1: Cgroupfs) -> None:
    path = f"{v1.root}/a"
    good(v1, Step("create", path))
    process = inside(v1, path, "held = bytearray(b'x' * (32 << 20))")
    text, name = error_of(
        v1,
        Step("set", path, "cpu.shares", "256"),
        Step("set", path, "memory.limit_in_bytes", "1048576"),
        Step("set", path, "cpu.shares", "128"),
    )
    assert name == "EBUSY"
    assert text.startswith(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes refuses '1048576'")
    assert "uses more than that" in text
    assert eyes(v1, "cpu.shares").observe(v1.root).cgroups[path].values == {"cpu.shares": "256"}
    process.kill()
    ended(process)


@pytest.mark.parametrize(
    ("file", "value", "name", "meaning"),
    [
        ("cpu.cfs_quota_us", "1", "EINVAL", "below 1 ms"),
        ("memory.memsw.limit_in_bytes", "4096", "EINVAL", "raise memsw first"),
        ("cpuset.cpus", "4095", "EINVAL", "takes no such value"),
        ("memory.high", "1", "ENOENT", "does not exist, in this kernel or below this parent"),
    ],
)
def test_refusals_say_what_they_mean(
    v1: Cgroupfs, file: str, value: str, name: str, meaning: str
) -> None:
    path = f"{v1.root}/a"
    good(v1, Step("create", path), Step("set", path, "memory.limit_in_bytes", "1048576"))
    text, errno_name = error_of(v1, Step("set", path, file, value))
    assert errno_name in (name, "ERANGE")
    assert meaning in text or errno_name == "ERANGE"
    assert f"{path}/{file}" in text


def test_a_child_keeps_its_parents_cpus(v1: Cgroupfs) -> None:
    good(v1, Step("create", f"{v1.root}/a"), Step("set", v1.root, "cpuset.cpus", "0-1"))
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one CPU")
    text, name = error_of(v1, Step("set", v1.root, "cpuset.cpus", "0"))
    assert (name, "a child cgroup uses more" in text) == ("EBUSY", True)


def test_a_group_removed_and_made_by_others_is_met_anew(v1: Cgroupfs) -> None:
    path = f"{v1.root}/a"
    good(v1, Step("create", path), Step("set", path, "cpu.shares", "256"))
    group = Path(f"/sys/fs/cgroup/cpu{path}")
    group.rmdir()
    text, name = error_of(v1, Step("set", path, "cpu.shares", "256"))
    assert (name, "does not exist" in text) == ("ENOENT", True)
    group.mkdir()
    good(v1, Step("set", path, "cpu.shares", "300"))
    assert (group / "cpu.shares").read_text() == "300\n"
    for tree in v1.layout.trees:
        Path(f"{tree.point}{path}").rmdir()
        Path(f"{tree.point}{v1.root}").rmdir()
    assert v1.identity(path) is None
    good(v1, Step("create", f"{path}/b"))


class Memory:
    """A journal that is kept in memory."""

    def __init__(self, fails: bool = False, before: bool = False) -> None:
        self.entries: list[Entry] = []
        self.fails = fails
        self.wants_before = before

    def record(self, entries: Sequence[Entry]) -> None:
        if self.fails:
            raise CannotDo("the disk is full")
        self.record_later(entries)

    def record_later(self, entries: Sequence[Entry]) -> None:
        self.entries += entries


def test_nothing_is_done_that_was_not_written_down_first(v1: Cgroupfs) -> None:
    journal = v1.journal = Memory(before=True)
    path = f"{v1.root}/a"
    good(v1, Step("create", path), Step("set", path, "cpu.shares", "256"))
    inodes = {name: v1.identity(name) for name in (v1.root, path)}
    assert journal.entries == [
        CreateIntent(v1.root),
        CreateIntent(path),
        Set(path, "cpu.shares", None, "256"),
        Created(v1.root, inodes[v1.root] or 0),
        Created(path, inodes[path] or 0),
    ]
    outcome = v1.perform([Step("set", path, "cpu.shares", "300")])[0]
    assert outcome.before == "256"
    good(v1, Step("remove", path))
    assert journal.entries[-3:] == [
        Set(path, "cpu.shares", "256", "300"),
        Removed(path),
        Removed(path, done=True),
    ]
    v1.journal = Memory(fails=True)
    text, _ = error_of(v1, Step("create", path))
    assert "nothing done" in text
    assert v1.identity(path) is None


def test_a_dead_runs_tree_is_cleaned_and_a_foreign_one_refused(
    driver: Cgroupfs, tmp_path: Path
) -> None:
    state = str(tmp_path / "state")
    leaf = f"{driver.root}/pods/one"
    first = claim(driver.root, driver, state=state)
    driver.journal = first
    good(driver, Step("create", leaf))
    process = inside(driver, leaf, "")
    first.close(gone=False)
    driver.journal = None

    second = claim(driver.root, driver, state=state)
    who = f"a previous run (process {os.getpid()})"
    assert second.notes == [f"{driver.root}: removed 3 cgroups and ended 1 process that {who} left"]
    ended(process)
    assert driver.below(driver.root) == []
    second.close(gone=True)

    stranger = Cgroupfs(
        driver.hierarchy, v1_mounts() if driver.hierarchy == "v1" else v2_point(), driver.root
    )
    good(stranger, Step("create", leaf))
    with pytest.raises(CannotDo, match="no qoslet journal has it"):
        claim(driver.root, driver, state=state)
    assert driver.identity(leaf) is not None
