"""The cgroupfs driver and the observer on declared trees: no kernel, so every fault can be made."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import CreateIntent, Entry, Removed
from qoslet.core.reconcile.steps import Step
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.linux.openat import FEW, KEPT, checked, file_name

V2_FILES = {
    "cgroup.controllers": "cpuset cpu io memory pids rdma\n",
    "cgroup.subtree_control": "",
    "cgroup.procs": "",
    "cpu.stat": "usage_usec 1500\nuser_usec 1\nthrottled_usec 20\n",
    "cpu.weight": "",
    "memory.current": "4096\n",
    "memory.peak": "8192\n",
    "memory.events": "low 0\nmax 3\noom 2\noom_kill 1\n",
    "memory.max": "max\n",
}
V1 = ("cpu", "cpuset", "memory")


def v2_group(point: Path, path: str) -> Path:
    folder = point / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in V2_FILES.items():
        (folder / file).write_text(text)
    return folder


@pytest.fixture
def v2(tmp_path: Path) -> Cgroupfs:
    for path in ("", "/q", "/q/a"):
        v2_group(tmp_path, path)
    return Cgroupfs("v2", str(tmp_path), "/q")


@pytest.fixture
def v1(tmp_path: Path) -> Cgroupfs:
    for controller in V1:
        (tmp_path / controller / "q").mkdir(parents=True)
    for folder in (tmp_path / "cpuset", tmp_path / "cpuset" / "q"):
        for file, text in (("cpus", "0-3\n"), ("mems", "0\n")):
            (folder / f"cpuset.{file}").write_text(text)
        (folder / "cgroup.clone_children").write_text("1\n")
    return Cgroupfs("v1", {name: str(tmp_path / name) for name in V1}, "/q")


def error_of(driver: Cgroupfs, step: Step) -> str:
    outcome = driver.perform([step])[0]
    assert outcome.error is not None
    return outcome.error


def test_v2_gives_each_group_above_what_it_has(v2: Cgroupfs, tmp_path: Path) -> None:
    assert v2.perform([Step("create", "/q/a/b")])[0].error is None
    for path in ("", "q", "q/a"):
        written = (tmp_path / path / "cgroup.subtree_control").read_text()
        assert written == "+cpuset +cpu +memory +pids"
    assert not (tmp_path / "q/a/b/cgroup.subtree_control").exists()


def test_v2_leaves_alone_what_is_given_already(v2: Cgroupfs, tmp_path: Path) -> None:
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("cpu cpuset io memory pids\n")
    control.chmod(0o444)
    (tmp_path / "q/cgroup.subtree_control").write_text("cpu memory\n")
    v2.perform([Step("create", "/q/a/b")])
    assert control.read_text() == "cpu cpuset io memory pids\n"
    assert (tmp_path / "q/cgroup.subtree_control").read_text() == "+cpuset +pids"


def test_v2_enables_one_by_one_where_all_at_once_is_refused(
    v2: Cgroupfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def write(path: str, file: str, value: str) -> None:
        if "cpuset" in value:
            raise OSError(errno.EBUSY, "busy")
        written.append(value)

    monkeypatch.setattr(v2.layout.trees[0], "write", write)
    text = error_of(v2, Step("create", "/q/a/b"))
    assert written == ["+cpu", "+memory", "+pids"]
    assert "cgroup.subtree_control refuses '+cpuset' with EBUSY" in text
    assert "cgroup with processes" in text


def test_v2_is_observed(v2: Cgroupfs, tmp_path: Path) -> None:
    (tmp_path / "q/a/cgroup.procs").write_text("12\n0\n")
    (tmp_path / "q/a/hugetlb.2MB.max").write_text("0\n")
    eyes = CgroupObserver("v2", str(tmp_path), ("memory.max", "memory.high", "hugetlb.2MB.max"))
    seen = eyes.observe("/q")
    assert list(seen.cgroups) == ["/q", "/q/a"]
    group = seen.cgroups["/q/a"]
    assert group.values == {"memory.max": "max", "hugetlb.2MB.max": "0"}
    assert (group.usage_usec, group.throttled_usec) == (1500, 20)
    assert (group.memory, group.memory_peak, group.oom_kills) == (4096, 8192, 1)
    assert group.pids == (12, 0)
    assert group.identity == (tmp_path / "q/a").stat().st_ino
    bare = eyes.observe("/q", values=False).cgroups["/q/a"]
    assert (bare.values, bare.memory, bare.pids) == ({}, None, (12, 0))
    assert eyes.observe("/absent").cgroups == {}


def test_v1_is_observed_and_completed(v1: Cgroupfs, tmp_path: Path) -> None:
    mounts = {name: str(tmp_path / name) for name in V1}
    for name in V1:
        (tmp_path / name / "q/cgroup.procs").write_text("")
    (tmp_path / "cpu/q").rename(tmp_path / "cpu/away")
    assert CgroupObserver("v1", mounts).observe("/q").cgroups["/q"].missing == ("cpu",)
    assert v1.perform([Step("create", "/q")])[0].error is None
    assert CgroupObserver("v1", mounts).observe("/q").cgroups["/q"].missing == ()


def test_controllers_on_one_mount_are_one_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "cpu,cpuacct").mkdir()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    mounts = {"cpu": str(tmp_path / "cpu"), "cpuacct": str(tmp_path / "cpu,cpuacct")}
    driver = Cgroupfs("v1", {**mounts, "blkio": "/nowhere"}, "/q")
    assert [tree.point for tree in driver.layout.trees] == [str(tmp_path / "cpu,cpuacct")]
    assert driver.layout.controllers_of(driver.layout.trees[0]) == ("cpu", "cpuacct")
    text = error_of(driver, Step("set", "/q", "memory.limit_in_bytes", "1"))
    assert "controller memory is not mounted" in text


def test_nothing_mounted_is_said() -> None:
    with pytest.raises(CannotDo, match="no cgroup v1 controller"):
        Cgroupfs("v1", {}, "/q")
    with pytest.raises(CannotDo, match="root of the hierarchy cannot"):
        Cgroupfs("v2", "/nowhere", "/")


@pytest.mark.parametrize(
    "path", ["", "q", "//q", "/q/", "/q//a", "/q/.", "/q/../x", "/q/a\0b", "/x", "/qq", "/"]
)
@pytest.mark.parametrize("kind", ["create", "set", "attach", "remove"])
def test_nothing_outside_the_root_is_touched(v2: Cgroupfs, path: str, kind: str) -> None:
    step = Step(kind, path, "memory.max", "1", pid=99)  # type: ignore[arg-type]
    text = error_of(v2, step)
    assert "plain path" in text or "begin with" in text or "not below" in text


@pytest.mark.parametrize(
    "file", ["", "..", "../memory.max", "cgroup.procs", "hugetlb.2MB/../../x", "release_agent"]
)
def test_only_known_settings_are_written(v2: Cgroupfs, file: str) -> None:
    text = error_of(v2, Step("set", "/q/a", file, "1"))
    assert "not a known cgroup file" in text or "not a file name" in text


def test_further_files_may_be_named(tmp_path: Path) -> None:
    folder = v2_group(tmp_path, "/q")
    (folder / "cpu.uclamp.min").write_text("")
    driver = Cgroupfs("v2", str(tmp_path), "/q", files=("cpu.uclamp.min",))
    assert driver.perform([Step("set", "/q", "cpu.uclamp.min", "5")])[0].error is None


@pytest.mark.parametrize("link", ["q/a", "q"])
@pytest.mark.parametrize("kind", ["create", "set"])
def test_a_link_in_the_path_is_refused(tmp_path: Path, link: str, kind: str) -> None:
    outside = v2_group(tmp_path / "outside", "/a/b").parent
    v2_group(tmp_path / "outside", "/a")
    point = tmp_path / "point"
    v2_group(point, "")
    if link == "q/a":
        v2_group(point, "/q")
    (point / link).symlink_to(outside if link == "q/a" else outside.parent)
    driver = Cgroupfs("v2", str(point), "/q")
    path = "/q/a/c" if kind == "create" else "/q/a/b"
    text = error_of(driver, Step(kind, path, "memory.max", "1"))  # type: ignore[arg-type]
    assert "link" in text
    assert (outside / "b/memory.max").read_text() == "max\n"
    assert not (outside / "c").exists()
    assert list(CgroupObserver("v2", str(point)).observe("/q/a").cgroups) == []


def test_a_linked_file_is_refused(v2: Cgroupfs, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "q/a/memory.max").unlink()
    (tmp_path / "q/a/memory.max").symlink_to(victim)
    assert "ELOOP" in error_of(v2, Step("set", "/q/a", "memory.max", "1"))
    assert victim.read_text() == "kept"


def test_a_read_only_mount_is_explained(v2: Cgroupfs, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdir(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(os, "mkdir", mkdir)
    outcome = v2.perform([Step("create", "/q/a/b")])[0]
    assert outcome.errno_name == "EROFS"
    assert "mounted read-only" in (outcome.error or "")


def test_one_hierarchy_that_refuses_leaves_none(
    v1: Cgroupfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir
    made: list[str] = []

    def mkdir(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if len(made) == 2:
            raise OSError(errno.ENOSPC, "full")
        made.append(name)
        real(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    outcome = v1.perform([Step("create", "/q/a")])[0]
    assert outcome.errno_name == "ENOSPC"
    assert "no ID left" in (outcome.error or "")
    assert len(made) == 2
    assert not [name for name in V1 if (tmp_path / name / "q/a").exists()]


def test_a_failure_ends_the_batch(v2: Cgroupfs, tmp_path: Path) -> None:
    steps = [
        Step("set", "/q/a", "cpu.weight", "5"),
        Step("set", "/q/a", "memory.min", "1"),
        Step("set", "/q/a", "cpu.weight", "6"),
    ]
    outcomes = v2.perform(steps)
    assert [outcome.errno_name for outcome in outcomes] == [None, "ENOENT"]
    assert (tmp_path / "q/a/cpu.weight").read_text() == "5"


class Book:
    """A journal made of values."""

    wants_before = False

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def record(self, entries: Sequence[Entry]) -> None:
        self.entries += entries

    record_later = record


def test_a_batch_names_each_group_that_it_makes_once(v2: Cgroupfs) -> None:
    book = Book()
    v2.journal = book
    paths = ["/q/a/b", "/q/a/c", "/q/a/b"]
    v2.perform([Step("create", paths[0]), Step("create", paths[1]), Step("remove", paths[0]),
                Step("create", paths[2])])  # fmt: skip
    intents = [CreateIntent("/q/a/b"), CreateIntent("/q/a/c")]
    assert book.entries[:4] == [*intents, Removed("/q/a/b"), CreateIntent("/q/a/b")]
    book.entries.clear()
    v2.perform([Step("remove", paths[1]), Step("create", paths[1])])
    assert book.entries[:2] == [Removed("/q/a/c"), CreateIntent("/q/a/c")]


def test_the_shell_lines_are_quoted(v1: Cgroupfs, v2: Cgroupfs, tmp_path: Path) -> None:
    def line(driver: Cgroupfs, step: Step) -> str:
        return driver.shell(step).replace(str(tmp_path), "/T")

    assert line(v2, Step("create", "/q/a/$x")) == (
        "printf %s '+cpuset +cpu +memory +pids' > /T/q/a/cgroup.subtree_control"
        " && mkdir -p '/T/q/a/$x'"
    )
    assert line(v2, Step("set", "/q/a", "cpu.max", "max 100000")) == (
        "printf %s 'max 100000' > /T/q/a/cpu.max"
    )
    assert line(v2, Step("set", "/q/a", "cpuset.cpus", "")) == (r"printf '\n' > /T/q/a/cpuset.cpus")
    assert line(v1, Step("remove", "/q/a")) == "rmdir /T/memory/q/a /T/cpu/q/a /T/cpuset/q/a"
    assert line(v1, Step("attach", "/q", pid=7)) == (
        "printf %s 7 | tee /T/memory/q/cgroup.procs /T/cpu/q/cgroup.procs"
        " /T/cpuset/q/cgroup.procs > /dev/null"
    )
    assert line(v1, Step("create", "/q/a")) == (
        "mkdir -p /T/memory/q/a /T/cpu/q/a /T/cpuset/q/a"
        ' && printf %s "$(cat /T/cpuset/q/cpuset.cpus)" > /T/cpuset/q/a/cpuset.cpus'
        ' && printf %s "$(cat /T/cpuset/q/cpuset.mems)" > /T/cpuset/q/a/cpuset.mems'
    )


def descriptors_of(folders: set[tuple[int, int]]) -> int:
    """How many descriptors of this process are open on these directories, by device and inode."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            facts = os.fstat(int(name))
        except OSError:
            continue
        found += (facts.st_dev, facts.st_ino) in folders
    return found


