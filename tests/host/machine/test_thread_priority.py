"""A thread that goes before others for a while, and what it starts meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread
from typing import Any

from qoslet.host.machine.thread_priority import ThreadPriority, lacking_priority

_USUAL = "import os; print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))"


def _policy() -> tuple[int, int]:
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    return policy, os.getpriority(os.PRIO_PROCESS, 0)


def test_a_thread_goes_before_others_and_what_it_starts_does_not() -> None:
    seen: dict[str, Any] = {}

    def run() -> None:
        before, priority = _policy(), ThreadPriority()
        priority(True)
        priority(True)
        seen["how"], seen["first"] = priority.how, _policy()
        child = subprocess.run(
            [sys.executable, "-S", "-c", _USUAL], capture_output=True, text=True, check=True
        )
        seen["child"] = child.stdout.split()
        priority(False)
        seen["lacks"] = lacking_priority()
        seen["same"] = _policy() == before

    thread = Thread(target=run)
    thread.start()
    thread.join()
    policy, nice = seen["first"]
    assert seen["how"] == ("real-time" if policy == os.SCHED_RR else "nice" if nice == -20 else "")
    assert seen["child"] == [str(os.SCHED_OTHER), "0"] or not seen["how"]
    lacks = {"real-time": "", "nice": "it runs at nice -20", "": "it runs as any process"}
    assert seen["lacks"].endswith(lacks[seen["how"]])
    assert bool(seen["lacks"]) == (seen["how"] != "real-time")
    assert seen["same"]
    assert _policy()[0] == os.SCHED_OTHER, "only that thread"
