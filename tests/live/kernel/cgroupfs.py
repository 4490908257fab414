"""The cgroupfs driver below a group of its own on this machine's kernel."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.machine.probe import mounts, probe

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
