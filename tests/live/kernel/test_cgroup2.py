"""What only a v2 kernel does: types, limits on groups, controllers switched off above us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.core.audit.live import ReadRequest
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader
from tests.contract.drivers import Bench, real

pytestmark = pytest.mark.live


@pytest.fixture
def v2() -> Iterator[Bench]:
    with real("v2") as bench:
        yield bench


def point(bench: Bench) -> Path:
    assert isinstance(bench.driver, Cgroupfs)
    return Path(bench.driver.layout.trees[0].point + bench.root)


def refusal(bench: Bench, step: Step) -> tuple[str | None, str]:
    (outcome,) = bench.driver.perform([step])
    assert outcome.error is not None, step
    return outcome.errno_name, outcome.error


def done(bench: Bench, *steps: Step) -> None:
    assert [one.error for one in bench.driver.perform(steps) if one.error] == []


def test_a_threaded_group_is_refused_with_the_remedy(v2: Bench) -> None:
    threaded = point(v2) / "t"
    threaded.mkdir()
    (threaded / "cgroup.type").write_text("threaded")
    name, text = refusal(v2, Step("set", f"{v2.root}/t", "memory.max", "1048576"))
    assert name in ("ENOENT", "EOPNOTSUPP")
    assert "threaded" in text
    assert "all domains" in text
    (threaded / "x").mkdir()
    assert (threaded / "x/cgroup.type").read_text() == "domain invalid\n"
    child = subprocess.Popen(["sleep", "100"])
    try:
        name, text = refusal(v2, Step("attach", f"{v2.root}/t/x", pid=child.pid))
        assert (name, "domain invalid" in text) == ("EOPNOTSUPP", True)
        assert "all domains" in text
    finally:
        child.kill()
        child.wait()


def test_v2_threaded_groups_below_a_container_are_seen_and_removed(v2: Bench) -> None:
    """Their processes are listed in the domain above only."""
    done(v2, Step("create", f"{v2.root}/c"))
    for name in ("c/t", "c/t/x"):
        (point(v2) / name).mkdir()
        (point(v2) / name / "cgroup.type").write_text("threaded")
    child = subprocess.Popen(["sleep", "100"])
    try:
        (point(v2) / "c/cgroup.procs").write_text(str(child.pid))
        (point(v2) / "c/t/x/cgroup.threads").write_text(str(child.pid))
        seen = v2.observer.observe(v2.root).cgroups
        pids = {path.removeprefix(v2.root): group.pids for path, group in seen.items()}
        assert pids == {"": (), "/c": (child.pid,), "/c/t": (), "/c/t/x": ()}
        mounts = {"unified": str(point(v2)).removesuffix(v2.root)}
        request = ReadRequest((v2.root,), (), {}, (), frozenset())
        audited = CgroupReader("v2", mounts).read(request).cgroups.values()
        assert [(one.processes, one.unread) for one in audited] == [(n, {}) for n in (0, 1, 0, 0)]
    finally:
        child.kill()
        child.wait()
    v2.clear()
    assert not point(v2).exists()


@pytest.mark.parametrize(
    ("file", "allowed"), [("cgroup.max.descendants", 1), ("cgroup.max.depth", 1)]
)
def test_a_v2_limit_on_groups_is_said_and_nothing_is_half_made(file: str, allowed: int) -> None:
    with real("v2") as v2:
        (point(v2) / file).write_text(str(allowed))
        done(v2, Step("create", f"{v2.root}/a"))
        further = "a/b" if file.endswith("depth") else "b"
        name, text = refusal(v2, Step("create", f"{v2.root}/{further}"))
        assert (name, "cgroup.max.descendants or cgroup.max.depth" in text) == ("EAGAIN", True)
        assert "raise it there" in text
        assert f"{v2.root}/{further}" not in v2.observer.observe(v2.root).cgroups
        (point(v2) / file).write_text("max")
        done(v2, Step("create", f"{v2.root}/{further}"))


def test_v2_controllers_that_were_switched_off_above_are_enabled_again() -> None:
    with real("v2") as v2:
        path = f"{v2.root}/a"
        limit = Step("set", path, "memory.max", "8388608")
        done(v2, Step("create", path), limit)
        control = point(v2) / "cgroup.subtree_control"
        control.write_text("-memory")
        assert "memory.max" not in v2.observer.observe(v2.root).cgroups[path].values
        done(v2, limit, Step("set", path, "memory.high", "4194304"))
        seen = v2.observer.observe(v2.root).cgroups[path].values
        assert (seen["memory.max"], seen["memory.high"]) == ("8388608", "4194304")
        assert isinstance(v2.driver, Cgroupfs)
        assert v2.driver.notes == [
            f"{path}: an ancestor disabled a controller; it is enabled again"
        ]


def test_v2_controllers_that_cannot_be_enabled_again_are_said() -> None:
    with real("v2") as v2:
        path = f"{v2.root}/a"
        done(v2, Step("create", path))
        (point(v2) / "cgroup.subtree_control").write_text("-memory -cpu -cpuset -pids -hugetlb")
        pid = v2.processes.start(v2.root, 0)
        try:
            name, text = refusal(v2, Step("set", path, "memory.max", "8388608"))
            assert (name, "cgroup with processes" in text) == ("EBUSY", True)
            assert "move them into a sibling cgroup" in text
        finally:
            v2.processes.end(pid)
        done(v2, Step("set", path, "memory.max", "8388608"))


READ_ONLY = """
import sys
from qoslet.core.audit.live import ReadRequest
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader
hierarchy, root, *points = sys.argv[1:]
mounts = dict(one.split("=", 1) for one in points) if hierarchy == "v1" else points[0]
driver = Cgroupfs(hierarchy, mounts, root)
steps = [Step("create", root + "/b"), Step("set", root + "/a", "pids.max", "7")]
for outcome in (driver.perform([step])[0] for step in steps):
    print(outcome.errno_name, outcome.error)
print(driver.identity(root + "/b"))
"""


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_read_only_mount_is_said_and_leaves_nothing_half_made(hierarchy, tmp_path: Path) -> None:
    """A read-only view of the hierarchy, in a mount namespace of its own; on v1 only that of
    ``pids`` is read-only, so the others have to be rolled back."""
    with real(hierarchy) as bench:
        done(bench, Step("create", f"{bench.root}/a"))
        assert isinstance(bench.driver, Cgroupfs)
        tree = bench.driver.layout.tree_of("pids")
        assert tree is not None
        view = tmp_path / "view"
        view.mkdir()
        points = [str(view)]
        if hierarchy == "v1":
            names = {one: bench.driver.layout.tree_of(one) for one in ("memory", "cpu")}
            points = [f"{name}={one.point}" for name, one in names.items() if one is not None]
            points.append(f"pids={view}")
        mount = f"mount --bind {tree.point} {view} && mount -o remount,bind,ro {view} && "
        command = [
            "unshare",
            "-m",
            "--propagation",
            "private",
            "sh",
            "-c",
            mount + 'exec "$@"',
            "sh",
        ]
        import sys

        made = subprocess.run(
            [*command, sys.executable, "-c", READ_ONLY, hierarchy, bench.root, *points],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        create, value, identity = made.stdout.splitlines()
        assert create.startswith("EROFS"), made
        assert value.startswith("EROFS"), made
        assert "mounted read-only" in create, create
        assert identity == "None", "rolled back"
