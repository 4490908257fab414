"""This machine as a whole: its CPUs and memory, and who wants and uses them. Reads only."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from qoslet.host.linux.procfs import process_state, text

_TICKS = os.sysconf("SC_CLK_TCK")
_USED = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq, steal: columns of /proc/stat (proc(5))."""


class MachineUtilization:
    """Matches ``agent.ports.Machine``. ``cores`` are the CPUs online, ``memory`` bytes."""

    def __init__(self) -> None:
        self.cores = float(os.sysconf("SC_NPROCESSORS_ONLN"))
        self.memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def busy_seconds(self) -> float | None:
        """CPU seconds used or stolen on all CPUs since the boot."""
        text = _text("/proc/stat")
        line = next((one for one in text.splitlines() if one.startswith("cpu ")), None)
        if line is None:
            return None
        columns = [int(word) for word in line.split()[1:]]
        return sum(columns[index] for index in _USED if index < len(columns)) / _TICKS

    def runnable(self, path: str, pids: Sequence[int]) -> int | None:
        """How many threads of ``pids`` run or wait for a CPU."""
        return sum(_wanting(pid) for pid in pids)


HOLDERS_TOLD = 5
"""How many processes are named where there are more."""


def _lift_nothing(path: str, *, overdue: bool) -> Sequence[str]:
    return ()


class Killing:
    """Matches ``agent.ports.CgroupKiller``. ``kill`` is a driver's; ``lift`` is for trees in which pods
    end."""

    def __init__(
        self,
        kill: Callable[[str], bool],
        lift: Callable[..., Sequence[str]] = _lift_nothing,
    ) -> None:
        self.kill = kill
        self.lift = lift

    def describe_processes(self, path: str, pids: Sequence[int], *, killed: bool = False) -> str:
        """``process 12 (sh)`` for each, a few of them; of those that were ``killed``, which no signal
        reaches: they are in state D."""
        named = [_described(pid, killed=killed) for pid in pids]
        more = f" and {len(named) - HOLDERS_TOLD} more" if len(named) > HOLDERS_TOLD else ""
        return ", ".join(named[:HOLDERS_TOLD]) + more

    def lives(self, pid: int) -> bool:
        """Whether a process has not ended (proc(5), state Z or X)."""
        state = process_state(pid)
        return bool(state) and state not in "ZX"


def _described(pid: int, *, killed: bool) -> str:
    name = _text(f"/proc/{pid}/comm").strip() or "?"
    asleep = ", in uninterruptible sleep" if killed and "D" in _thread_states(pid) else ""
    return f"process {pid} ({name}{asleep})"


def _wanting(pid: int) -> int:
    """Threads of a process in state R."""
    return _thread_states(pid).count("R")


def _thread_states(pid: int) -> list[str]:
    """The state of each thread of a process (proc(5))."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    stats = (_text(f"/proc/{pid}/task/{thread}/stat") for thread in threads)
    return [stat.rpartition(")")[2].lstrip()[:1] for stat in stats]


def _text(path: str) -> str:
    """A small file; empty where it cannot be read."""
    return text(path) or ""
