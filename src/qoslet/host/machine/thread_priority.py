"""Gives a thread the CPU before others: real-time where the kernel allows it, else nice.

What the thread starts meanwhile runs as usual. Nice counts among the processes of one cgroup only;
real-time does not know cgroups. Source: sched(7) ``SCHED_RR``, ``SCHED_RESET_ON_FORK``,
"The autogroup feature", "Real-time group scheduling".
"""

from __future__ import annotations

import os
from contextlib import suppress

_PRIORITY = 1
_NICE = -20


class ThreadPriority:
    """Of the thread that calls it. ``how`` is what the kernel allowed the last time."""

    def __init__(self) -> None:
        self._usual = os.getpriority(os.PRIO_PROCESS, 0)
        self._first = False
        self.how = ""

    def __call__(self, first: bool) -> None:
        """Before others from now on, or as before."""
        if first == self._first:
            return
        self._first = first
        if first:
            self.how = self._raise()
        elif self.how:
            self._give_back()

    def _raise(self) -> str:
        """Empty where the kernel allows nothing."""
        try:
            param = os.sched_param(_PRIORITY)
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, param)
        except OSError:
            pass
        else:
            return "real-time"
        try:
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        except OSError:
            return ""
        return "nice"

    def _give_back(self) -> None:
        # it was allowed a moment ago; the next change tries again
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, self._usual)


def lacking_priority() -> str:
    """What this thread has instead of real-time priority; empty where the kernel allows that."""
    priority = ThreadPriority()
    priority(True)
    how = priority.how
    priority(False)
    if how == "real-time":
        return ""
    instead = f"at nice {_NICE}" if how else "as any process"
    return f"no real-time priority, it runs {instead}"
