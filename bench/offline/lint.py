"""Traps looked for in a thousand manifests, against the plan of the same files.

Both are whole processes; what counts is their CPU time, which neighbours hardly change.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.figures import Figure, paired, show
from bench.pods import pod

MANIFESTS = 1_000
ROUNDS = 5


def busy(command: str, folder: str) -> float:
    """Milliseconds of CPU of a command of qoslet."""
    arguments = [sys.executable, "-m", "qoslet", command, folder, "-o", "json"]
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"qoslet {command} ended with {os.waitstatus_to_exitcode(status)}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(MANIFESTS):
            path = Path(folder) / f"{number:04}.json"
            path.write_text(json.dumps(pod(number), indent=2), encoding="utf-8")
        pair = paired(partial(busy, "lint", folder), partial(busy, "plan", folder), ROUNDS)
    show([Figure(f"lint of {MANIFESTS:,} manifests", "ms", *pair, "plan of the same", 2)])


if __name__ == "__main__":
    main()
