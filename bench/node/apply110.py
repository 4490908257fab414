"""A whole node: 110 pods with 2 containers each, 333 groups, against the bare system calls.

First the tree is made and written: look, compare, order, journal, write, against a loop that
makes the same directories and writes the same values by absolute paths. Then a pass that
changes nothing, in a running agent and as a whole process (``qoslet apply`` in an interpreter
of its own), against a loop that opens, reads and closes the same files once; the process also
against the start of an empty interpreter.
"""

from __future__ import annotations

import gc
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from bench.figures import Figure, paired, show
from bench.node.apply50 import CPUSET, bare, timed
from bench.offline.cold import EMPTY, child
from bench.pods import pod
from qoslet.agent.one_shot import ApplyPlan, perform, prepare
from qoslet.agent.ports import Journal
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.memory_journal import MemoryJournal
from qoslet.agent.state.ownership import ownership_of
from qoslet.core.api.manifest import Options
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.core.reconcile.journal import JournalState
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.fast_observer import FastObserver
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.files.manifests import load
from qoslet.host.files.node import load_node
from qoslet.host.machine.probe import probe
from qoslet.host.state.folder import STATE, escaped
from qoslet.host.state.resume import open_journal

PODS = 110
GROUPS = 333
ROUNDS = 9
PROGRAM = str(Path(sys.executable).with_name("qoslet"))


class Bench:
    """One root, its plan, and what the last pass of ours did."""

    def __init__(self, folder: Path) -> None:
        here = probe()
        self.root = f"/qoslet-bench-{secrets.token_hex(4)}"
        self.state = STATE  # where the program itself looks for it
        self.manifests = folder / "pods.json"
        self.manifests.write_text(manifests())
        node = load_node([], Flags(kubernetes="1.36", cgroup_root=self.root))[0]
        self.mounts = here.mounts or {} if node.hierarchy == "v1" else here.unified or ""
        self.hierarchy = node.hierarchy
        self.plan = plan(load([str(self.manifests)], Options()).pods, node)
        self.driver = Cgroupfs(self.hierarchy, self.mounts, self.root)
        self.eyes = CgroupObserver(self.hierarchy, self.mounts)
        self.eyes.watch(self.plan.files)
        self.quick = FastObserver(self.hierarchy, self.mounts, self.plan.files)
        self.steps: tuple[Step, ...] = ()
        self.ledger = JournalState()
        paths = {group.path for group in self.plan.cgroups if group.path}
        if len(paths) != GROUPS:
            raise SystemExit(f"the plan has {len(paths)} groups, not {GROUPS}")

    def watch(self, files: Iterable[str]) -> None:
        """Read these files, too."""
        self.eyes.watch(files)

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """A full look."""
        return self.eyes.observe(root, values=values)

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One group."""
        return self.eyes.read_cgroup(path)

    def identity(self, path: str) -> int | None:
        """The inode of one group."""
        return self.eyes.identity(path)

    def read_planned(self, paths: Iterable[str]) -> Observed | None:
        """A look at what is planned."""
        return self.quick.observe(paths)

    def reclaimable_cache(self, path: str) -> int:
        """Page cache of a group."""
        return self.eyes.reclaimable_cache(path)

    def found(self) -> ApplyPlan:
        """What a pass finds."""
        return prepare(self.plan, self.executor(), self.read_planned)

    def executor(self, journal: Journal | None = None) -> CgroupExecutor:
        """What compares and writes."""
        return CgroupExecutor(
            ownership_of(self.root, self.ledger),
            self.driver,
            self,
            time.monotonic,
            journal=journal or MemoryJournal(self.ledger),
        )

    def make(self) -> float:
        """Milliseconds of a first pass; the tree is gone afterwards."""
        elapsed = self.made()
        self.clean()
        return elapsed

    def made(self) -> float:
        """Milliseconds of a first pass, up to the last write; the tree stands."""
        self.driver = Cgroupfs(self.hierarchy, self.mounts, self.root)
        journal = open_journal(self.root, self.driver, state=self.state)
        self.ledger = journal.ledger
        self.driver.journal = journal
        written = 0.0

        def again() -> ApplyPlan:
            nonlocal written
            written = time.perf_counter()
            return self.found()

        gc.collect()
        begin = time.perf_counter()
        work = self.found()
        done = perform(work, again, self.executor(journal))
        self.steps = work.steps
        journal.close(gone=False)
        if done.remaining or done.failures:
            raise SystemExit(f"not all was written: {[one.error for one in done.failures][:3]}")
        return (written - begin) * 1000

    def floor(self) -> float:
        """Milliseconds of the same directories and values, without anything else."""
        calls = self.calls()
        elapsed = timed(partial(bare, calls))
        self.clean()
        return elapsed

    def calls(self) -> list[tuple[str, bytes | None]]:
        """Directories to make (no value) and files to write, in the order of the steps."""
        layout = self.driver.layout
        cpuset = layout.tree_of("cpuset")
        values = {}
        if self.hierarchy == "v1" and cpuset is not None:
            values = {file: cpuset.read("", file).encode() for file in CPUSET}
        made: list[tuple[str, bytes | None]] = []
        known = {""}
        for step in self.steps:
            tree = layout.tree_of(controller(step.file)) if step.file else None
            if tree is not None:
                made.append((f"{tree.point}{step.path}/{step.file}", step.value.encode() or b"\n"))
                continue
            parts = step.path.split("/")
            for path in ("/".join(parts[: depth + 1]) for depth in range(1, len(parts))):
                if path in known:
                    continue
                if self.hierarchy == "v2":
                    made += self._enabled(path)
                known.add(path)
                made += [(one.point + path, None) for one in layout.trees]
                made += [(f"{cpuset.point}{path}/{f}", v) for f, v in values.items() if cpuset]
        return made

    def _enabled(self, path: str) -> list[tuple[str, bytes | None]]:
        """On v2: what the group above hands down, once for each."""
        point, above = self.driver.layout.trees[0].point, path.rpartition("/")[0]
        names = Path(f"{point}{above or '/'}/cgroup.controllers")
        text = names.read_text().split() if names.exists() else ["cpu", "memory", "pids"]
        wanted = [name for name in text if name in ("cpu", "cpuset", "hugetlb", "memory", "pids")]
        return [
            (f"{point}{above}/cgroup.subtree_control", f"+{' +'.join(wanted)}".encode()),
        ]

    def nothing(self) -> float:
        """Milliseconds of a pass that changes nothing, in a running agent."""
        return timed(self._nothing)

    def _nothing(self) -> None:
        work = self.found()
        if work.steps or work.differences:
            raise SystemExit(f"a second pass has {len(work.steps)} steps")

    def cold(self) -> float:
        """Milliseconds of a whole ``qoslet apply`` that changes nothing."""
        command = [PROGRAM, "apply", str(self.manifests)]
        command += ["--cgroup-root", self.root, "--kubernetes", "1.36"]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        elapsed = (time.perf_counter() - begin) * 1000
        if done.returncode or ": 0 cgroups created, 0 values written" not in done.stdout:
            raise SystemExit(f"qoslet apply: {done.stdout}{done.stderr}")
        return elapsed

    def reads(self) -> list[str]:
        """Every setting of every group. A pass may know of some that they cannot be off: on v1
        CPU and node lists that nobody plans are the group's above."""
        observed = self.eyes.observe(self.root)
        found = []
        for path, group in observed.cgroups.items():
            for file in group.values:
                tree = self.driver.layout.tree_of(controller(file))
                assert tree is not None
                found.append(f"{tree.point}{path}/{file}")
        return found

    def clean(self) -> None:
        """Remove every group."""
        self.driver.journal = None
        wrong = [self.driver.discard(path) for path in self.driver.below(self.root)]
        if any(wrong):
            raise SystemExit(f"{self.root} is left: {wrong}")


