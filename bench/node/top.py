"""A look of ``qoslet top`` at 110 pods of two containers, and an agent's ``/metrics`` of them, beside
the bare reads of the same files.

The tree is that of ``bench.node.audit110``, with a process in each container. A look reads every cgroup
and joins it with the plan; a scrape reads only usage, and writes what it found as text. Both are
CPU time: what else runs on the machine makes neither longer.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

from bench.figures import Figure, paired, show
from bench.node.apply110 import GROUPS, ROUNDS, read_all
from bench.node.audit110 import AuditBench
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.observed import Observed
from qoslet.core.cgroup.usage.rates import between
from qoslet.core.status.node_top import FILES_V1, FILES_V2, top_rows
from qoslet.core.status.snapshot import Snapshot, rows
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.cgroupfs.observe.usage_files import usage_files
from qoslet.host.cgroupfs.observe.usage_observer import NOT_SHOWN, UsageObserver
from qoslet.host.state.folder import STATE, escaped
from qoslet.render.metrics import exposition

FACTOR = 2.0
SCRAPE_MS = 30.0


class TopBench(AuditBench):
    """Looks at the tree, and what they read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shown = FILES_V1 if self.hierarchy == "v1" else FILES_V2
        self.agent_eyes = UsageObserver(self.hierarchy, self.mounts)
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
        now = self.agent_eyes.observe(one.path for one in self.plan.cgroups if one.path)
        usage = between(self.seen, now) if self.seen is not None else {}
        self.seen = now
        text = exposition(Snapshot(1, now.at, 2, 1 << 33, rows(self.plan, now, usage, (), {})))
        if text.count(b"qoslet_memory_usage_bytes{") < GROUPS:
            raise SystemExit(text[:2000].decode())

    def looked_at(self) -> list[str]:
        """Every file that a look reads."""
        first = self.driver.layout.trees[0].point
        procs = [f"{first}{cgroup.path}/cgroup.procs" for cgroup in self.plan.cgroups]
        return [*procs, *self._files({*self.shown, *usage_files(self.hierarchy)})]

    def scraped(self) -> list[str]:
        """Every file that a scrape reads."""
        return self._files(usage_files(self.hierarchy).keys() - NOT_SHOWN)

    def _files(self, names: AbstractSet[str]) -> list[str]:
        """Those files of every cgroup that are there."""
        found = []
        for cgroup in self.plan.cgroups:
            for file in sorted(names):
                tree = self.driver.layout.tree_of(controller(file))
                if tree is not None:
                    found.append(f"{tree.point}{cgroup.path}/{file}")
        return [place for place in found if os.path.exists(place)]


def burnt(work: Callable[[], None]) -> float:
    """Milliseconds of CPU time."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1000


def _figure(name: str, work: Callable[[], None], reads: list[str], bound: float) -> Figure:
    """CPU time beside that of the bare reads."""
    pair = paired(partial(burnt, work), partial(burnt, partial(read_all, reads)), ROUNDS)
    floor = f"{len(reads)} bare open, read, close"
    return Figure(f"{GROUPS} groups, {name}", "ms", *pair, floor, bound)


def main() -> int:
    """Measure and print; 3 where this machine cannot do it."""
    if os.geteuid() != 0:
        print("bench.node.top makes cgroups: run it as root", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        bench = TopBench(Path(folder))
        try:
            bench.made()
            bench.driver.journal = None
            bench.start()
            figures = [
                _figure("a look of top", bench.look, bench.looked_at(), FACTOR),
                _figure("/metrics", bench.scrape, bench.scraped(), FACTOR),
            ]
            own = figures[-1].ours
            figures.append(
                Figure(f"{GROUPS} groups, /metrics, CPU", "ms", own, None, "", SCRAPE_MS)
            )
        finally:
            bench.clean()
            shutil.rmtree(f"{STATE}/{escaped(bench.root)}", ignore_errors=True)
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
