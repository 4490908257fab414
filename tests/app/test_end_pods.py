"""Pods that a runtime does not end are named with their cgroups and processes; the rest of a cgroup
that systemd is removing is ours."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import cast

from qoslet.app.runtimes.end_pods import PODS_TOLD, cannot_stop, wait_for_scopes
from qoslet.app.runtimes.runtime_cgroups import made_by_runtimes
from qoslet.app.tree import OwnedTree, TreeLocation
from qoslet.app.tree_driver import driver_of_folders
from qoslet.core.reconcile.journal import Created
from qoslet.core.reconcile.restore import restore
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.host.cgroupfs.delegation import Delegation
from qoslet.host.cgroupfs.driver import Cgroupfs


class Driver:
    """Each cgroup has one below, with this process in it."""

    def below(self, path: str) -> list[str]:
        return [f"{path}/monitor", path]

    def members(self, path: str) -> set[int]:
        return {os.getpid()} if path.endswith("monitor") else set()

    def kill(self, path: str) -> bool:
        return False


class Tree:
    driver = Driver()


def said(*names: str, top: str = "/q/pod") -> str:
    tops = (top,) if top else ()
    left = [RuntimePod(n, f"default/{n}", "", 1.0, {}, top_cgroups=tops) for n in names]
    return str(cannot_stop(cast("OwnedTree", Tree()), left, "unix:///run/c.sock"))


def test_a_pod_is_named_with_its_cgroup_and_who_is_in_it() -> None:
    words = said("web")
    assert words.startswith("unix:///run/c.sock: Pod default/web does not stop (/q/pod: process ")
    assert f"process {os.getpid()} (" in words
    assert "release again" in words
    assert "(no cgroup: no process is left)" in said("web", top="")


def test_of_many_some_are_named() -> None:
    words = said(*(f"p{number}" for number in range(PODS_TOLD + 2)))
    assert words.count("does not stop") == PODS_TOLD
    assert "2 more do not" in words


def test_v1_a_scope_that_systemd_is_removing_is_still_ours(tmp_path: Path) -> None:
    mounts = {name: str(tmp_path / name) for name in ("memory", "pids")}
    paths = "/q.slice", "/q.slice/q-monitor.scope", "/q.slice/else.scope"
    for point in mounts.values():
        for path in ("", *paths):
            Path(point + path).mkdir(parents=True)
            Path(f"{point}{path}/cgroup.procs").touch()
    tree = OwnedTree(
        TreeLocation("v1", mounts, "/q.slice"),
        Delegation(mounts, {}),
        Cgroupfs("v1", mounts, "/q.slice"),
    )
    inodes = {path: os.stat(mounts["memory"] + path).st_ino for path in paths}
    tree.ledger.add([Created(path, inodes[path]) for path in paths[:2]])
    for path in paths[1:]:
        os.unlink(f"{mounts['memory']}{path}/cgroup.procs")
        os.rmdir(mounts["memory"] + path)
    plan = restore(tree.ledger, tree.standing(), hierarchy="v1")
    assert [(row.kind, row.path) for row in plan.refusals] == [("foreign", paths[2])]
    assert [step.path for step in plan.steps] == [paths[1], paths[0]]
    tree.close()


def test_a_release_waits_until_systemd_has_removed_the_scopes_of_containers(
    tmp_path: Path,
) -> None:
    mounts = {"memory": str(tmp_path)}
    for path in ("/q.slice", "/q.slice/cri-1.scope", "/q.slice/else.slice"):
        Path(f"{tmp_path}{path}").mkdir()
        Path(f"{tmp_path}{path}/cgroup.procs").touch()
    tree = OwnedTree(
        TreeLocation("v1", mounts, "/q.slice"),
        Delegation(mounts, {}),
        Cgroupfs("v1", mounts, "/q.slice"),
    )
    scope = tmp_path / "q.slice/cri-1.scope"
    going = threading.Timer(0.2, shutil.rmtree, (scope,))
    going.start()
    wait_for_scopes(tree, 60.0)
    assert not scope.exists()
    going.join()
    scope.mkdir()
    (scope / "cgroup.procs").write_text(f"{os.getpid()}\n")
    wait_for_scopes(tree, 60.0)
    tree.close()


def test_of_two_journals_of_a_root_the_later_one_counts(tmp_path: Path) -> None:
    """As after a repair with each driver of a kubelet that changed it: the cgroups of one are gone."""
    units, plain = tmp_path / "kubepods.slice", tmp_path / "kubepods"
    for folder in (units, plain):
        folder.mkdir()
        (folder / "journal").touch()
    for times, driver in ((1, 2), "cgroupfs"), ((2, 1), "systemd"):
        for folder, time in zip((units, plain), times, strict=True):
            os.utime(folder / "journal", (time, time))
        assert driver_of_folders(str(units), str(plain)) == driver


def test_only_what_runtimes_made_for_pods_is_theirs() -> None:
    """Another client's container beside the pods, below the same root, has an id as well."""
    pod, app, other = "/r/kubepods/podu", "a" * 64, "b" * 64
    ours = {"/r", "/r/kubepods", "/r/kubepods/burstable", pod}
    inside = [f"{pod}/{app}/inner", f"{pod}/{app}"]
    beside = [f"/r/kubepods/burstable/{other}", f"/r/{other}", f"{pod}/tools", "/r/mine"]
    paths = [*inside, *beside, *sorted(ours, reverse=True)]
    assert made_by_runtimes(paths, ours, (), {pod}) == inside
    assert made_by_runtimes(paths, ours, (), ()) == []
    assert made_by_runtimes(paths, ours, {f"{pod}/tools"}, ()) == [f"{pod}/tools"]
    assert made_by_runtimes(paths, {*ours, f"{pod}/{app}"}, {f"{pod}/{app}"}, ()) == inside[:1]
