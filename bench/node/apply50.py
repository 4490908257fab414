"""Fifty pods from their manifest to written cgroups, against the bare system calls.

Ours is all of a first turn: read the manifests, plan, observe, compare, order, journal, write.
The floor makes the same directories and writes the same values in a loop, by absolute paths.
Both make groups below a root of their own and remove them, which is not timed.
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.figures import Figure, paired, show
from bench.pods import listing
from qoslet.agent.desired_state import ManifestSource
from qoslet.core.api.manifest import Options
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.security.context import ProcessRights
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.files.node import load_node
from qoslet.host.files.watched_manifests import ManifestFiles
from qoslet.host.machine.probe import probe
from qoslet.host.state.journal_file import claim

PODS = 50
ROUNDS = 15
CPUSET = ("cpuset.cpus", "cpuset.mems")


class Bench:
    """One root, the manifests below ``folder``, and what the last turn of ours did."""

    def __init__(self, folder: Path) -> None:
        self.root = f"/qoslet-bench-{secrets.token_hex(4)}"
        self.state = str(folder / "state")
        self.manifests = folder / "pods.json"
        self.manifests.write_text(manifests())
        self.mounts = probe().mounts or {}
        self.node: Node = load_node([], Flags(kubernetes="1.36", cgroup_root=self.root))[0]
        self.driver = Cgroupfs(self.node.hierarchy, self.mounts, self.root)
        self.steps: list[Step] = []

    def ours(self) -> float:
        """Milliseconds of a first turn."""
        journal = claim(self.root, self.driver, state=self.state)
        driver = self.driver = Cgroupfs(self.node.hierarchy, self.mounts, self.root)
        driver.journal = journal
        eyes = CgroupObserver(self.node.hierarchy, self.mounts)
        elapsed = timed(partial(self._turn, driver, eyes))
        driver.journal = None
        self.clean()
        journal.close(gone=True)
        driver.close()
        return elapsed

    def _turn(self, driver: Cgroupfs, eyes: CgroupObserver) -> None:
        """From the manifest to the last value."""
        powers = ProcessRights(os.geteuid(), os.getegid(), os.geteuid() == 0)
        files = ManifestFiles([str(self.manifests)], time.monotonic)
        source = ManifestSource(files, Options(keep_raw=True), self.node, powers, unconfined=True)
        plan = source.current().plan.plan()
        observed = eyes.observe(self.root)
        self.steps = ordered(compare(plan, observed), observed)
        wrong = [one.error for one in driver.perform(self.steps) if one.error]
        if wrong or len({g.pod.uid for g in plan.cgroups if g.pod}) != PODS:
            raise SystemExit(f"not all {PODS} pods were written: {wrong or 'refused'}")

    def floor(self) -> float:
        """Milliseconds of the same directories and values, without anything else."""
        calls = self.calls()
        elapsed = timed(partial(bare, calls))
        self.clean()
        return elapsed

    def calls(self) -> list[tuple[str, bytes | None]]:
        """Directories to make (no value) and files to write, in the order of the steps."""
        made: list[tuple[str, bytes | None]] = []
        known = {""}
        cpuset = self.driver.layout.tree_of("cpuset")
        values = {}
        if self.node.hierarchy == "v1" and cpuset is not None:
            values = {file: cpuset.read("", file).encode() for file in CPUSET}
        for step in self.steps:
            tree = self.driver.layout.tree_of(controller(step.file)) if step.file else None
            if tree is not None:
                made.append((f"{tree.point}{step.path}/{step.file}", step.value.encode() or b"\n"))
                continue
            parts = step.path.split("/")
            for path in ("/".join(parts[: depth + 1]) for depth in range(1, len(parts))):
                if path in known:
                    continue
                known.add(path)
                made += [(one.point + path, None) for one in self.driver.layout.trees]
                made += [(f"{cpuset.point}{path}/{f}", v) for f, v in values.items() if cpuset]
        return made

    def clean(self) -> None:
        """Remove every group."""
        wrong = [self.driver.discard(path) for path in self.driver.below(self.root)]
        if any(wrong):
            raise SystemExit(f"{self.root} is left: {wrong}")


def manifests() -> str:
    """The pods as kubectl prints them, each container with a command of its own."""
    text = "".join(listing(PODS))
    return text.replace('"args": [', '"command": ["/bin/app"],\n"args": [')


def bare(calls: list[tuple[str, bytes | None]]) -> None:
    """The system calls and nothing else."""
    for path, value in calls:
        if value is None:
            os.mkdir(path)
        else:
            descriptor = os.open(path, os.O_WRONLY)
            os.write(descriptor, value)
            os.close(descriptor)


def timed(work: Callable[[], None]) -> float:
    """Milliseconds; garbage of before is not collected on this account."""
    gc.collect()
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


def main() -> int:
    """Measure and print; 3 where this machine cannot do it."""
    if os.geteuid() != 0:
        print("bench.node.apply50 makes cgroups: run it as root", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        bench = Bench(Path(folder))
        try:
            ours, floor = paired(bench.ours, bench.floor, ROUNDS)
        finally:
            bench.clean()
        name = f"{PODS} pods, manifest to cgroups"
        show([Figure(name, "ms", ours, floor, f"{len(bench.calls())} bare calls", 3)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
