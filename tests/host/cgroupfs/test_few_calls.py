"""What is not opened, looked for or written, as each call of the kernel costs a pod that comes."""

from __future__ import annotations

import sys
from pathlib import Path

from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from tests.host.cgroupfs.test_driver import descriptors_of, v2_group

V1 = ("cpu", "memory")


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
