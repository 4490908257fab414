"""Threads that the kernel refuses."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading

import pytest

from qoslet.host.linux.output import OutputWriter
from qoslet.host.linux.processes import limit
from qoslet.host.linux.processes.limit import start_thread


def test_a_thread_that_cannot_be_had_is_a_shortage_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(OSError, match="cannot start a thread") as caught:
        start_thread(threading.Thread())
    assert caught.value.errno == errno.EAGAIN
    with pytest.raises(OSError, match="cannot start a thread"):
        OutputWriter(2, "utf-8")


def test_a_thread_starts() -> None:
    ran = threading.Event()
    start_thread(threading.Thread(target=ran.set))
    assert ran.wait(5)


class Dying(threading.Thread):
    """Has no memory before it runs."""

    def _bootstrap(self) -> None:
        raise MemoryError


def test_a_thread_that_dies_before_it_runs_is_a_shortage_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit, "BEGIN_SECONDS", 0.1)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with pytest.raises(OSError, match="no memory to begin") as caught:
        start_thread(Dying(daemon=True))
    assert caught.value.errno == errno.ENOMEM


NO_ROOM = """
import resource, threading
from qoslet.host.linux.processes.limit import start_thread
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), -1))
try:
    start_thread(threading.Thread())
except OSError as error:
    print(error.errno)
"""


def test_a_thread_whose_stack_has_no_room_is_a_shortage_of_memory() -> None:
    around = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM], env=around, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(errno.ENOMEM), done.stderr
