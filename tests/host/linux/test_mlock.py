"""A process that keeps its memory, or says why it cannot."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from qoslet.host.linux.mlock import lock_memory
wrong = lock_memory()
more = bytearray(1 << 24)
rows = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(wrong, "|", rows["VmLck"].split()[0], "|", rows["CapEff"].strip())
"""


def test_what_is_used_stays_and_what_is_not_costs_nothing() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    wrong, locked, rights = (part.strip() for part in said.stdout.split("|"))
    may = int(rights, 16) >> 14 & 1
    assert bool(wrong) != bool(may), said
    assert (int(locked) > 0) == bool(may)