def test_more_groups_than_descriptors(tmp_path: Path) -> None:
    names = [f"g{number}" for number in range(KEPT + 12)]
    folders = set()
    for folder in (tmp_path, tmp_path / "q", *(tmp_path / "q" / name for name in names)):
        folder.mkdir(exist_ok=True)
        for file in ("cgroup.procs", "cpu.weight"):
            (folder / file).write_text("")
        folders.add((folder.stat().st_dev, folder.stat().st_ino))
    driver = Cgroupfs("v2", str(tmp_path), "/q")
    steps = [Step("set", f"/q/{name}", "cpu.weight", "9") for name in names]
    assert [one.error for one in driver.perform(steps)] == [None] * len(names)
    assert descriptors_of(folders) == KEPT + 1
    driver.close()
    assert descriptors_of(folders) == 0
    eyes = CgroupObserver("v2", str(tmp_path))
    assert len(eyes.observe("/q").cgroups) == len(names) + 1
    for name in names:
        (tmp_path / "q" / name / "inner").mkdir()
        (tmp_path / "q" / name / "inner" / "cgroup.procs").write_text("")
        assert eyes.read_cgroup(f"/q/{name}/inner") is not None
    assert descriptors_of(folders) <= FEW + 1
    eyes.close()
    assert descriptors_of(folders) == 0


