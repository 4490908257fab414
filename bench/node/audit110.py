"""An audit of a whole node, 110 pods with 2 containers each, against the bare reads of the same files.

The tree is that of ``bench.node.apply110``, with a process in each container. Warm is one look in a running process, as ``qoslet audit --watch``
does it; cold is a whole ``qoslet audit`` in an interpreter of its own. The floor opens, reads and
closes each file that the look has read, once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from bench.figures import Figure, paired, show
from bench.node.apply50 import timed
from bench.node.apply110 import GROUPS, PROGRAM, ROUNDS, Bench, read_all
from bench.offline.cold import EMPTY, child
from qoslet.app.audit.machine import LiveMachine, look
from qoslet.core.cgroup.interface_files import controller
from qoslet.core.node.node import PLANNED_CONTROLLERS
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader
from qoslet.host.state.folder import STATE, escaped

WARM_FACTOR, COLD_FACTOR = 3.0, 4.5
"""Cold: 200 ms where an interpreter and the reads take 45."""


class AuditBench(Bench):
    """The audit of the tree."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        points = {"unified": self.mounts} if isinstance(self.mounts, str) else dict(self.mounts)
        self.points = points
        self.processes: list[subprocess.Popen[bytes]] = []
        self.source = LiveMachine(CgroupReader(self.hierarchy, points), systemd=False)

    def start(self) -> None:
        """A process in each container, with its score."""
        for cgroup in self.plan.cgroups:
            if cgroup.level == "container" and cgroup.path is not None:
                child = subprocess.Popen(["sleep", "100000"])
                self.processes.append(child)
                (done,) = self.driver.perform([Step("attach", cgroup.path, pid=child.pid)])
                if done.error is not None:
                    raise SystemExit(done.error)
                with suppress(PermissionError):
                    score = Path(f"/proc/{child.pid}/oom_score_adj")
                    score.write_text(str(cgroup.oom_score_adj))

    def clean(self) -> None:
        """End the processes, and remove every cgroup."""
        for one in self.processes:
            one.kill()
        for one in self.processes:
            one.wait()
        super().clean()

    def audit(self) -> None:
        """One look."""
        report = look(self.plan, self.source, self.points)[1]
        if report.compared < GROUPS or report.findings:
            raise SystemExit(f"{report.compared} compared, {len(report.findings)} findings")

    def audited_files(self) -> list[str]:
        """Every file that a look reads."""
        live = look(self.plan, self.source, self.points)[0]
        found = []
        for path, group in live.cgroups.items():
            below = "" if path == "/" else path
            read = [file for file in group.values if not (group.pids and file == "cpuset.mems")]
            found += [f"{self._point(controller(file))}{below}/{file}" for file in read]
            found += [f"{one}{below}/cgroup.procs" for one in self._trees()]
        found += [f"/proc/{one.pid}/oom_score_adj" for one in self.processes]
        return [place for place in found if os.path.exists(place)]

    def _point(self, name: str) -> str:
        return self.points.get(name) or self.points.get("unified", "")

    def _trees(self) -> list[str]:
        """The hierarchies that an audit reads."""
        if self.hierarchy == "v2":
            return [self._point("")]
        return list(
            dict.fromkeys(
                self.points[one] for one in sorted(PLANNED_CONTROLLERS & self.points.keys())
            )
        )

    def cold_audit(self) -> float:
        """Milliseconds of a whole ``qoslet audit``."""
        command = [PROGRAM, "audit", "-f", str(self.manifests), "-o", "json"]
        command += ["--cgroup-root", self.root, "--kubernetes", "1.36"]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        elapsed = (time.perf_counter() - begin) * 1000
        if done.returncode:
            raise SystemExit(f"qoslet audit: {done.stderr}")
        return elapsed


def main() -> int:
    """Measure and print; 3 where this machine cannot do it."""
    if os.geteuid() != 0:
        print("bench.node.audit110 makes cgroups: run it as root", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        bench = AuditBench(Path(folder))
        try:
            bench.made()
            bench.driver.journal = None
            bench.start()
            reads = bench.audited_files()
            floor = partial(timed, partial(read_all, reads))
            name = f"{len(reads)} bare open, read, close"
            warm, below = paired(partial(timed, bench.audit), floor, ROUNDS)
            figures = [
                Figure(f"{GROUPS} groups, audit, warm", "ms", warm, below, name, WARM_FACTOR)
            ]
            cold, below = paired(bench.cold_audit, lambda: child(EMPTY)[0] + floor(), ROUNDS)
            name = f"python3 -c pass + {name}"
            figures.append(
                Figure(f"{GROUPS} groups, audit, cold", "ms", cold, below, name, COLD_FACTOR)
            )
        finally:
            bench.clean()
            shutil.rmtree(f"{STATE}/{escaped(bench.root)}", ignore_errors=True)
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
