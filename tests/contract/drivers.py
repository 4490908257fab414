"""A driver with its observer and a way to have processes: simulated or this machine's."""

from __future__ import annotations

import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from qoslet.agent.ports import Driver, Observer
from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.steps import Step
from qoslet.sim.cgroups import FACTS
from qoslet.sim.kernel import SimKernel

if TYPE_CHECKING:
    from qoslet.host.cgroupfs.driver import Cgroupfs

NO_KERNEL = "QOSLET_NO_KERNEL"
_LAST: Mapping[Hierarchy, str] = {"v1": "limit_in_bytes", "v2": "max"}
HUGETLB = {
    hierarchy: tuple(
        f"hugetlb.{size}.{kind}{last}" for size in ("2MB", "1GB") for kind in ("", "rsvd.")
    )
    for hierarchy, last in _LAST.items()
}
"""Files that only some machines have, so they are watched by name."""


class Processes(Protocol):
    """Starts processes that do nothing."""

    def start(self, path: str, using: int) -> int:
        """A process inside the group that holds ``using`` bytes; its number."""

    def end(self, pid: int) -> None:
        """It ends, if it has not yet."""


class Bench:
    """What a case needs. ``facts`` are the machine's, ``root`` the group that is ours."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        driver: Driver,
        observer: Observer,
        processes: Processes,
        facts: KernelFeatures,
        root: str,
    ) -> None:
        self.hierarchy: Hierarchy = hierarchy
        self.driver = driver
        self.observer = observer
        self.processes = processes
        self.facts = facts
        self.root = root

    def offers(self, controller: str) -> bool:
        """Whether groups below the root have files of a controller."""
        self.driver.perform([Step("create", f"{self.root}/a")])
        group = self.observer.observe(self.root).cgroups[f"{self.root}/a"]
        self.clear()
        return any(file.startswith(f"{controller}.") for file in group.values)

    def clear(self) -> None:
        """Remove the root with everything below."""
        left = self.observer.observe(self.root, values=False).cgroups
        for path in sorted(left, key=lambda path: (-path.count("/"), path)):
            for outcome in self.driver.perform([Step("remove", path)]):
                assert outcome.error is None, outcome.error


class _Simulated:
    def __init__(self, kernel: SimKernel) -> None:
        self._kernel = kernel

    def start(self, path: str, using: int) -> int:
        return self._kernel.spawn(path, memory=using)

    def end(self, pid: int) -> None:
        self._kernel.end(pid, 0)


class _Real:
    """Processes of this machine, moved by the driver before they take their memory."""

    _BODY = "import sys; sys.stdin.readline(); b = b'x' * {using}; print(1, flush=True); sys.stdin.read()"

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, path: str, using: int) -> int:
        command = [sys.executable, "-c", self._BODY.format(using=using)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._children[child.pid] = child
        (outcome,) = self._driver.perform([Step("attach", path, pid=child.pid)])
        assert outcome.error is None, outcome.error
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        said = child.stdout.readline()
        assert said == b"1\n", (said, child.poll())
        return child.pid

    def end(self, pid: int) -> None:
        child = self._children.pop(pid)
        child.communicate()


def simulated(
    hierarchy: Hierarchy, facts: KernelFeatures = FACTS, controllers: tuple[str, ...] = ()
) -> Bench:
    """A bench on a kernel made of values."""
    kernel = SimKernel(hierarchy, facts=facts, controllers=controllers or None)
    return Bench(hierarchy, kernel, kernel, _Simulated(kernel), kernel.facts, "/test")


@contextmanager
def real(hierarchy: Hierarchy) -> Iterator[Bench]:
    """A bench on this machine's kernel, in a top-level group of its own that is removed.

    Skips where ``QOSLET_NO_KERNEL=1`` says that there is no kernel to be had, and where the
    machine has the other hierarchy.
    """
    from qoslet.host.cgroupfs.driver import Cgroupfs
    from qoslet.host.cgroupfs.observe.observer import CgroupObserver

    mounts = mounts_of(hierarchy)
    root = f"/qoslet-test-{secrets.token_hex(4)}"
    driver = Cgroupfs(hierarchy, mounts, root)
    eyes = CgroupObserver(hierarchy, mounts)
    eyes.watch(HUGETLB[hierarchy])
    try:
        (outcome,) = driver.perform([Step("create", root)])
        assert outcome.error is None, outcome.error
        yield Bench(hierarchy, driver, eyes, _Real(driver), _facts(driver), root)
    finally:
        for path in driver.below(root):
            driver.discard(path)
        left = driver.below(root)
        driver.close()
        assert left == []


def mounts_of(hierarchy: Hierarchy) -> Mapping[str, str] | str:
    """Where this machine's hierarchies are, as for ``cgroupfs.layout_of``; skips as ``real``."""
    import pytest

    from qoslet.host.machine.probe import probe

    if os.environ.get(NO_KERNEL) == "1":
        pytest.skip(f"{NO_KERNEL}=1: no kernel to write to")
    here = probe()
    advice = f"needs root and control groups; {NO_KERNEL}=1 leaves it out"
    assert here.hierarchy is not None, f"this machine has no control groups: {advice}"
    assert os.geteuid() == 0, f"not root: {advice}"
    if here.hierarchy != hierarchy:
        pytest.skip(f"this machine has {here.hierarchy}; make test-vm has both")
    return (here.unified or "") if hierarchy == "v2" else (here.mounts or {})


def _facts(driver: Cgroupfs) -> KernelFeatures:
    """The machine's page size, CPUs and memory nodes."""
    tree = driver.layout.tree_of("cpuset")
    assert tree is not None, "no cpuset controller"
    last = ".effective" if driver.hierarchy == "v2" else ""
    cpus, mems = (tree.read("", f"cpuset.{name}{last}") for name in ("cpus", "mems"))
    major, minor = platform.release().split("-")[0].split(".")[:2]
    return KernelFeatures(
        page_size=os.sysconf("SC_PAGE_SIZE"),
        cpus=cpu_numbers(cpus),
        mems=cpu_numbers(mems),
        kernel=(int(major), int(minor)),
    )
