"""The work on cgroups alone, a pod at a time, beside the same bare calls and a kubelet's code.

The kubelet's figures (1.36, cgroupfs, v1, two CPUs: make, update, destroy a pod's group; scan 500
of them) were measured on such a machine, not in this run; the bare calls are in this run.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from statistics import median

from bench.figures import Figure, show
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.kill import identities
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.machine.probe import probe

PODS = 500
V1 = (("cpu.shares", "102"), ("memory.limit_in_bytes", "67108864"), ("pids.max", "1024"))
V2 = (("cpu.weight", "4"), ("memory.max", "67108864"), ("pids.max", "1024"))
UPDATE = {"v1": Step("set", "", "cpu.shares", "205"), "v2": Step("set", "", "cpu.weight", "8")}
KUBELET = {"create": 0.53, "update": 0.13, "destroy": 1.1, "scan": 7.3}
"""Milliseconds, the upper end of what was measured; each a pod, the scan all 500."""


class Bench:
    """A root with the driver, and the same by bare calls in a root beside it."""

    def __init__(self) -> None:
        found = probe()
        self.v1 = found.hierarchy == "v1"
        mounts = dict(found.mounts or {})
        hierarchy, where = ("v1", mounts) if self.v1 else ("v2", found.unified or "")
        self.root = f"/qoslet-bench-{secrets.token_hex(4)}"
        self.driver = Cgroupfs(hierarchy, where, self.root)
        self.eyes = CgroupObserver(hierarchy, where)
        self.values = V1 if self.v1 else V2
        self.points = [tree.point for tree in self.driver.layout.trees]
        self.beside = f"{self.root}-bare"
        self.hold(Step("create", f"{self.root}/kubepods"))
        for point in self.points:
            os.makedirs(f"{point}{self.beside}/kubepods")
        self._furnish(f"{self.beside}")
        self._furnish(f"{self.beside}/kubepods")

    def hold(self, *steps: Step) -> None:
        """Perform, or end."""
        for outcome in self.driver.perform(steps):
            if outcome.error is not None:
                raise SystemExit(outcome.error)

    def pod(self, at: int) -> str:
        """The path of a pod's group."""
        return f"{self.root}/kubepods/pod{at:032x}"

    def create(self, at: int) -> None:
        """Make a pod's group and write its values."""
        path = self.pod(at)
        sets = [Step("set", path, file, value) for file, value in self.values]
        self.hold(Step("create", path), *sets)

    def update(self, at: int) -> None:
        """One value anew, after the group was seen to be the one that was made."""
        step = UPDATE["v1" if self.v1 else "v2"]
        path = self.pod(at)
        if self.driver.identity(path) is None:
            raise SystemExit(f"{path} is gone")
        self.hold(Step("set", path, step.file, step.value))

    def destroy(self, at: int) -> None:
        """Remove it."""
        self.hold(Step("remove", self.pod(at)))

    def scan(self) -> None:
        """Find every pod's group and its identity."""
        found = identities(self.driver.layout, self.root)
        if len(found) != PODS + 2:
            raise SystemExit(f"{len(found)} groups were found")

    def bare_create(self, at: int) -> None:
        """The same directories and values."""
        path = f"{self.beside}/kubepods/pod{at:032x}"
        for point in self.points:
            os.mkdir(point + path)
        self._furnish(path)
        for file, value in self.values:
            self._write(path, file, value)

    def bare_update(self, at: int) -> None:
        """The same value."""
        step = UPDATE["v1" if self.v1 else "v2"]
        self._write(f"{self.beside}/kubepods/pod{at:032x}", step.file, step.value)

    def bare_destroy(self, at: int) -> None:
        """The same directories."""
        for point in self.points:
            os.rmdir(f"{point}{self.beside}/kubepods/pod{at:032x}")

    def bare_scan(self) -> None:
        """Names and inodes in every hierarchy."""
        for point in self.points:
            with os.scandir(f"{point}{self.beside}/kubepods") as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        entry.inode()

    def _furnish(self, path: str) -> None:
        """v1: a new group's cpuset is empty, and takes nobody."""
        tree = self.driver.layout.tree_of("cpuset") if self.v1 else None
        if tree is not None:
            for file in ("cpuset.cpus", "cpuset.mems"):
                self._write(path, file, tree.read("", file))

    def _write(self, path: str, file: str, value: str) -> None:
        tree = self.driver.layout.tree_of(file.partition(".")[0])
        assert tree is not None
        descriptor = os.open(f"{tree.point}{path}/{file}", os.O_WRONLY)
        os.write(descriptor, value.encode())
        os.close(descriptor)

    def close(self) -> None:
        """Nothing is left."""
        for path in self.driver.below(self.root):
            self.driver.discard(path)
        self.driver.close()
        for point in self.points:
            os.rmdir(f"{point}{self.beside}/kubepods")
            os.rmdir(f"{point}{self.beside}")


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def each(ours: Callable[[int], None], bare: Callable[[int], None]) -> tuple[float, float]:
    """The medians over all pods, in turns."""
    pairs = [(timed(lambda at=at: ours(at)), timed(lambda at=at: bare(at))) for at in range(PODS)]  # type: ignore[misc]
    return median(one for one, _ in pairs), median(other for _, other in pairs)


def measured() -> list[Figure]:
    """A pod's group made, updated and removed, and all of them scanned."""
    bench = Bench()
    took: dict[str, tuple[float, float]] = {}
    try:
        took["create"] = each(bench.create, bench.bare_create)
        took["update"] = each(bench.update, bench.bare_update)
        scans = [(timed(bench.scan), timed(bench.bare_scan)) for _ in range(20)]
        took["scan"] = median(one for one, _ in scans), median(other for _, other in scans)
        took["destroy"] = each(bench.destroy, bench.bare_destroy)
    finally:
        bench.close()
    what = {"create": "make", "update": "update", "destroy": "destroy", "scan": "scan 500 of"}
    figures = []
    for kind, (ours, bare) in took.items():
        name = f"{what[kind]} a pod's group" if kind != "scan" else "scan of 500 pods' groups"
        figures.append(Figure(name, "ms", ours, KUBELET[kind], "a kubelet's, before", 1.5))
        figures.append(Figure(f"{name}, bare calls", "ms", ours, bare, "bare calls", None))
    return figures


if __name__ == "__main__":
    show(measured())