def test_a_reader_looks_where_a_group_is_now(tmp_path: Path) -> None:
    inner = tmp_path / "q" / "pod" / "inner"
    eyes = CgroupObserver("v2", str(tmp_path))
    seen = []
    for _ in range(3):
        inner.mkdir(parents=True)
        (inner / "cgroup.procs").write_text("")
        found = eyes.read_cgroup("/q/pod/inner")
        assert found is not None
        seen.append(found.identity)
        assert eyes.read_cgroup("/q/pod/other") is None
        (tmp_path / "q").rename(tmp_path / f"gone{len(seen)}")
        assert eyes.read_cgroup("/q/pod/other") is None
        (tmp_path / f"gone{len(seen)}/pod/inner").rename(tmp_path / f"inner{len(seen)}")
    assert len(set(seen)) == 3, "each is the one that stood there"
    eyes.close()


def test_a_tree_that_was_removed_and_made_anew_is_the_new_one(v2: Cgroupfs, tmp_path: Path) -> None:
    eyes = CgroupObserver("v2", str(tmp_path))
    v2.perform([Step("set", "/q/a", "cpu.weight", "5")])
    before = eyes.observe("/q").cgroups["/q/a"].identity
    (tmp_path / "q").rename(tmp_path / "old")
    (tmp_path / "old/a").rename(tmp_path / "olda")
    assert eyes.observe("/q").cgroups == {}
    assert v2.identity("/q/a") is None
    v2_group(tmp_path, "/q")
    v2_group(tmp_path, "/q/a")
    assert v2.identity("/q/a") == eyes.observe("/q").cgroups["/q/a"].identity != before
    assert v2.below("/q") == ["/q/a", "/q"]


@pytest.mark.parametrize("path", ["a", "", "/a/", "/a//b", "/./a", "/a/..", "/a\0"])
def test_plain_paths_only(path: str) -> None:
    with pytest.raises(ValueError, match=r"plain path|begin with"):
        checked(path)


def test_names_and_paths_that_are_plain_stay() -> None:
    assert checked("/a/..b") == "/a/..b"
    assert checked("/") == ""
    assert file_name("memory.max") == "memory.max"
