"""Every figure in one table, each beside its floor; ends with 1 if one is missed.

Each benchmark is a process of its own, so that none pays for another's memory. ``--keep`` writes
the run to ``bench/results/figures.json``, from which ``make docs`` makes the tables of README and
``docs/performance.md``.
"""

from __future__ import annotations

import compileall
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import qoslet
from bench.figures import Figure, table

BENCHMARKS = (
    "bench.offline.cold",
    "bench.offline.pods10k",
    "bench.offline.fleet",
    "bench.offline.lint",
    "bench.offline.source",
    "bench.node.apply50",
    "bench.node.apply110",
    "bench.node.audit110",
    "bench.node.top",
    "bench.running.groups",
    "bench.offline.convert",
    "bench.running.agent",
    "bench.node.record",
)


KEPT = Path(__file__).parent / "results" / "figures.json"
PACKAGE = Path(qoslet.__file__).parent


def load() -> float:
    """How many tasks wanted a CPU over the last minute."""
    return os.getloadavg()[0]


def machine() -> str:
    """What the figures are measured on, in one line."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(": ")[2]
            break
    cpus = len(os.sched_getaffinity(0))
    version = platform.python_version()
    return f"{model}, {cpus} CPUs, Linux {platform.release()}, Python {version}"


def figures_of(module: str) -> list[Figure]:
    """Run one benchmark; its own words go to standard error."""
    print(f"{module} ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", module, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"{module} ended with {done.returncode}", file=sys.stderr)
    rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return [Figure(**json.loads(row)) for row in rows]


def main() -> int:
    """Measure all and print the table."""
    here, before = machine(), load()
    # as pip does: where Python may write no compiled form, a changed module is compiled at each start
    compileall.compile_dir(PACKAGE, quiet=1)
    results = [(module, figures_of(module)) for module in BENCHMARKS]
    figures = [figure for _, some in results for figure in some]
    print(f"{here}, load {before:.2f} before the run\n\n{table(figures)}")
    if "--keep" in sys.argv:
        rows = [figure._asdict() for figure in figures]
        document = {"machine": here, "load": round(before, 2), "figures": rows}
        KEPT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    silent = [module for module, some in results if not some]
    for module in silent:
        print(f"{module} measured nothing", file=sys.stderr)
    return int(bool(silent) or not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
