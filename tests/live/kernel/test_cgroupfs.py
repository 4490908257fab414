"""The cgroupfs driver and the observer on this machine's kernel, below groups of their own."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import Created, CreateIntent, Entry, Removed, Set
from qoslet.core.reconcile.steps import Step
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observer import CgroupObserver
from qoslet.host.machine.probe import mounts, probe
from qoslet.host.state.journal_file import claim

pytestmark = pytest.mark.live

STARTED: list[subprocess.Popen[bytes]] = []


def without_kernel(why: str) -> None:
    """Fail, or skip where the owner of the machine said that it has no kernel to write to."""
    if os.environ.get("QOSLET_NO_KERNEL") == "1":
        pytest.skip(f"QOSLET_NO_KERNEL: {why}")
    pytest.fail(f"{why}; set QOSLET_NO_KERNEL=1 to leave these tests out")


def v1_mounts() -> dict[str, str]:
    facts = probe()
    if os.geteuid() != 0 or facts.hierarchy != "v1":
        without_kernel(
            f"needs root and cgroup v1, this is user {os.geteuid()} on {facts.hierarchy}"
        )
    return dict(facts.mounts or {})


def place(controller: str) -> str:
    """Where a v1 controller is mounted; systemd mounts some of them together."""
    return os.path.realpath(v1_mounts()[controller])


def v2_point() -> str:
    points = [mount.point for mount in mounts() if mount.type == "cgroup2"]
    if os.geteuid() != 0 or not points:
        without_kernel("needs root and a cgroup2 mount")
    return points[0]


def cleaned(driver: Cgroupfs) -> None:
    driver.journal = None
    driver.kill(driver.root)
    while STARTED:
        ended(STARTED.pop())
    for path in driver.below(driver.root):
        assert driver.perform([Step("remove", path)])[0].error is None
    driver.close()


@pytest.fixture
def root() -> str:
    return f"/qoslet-test-{secrets.token_hex(4)}"


@pytest.fixture
def v1(root: str) -> Iterator[Cgroupfs]:
    driver = Cgroupfs("v1", v1_mounts(), root)
    yield driver
    cleaned(driver)


@pytest.fixture
def v2(root: str) -> Iterator[Cgroupfs]:
    driver = Cgroupfs("v2", v2_point(), root)
    yield driver
    cleaned(driver)


@pytest.fixture(params=["v1", "v2"])
def driver(request: pytest.FixtureRequest) -> Cgroupfs:
    found: Cgroupfs = request.getfixturevalue(request.param)
    return found


def ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was killed."""
    process.wait(timeout=10)
    if process.stdout is not None:
        process.stdout.close()


def eyes(driver: Cgroupfs, *files: str) -> CgroupObserver:
    where = v1_mounts() if driver.hierarchy == "v1" else v2_point()
    return CgroupObserver(driver.hierarchy, where, files or None)


def good(driver: Cgroupfs, *steps: Step) -> None:
    wrong = [outcome.error for outcome in driver.perform(steps) if outcome.error]
    assert not wrong


def error_of(driver: Cgroupfs, *steps: Step) -> tuple[str, str | None]:
    outcome = driver.perform(steps)[-1]
    assert outcome.error is not None
    return outcome.error, outcome.errno_name


def inside(driver: Cgroupfs, path: str, code: str) -> subprocess.Popen[bytes]:
    """A Python process that joined the group before it ran ``code``, which is done now."""
    return started_inside(driver, path, code)[0]


def started_inside(driver: Cgroupfs, path: str, code: str) -> tuple[subprocess.Popen[bytes], bytes]:
    """The same, with the first line that it said."""
    descriptors = driver.join_fds(path)

    def join() -> None:
        for descriptor in descriptors:
            os.write(descriptor, b"0")

    process = subprocess.Popen(
        [sys.executable, "-c", code + "\nprint(1, flush=True)\nimport time; time.sleep(300)"],
        stdout=subprocess.PIPE,
        preexec_fn=join,
        pass_fds=descriptors,
    )
    STARTED.append(process)
    for descriptor in descriptors:
        os.close(descriptor)
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said
    return process, said


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


def test_a_group_with_cloned_children_needs_no_copy(v1: Cgroupfs) -> None:
    good(v1, Step("create", v1.root))
    Path(f"/sys/fs/cgroup/cpuset{v1.root}/cgroup.clone_children").write_text("1")
    good(v1, Step("create", f"{v1.root}/a/b"))
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
    assert second.notes == [f"{driver.root}: removed 3 groups and ended 1 process that {who} left"]
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
