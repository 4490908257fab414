"""Groups below a group, in hierarchies that may differ: none is overlooked for the sake of speed."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.linux.openat import MountedTree

V1 = ("memory", "cpu")


def observed(tmp_path: Path, memory: tuple[str, ...], cpu: tuple[str, ...]) -> list[str]:
    """The paths below /q; names ending in ``.file`` are files of that hierarchy, no groups."""
    for controller, names in zip(V1, (memory, cpu), strict=True):
        top = tmp_path / controller / "q"
        for folder in (top, *(top / name for name in names if not name.endswith(".file"))):
            folder.mkdir(parents=True)
            (folder / "cgroup.procs").write_text("")
        for name in names:
            if name.endswith(".file"):
                (top / name.removesuffix(".file")).write_text("")
    observer = CgroupObserver("v1", {name: str(tmp_path / name) for name in V1})
    return sorted(observer.observe("/q", values=False).cgroups)


@pytest.mark.parametrize(
    ("memory", "cpu", "names"),
    [
        (("a", "b"), ("a", "b"), ["a", "b"]),
        (("a",), ("b",), ["a", "b"]),
        ((), ("b",), ["b"]),
        (("a",), (), ["a"]),
        (("a",), ("a.file", "b"), ["a", "b"]),
        (tuple(f"g{n}" for n in range(9)), ("g0",), [f"g{n}" for n in range(9)]),
    ],
)
def test_groups_of_every_hierarchy_are_observed(
    tmp_path: Path, memory: tuple[str, ...], cpu: tuple[str, ...], names: list[str]
) -> None:
    assert observed(tmp_path, memory, cpu) == ["/q", *(f"/q/{name}" for name in names)]


def nest(top: Path, name: str, depth: int) -> None:
    """Groups in one another, as whoever is in a cgroup may make them."""
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("cgroup.procs", os.O_CREAT, dir_fd=at))
        os.mkdir(name, dir_fd=at)
        at, above = os.open(name, os.O_RDONLY, dir_fd=at), at
        os.close(above)
    os.close(os.open("cgroup.procs", os.O_CREAT, dir_fd=at))
    os.close(at)


@pytest.mark.parametrize(("name", "depth"), [("d", 1200), ("n" * 200, 40)])
def test_groups_are_observed_however_deep_they_are(tmp_path: Path, name: str, depth: int) -> None:
    for controller in V1:
        (tmp_path / controller / "q").mkdir(parents=True)
    nest(tmp_path / "cpu" / "q", name, depth)
    (tmp_path / "memory" / "q" / "cgroup.procs").touch()
    observer = CgroupObserver("v1", {one: str(tmp_path / one) for one in V1})
    opened = len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 100, hard))
    try:
        found = [*observer.observe("/q", values=False).cgroups]
        tree = MountedTree(str(tmp_path / "cpu"), keeps=32)
        below = tree.below("/q")
        assert tree.read(found[-1], "cgroup.procs") == ""
        tree.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        observer.close()
        # pytest removes by recursion
        subprocess.run(["rm", "-r", tmp_path / "cpu"], check=True)
    assert found == [f"/q{f'/{name}' * n}" for n in range(depth + 1)]
    assert [*below] == found


def test_a_group_without_groups_below_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "q" / "a").mkdir(parents=True)
    listed: list[int] = []
    scan = os.scandir

    def counted(folder: int) -> object:
        listed.append(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", counted)
    tree = MountedTree(str(tmp_path))
    assert list(tree.below("/q/a")) == ["/q/a"]
    assert not listed
    assert list(tree.below("/q")) == ["/q", "/q/a"]
    assert len(listed) == 1
    assert tree.below("/absent") == {}
    tree.close()


def test_a_group_made_in_the_place_of_a_renamed_one_is_not_taken_for_it(tmp_path: Path) -> None:
    """On v1 another process can rename a cgroup that is in use."""
    tree = MountedTree(str(tmp_path))
    for path in ("/pod", "/pod/a"):
        assert tree.mkdir(path)
        tree.inode(path)
    (tmp_path / "pod").rename(tmp_path / "stolen")
    for path in ("/pod", "/pod/a"):
        assert tree.mkdir(path)
        assert tree.inode(path) == (tmp_path / path[1:]).stat().st_ino
    tree.close()