def manifests() -> str:
    """Pods as kubectl prints them, each with two containers."""
    both = [number for number in range(10 * PODS) if _containers(number) == 2]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod(n) for n in both[:PODS]]})


def _containers(number: int) -> int:
    spec = pod(number)["spec"]
    assert isinstance(spec, dict)
    return len(spec["containers"])


def read_all(paths: list[str]) -> None:
    """The system calls and nothing else."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.read(descriptor, 4096)
        os.close(descriptor)


def standing(bench: Bench) -> list[Figure]:
    """The figures of a tree that stands."""
    reads = bench.reads()
    floor: Callable[[], float] = partial(timed, partial(read_all, reads))
    name = f"{len(reads)} bare open, read, close"
    warm, below = paired(bench.nothing, floor, ROUNDS)
    figures = [Figure(f"{GROUPS} groups, nothing to do, agent", "ms", warm, below, name, 1.5)]
    cold, below = paired(bench.cold, lambda: child(EMPTY)[0] + floor(), ROUNDS)
    name = f"python3 -c pass + {name}"
    return [*figures, Figure(f"{GROUPS} groups, nothing to do, cold", "ms", cold, below, name, 2.2)]


def main() -> int:
    """Measure and print; 3 where this machine cannot do it."""
    if os.geteuid() != 0:
        print("bench.node.apply110 makes cgroups: run it as root", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        bench = Bench(Path(folder))
        try:
            ours, floor = paired(bench.make, bench.floor, ROUNDS)
            name = f"{len(bench.calls())} bare calls"
            figures = [Figure(f"{GROUPS} groups, made and written", "ms", ours, floor, name, 2)]
            bench.made()
            figures += standing(bench)
        finally:
            bench.clean()
            shutil.rmtree(f"{STATE}/{escaped(bench.root)}", ignore_errors=True)
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
