"""Processes in words, as messages name them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from qoslet.host.linux.procfs import process_state
from qoslet.host.machine.utilization import Killing

SLEEPS = "import time; time.sleep(60)"
WAITS = "import ctypes, time; ctypes.PyDLL(None).vfork() or time.sleep(60)"
"""The kernel has a parent in state D until the child of its vfork runs another program."""


@contextmanager
def process(script: str, state: str) -> Iterator[int]:
    """A process of Python once it is in a state."""
    made = subprocess.Popen([sys.executable, "-S", "-c", script], start_new_session=True)
    try:
        deadline = time.monotonic() + 20
        while process_state(made.pid) != state or not os.listdir(f"/proc/{made.pid}/task"):
            assert time.monotonic() < deadline, process_state(made.pid)
            time.sleep(0.01)
        yield made.pid
    finally:
        os.killpg(made.pid, signal.SIGKILL)
        made.wait()


def test_a_process_that_no_signal_reaches_is_named_so() -> None:
    killing = Killing(lambda path: True)
    with process(SLEEPS, "S") as asleep, process(WAITS, "D") as waits:
        said = killing.describe_processes("/p", [asleep, waits], killed=True)
        before = killing.describe_processes("/p", [waits])
    names = [part.partition(" (")[0] for part in said.split("), ")]
    assert names == [f"process {asleep}", f"process {waits}"]
    assert "sleep" not in before
    assert [", in uninterruptible sleep" in part for part in said.split("), ")] == [False, True]


def test_a_process_that_is_gone_has_no_name() -> None:
    assert Killing(lambda path: True).describe_processes("/p", [4194305]) == "process 4194305 (?)"
