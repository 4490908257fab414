"""Starting from nothing: the whole process of ``qoslet plan`` against an empty Python.

Wall time and peak memory are the kernel's own accounts of each child.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

from bench.figures import Figure, paired, show

ROUNDS = 40
HERE = Path(__file__).parents[1]
PROGRAM = str(Path(sys.executable).with_name("qoslet"))
EMPTY = [sys.executable, "-c", "pass"]


def child(command: list[str]) -> tuple[float, float]:
    """Milliseconds and peak MB of one run; its output goes nowhere."""
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    elapsed = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return elapsed * 1000, usage.ru_maxrss / 1024


def against_empty(name: str, command: list[str], bound: float) -> Figure:
    """The figure of a command's wall time."""
    ours, floor = paired(lambda: child(command)[0], lambda: child(EMPTY)[0], ROUNDS)
    return Figure(name, "ms", ours, floor, "python3 -c pass", bound)


def main() -> None:
    """Measure and print."""
    overview = [PROGRAM, "--help"]
    as_json = [PROGRAM, "plan", "-f", str(HERE / "pod.json"), "-o", "json"]
    as_tree = [PROGRAM, "plan", "-f", str(HERE / "pod.yaml")]
    peak = statistics.median(child(as_json)[1] for _ in range(5))
    show(
        [
            against_empty("the overview of --help, cold", overview, 1.5),
            against_empty("plan, JSON to JSON, cold", as_json, 3.7),
            against_empty("plan, YAML to tree, cold", as_tree, 8),
            Figure("plan, JSON to JSON, peak memory", "MB", peak, None, "", 20),
        ]
    )


if __name__ == "__main__":
    main()
