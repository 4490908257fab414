"""What is not opened, looked for or written, as each call of the kernel costs a pod that comes."""

from __future__ import annotations

import sys
from pathlib import Path

from qoslet.core.reconcile.journal import CreateIntent
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.cgroupfs.v1 import HierarchiesV1
from qoslet.sim.kernel import SimKernel
from tests.agent.world import Directory
from tests.core.reconcile.trees import FOUR_CPUS
from tests.host.cgroupfs.test_driver import Book, descriptors_of, v2_group

V1 = ("cpu", "memory")


class Asked(Cgroupfs):
    """A driver that keeps which groups it was asked for."""

    asked: list[str]

    def identifies(self, path: str) -> bool:
        self.asked.append(path)
        return super().identifies(path)


def test_below_a_group_that_is_to_be_made_none_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "memory/q").mkdir(parents=True)
    driver = Asked("v1", {"memory": str(tmp_path / "memory")}, "/q")
    book = driver.journal = Book()
    driver.stands("/q")
    driver.asked = []
    driver.perform([Step("create", "/q/pod"), Step("create", "/q/pod/app")])
    assert driver.asked == ["/q/pod"]
    assert book.entries[:2] == [CreateIntent("/q/pod"), CreateIntent("/q/pod/app")]
    # what was there before may have any
    driver.asked = []
    (tmp_path / "memory/q/pod/side").mkdir()
    driver.perform([Step("create", "/q/pod/side"), Step("create", "/q/pod/side/in")])
    assert driver.asked == ["/q/pod/side", "/q/pod/side/in"]


def test_a_group_that_is_absent_is_not_opened(tmp_path: Path) -> None:
    for controller in V1:
        (tmp_path / controller / "q").mkdir(parents=True)
    eyes = CgroupObserver("v1", {name: str(tmp_path / name) for name in V1})
    opened: list[object] = []
    listening = True

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open" and "pod" in str(arguments[0]):
            opened.append(arguments[0])

    sys.addaudithook(heard)
    absent = eyes.read_cgroup("/q/pod")
    assert (absent, opened) == (None, [])
    # one hierarchy is enough for a group to be there
    (tmp_path / "memory/q/pod").mkdir()
    (tmp_path / "memory/q/pod/cgroup.procs").write_text("")
    found = eyes.read_cgroup("/q/pod")
    listening = False
    assert found is not None
    assert "cpu" in found.missing
    assert opened
    eyes.close()


def test_the_groups_of_fifty_pods_stay_open(tmp_path: Path) -> None:
    paths = [f"/q/pod{number}{below}" for number in range(50) for below in ("", "/app")]
    folders = {(one.st_dev, one.st_ino) for one in (v2_group(tmp_path, p).stat() for p in paths)}
    driver = Cgroupfs("v2", str(tmp_path), "/q")
    driver.perform([Step("set", path, "cpu.weight", "9") for path in paths])
    assert descriptors_of(folders) == len(paths)
    driver.close()


def test_cpus_are_written_where_the_group_above_does_not_give_them() -> None:
    kernel = SimKernel("v1", facts=FOUR_CPUS, controllers=("memory", "cpuset"), hugepages=())
    told: list[str] = []
    mounts = {name: f"/simulated/{name}" for name in ("memory", "cpuset")}
    layout = HierarchiesV1(mounts, lambda point: Directory(point, kernel, told.append))

    def written(*paths: str) -> list[str]:
        told.clear()
        for path in paths:
            layout.create(path)
        assert all(kernel.read(path, "cpuset.cpus") == "0-3" for path in paths)
        return [one for one in told if one.startswith("write")]

    top = [f"write /q {file}" for file in ("cpuset.cpus", "cpuset.mems", "cgroup.clone_children")]
    assert written("/q", "/q/pod", "/q/pod/app") == top
    # made by hand, so that it was given nothing
    kernel.mkdir("/q/other")
    assert written("/q/other")[:2] == [f"write /q/other cpuset.{name}" for name in ("cpus", "mems")]
