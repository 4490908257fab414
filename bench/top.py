"""A look of ``qoslet top`` at 110 pods of two containers, and an agent's ``/metrics`` of them, beside
the bare reads of the same files.

The tree is that of ``bench.audit110``, with a process in each container. A look reads every cgroup
and joins it with the plan; a scrape looks, too, and writes what it found as text.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.apply50 import timed
from bench.apply110 import GROUPS, ROUNDS, read_all
from bench.audit110 import AuditBench
from bench.figures import Figure, paired, show
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.observed import Observed
from qoslet.core.cgroup.usage.rates import between
from qoslet.core.status.node_top import FILES_V1, FILES_V2, top_rows
from qoslet.core.status.snapshot import Snapshot, rows
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.state.folder import STATE, escaped
from qoslet.render.metrics import exposition

USAGE_V2 = ("cpu.stat", "memory.current", "memory.peak", "memory.events")
USAGE_V1 = (
    "cpu.stat",
    "cpuacct.usage",
    "memory.memsw.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    "memory.usage_in_bytes",
)
FACTOR = 2.0


class TopBench(AuditBench):
    """Looks at the tree, and what they read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shown = FILES_V1 if self.hierarchy == "v1" else FILES_V2
        self.agent_eyes = CgroupObserver(self.hierarchy, self.mounts, self.plan.files)
        self.top_eyes = CgroupObserver(self.hierarchy, self.mounts, self.shown)
        self.before: Observed | None = None
        self.seen: Observed | None = None

    def look(self) -> None:
        """One look, as a screen has it."""
        now = self.top_eyes.observe(self.plan.cgroups[0].path or "/")
        found = top_rows(self.plan, self.before, now)
        self.before = now
        if sum(row.exists for row in found) != GROUPS:
            raise SystemExit(f"{len(found)} rows")

    def scrape(self) -> None:
        """One scrape, as an agent answers it."""
        now = self.agent_eyes.observe(self.root)
        usage = between(self.seen, now) if self.seen is not None else {}
        self.seen = now
        text = exposition(Snapshot(1, now.at, 2, 1 << 33, rows(self.plan, now, usage, (), {})))
        if text.count(b"qoslet_memory_usage_bytes{") < GROUPS:
            raise SystemExit(text[:2000].decode())

    def looked_at(self, files: tuple[str, ...]) -> list[str]:
        """Every file that a look reads."""
        usage = USAGE_V1 if self.hierarchy == "v1" else USAGE_V2
        first = self.driver.layout.trees[0].point
        found = []
        for cgroup in self.plan.cgroups:
            found.append(f"{first}{cgroup.path}/cgroup.procs")
            for file in dict.fromkeys((*files, *usage)):
                tree = self.driver.layout.tree_of(controller(file))
                if tree is not None:
                    found.append(f"{tree.point}{cgroup.path}/{file}")
        return [place for place in found if os.path.exists(place)]


def main() -> int:
    """Measure and print; 3 where this machine cannot do it."""
    if os.geteuid() != 0:
        print("bench.top makes cgroups: run it as root", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        bench = TopBench(Path(folder))
        try:
            bench.made()
            bench.driver.journal = None
            bench.start()
            reads = bench.looked_at(bench.shown)
            name = f"{len(reads)} bare open, read, close"
            pair = paired(
                partial(timed, bench.look), partial(timed, partial(read_all, reads)), ROUNDS
            )
            figures = [Figure(f"{GROUPS} groups, a look of top", "ms", *pair, name, FACTOR)]
            reads = bench.looked_at(tuple(sorted(bench.plan.files)))
            name = f"{len(reads)} bare open, read, close"
            pair = paired(
                partial(timed, bench.scrape), partial(timed, partial(read_all, reads)), ROUNDS
            )
            figures.append(Figure(f"{GROUPS} groups, /metrics", "ms", *pair, name, FACTOR))
        finally:
            bench.clean()
            shutil.rmtree(f"{STATE}/{escaped(bench.root)}", ignore_errors=True)
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
