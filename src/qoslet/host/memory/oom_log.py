"""The kernel's log, read for kills of processes for memory; matches ``agent.memory_ports.OomLog``.

It is read when somebody asks, from the place where the last reading ended: between two kills it
costs nothing. Source: Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import os
from errno import EPIPE

from qoslet.core.memory.events import OomKill
from qoslet.core.memory.stat_parser import kill_of

PATH = "/dev/kmsg"
_RECORD = 8192
"""A record is never longer. Source: kernel/printk CONSOLE_EXT_LOG_MAX, PRINTK_MESSAGE_MAX."""
_MOST = 20_000
"""Records of one reading: whoever writes without end must not keep us here."""


class KernelLog:
    """Kills since it was opened. One that cannot be opened is not readable, and tells of none."""

    def __init__(self) -> None:
        self._fd = -1
        try:
            self._fd = os.open(PATH, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    @property
    def readable(self) -> bool:
        """Whether kills can be told."""
        return self._fd >= 0

    def kills(self) -> list[OomKill]:
        """Kills since the last call, in order; what the log has lost meanwhile is lost."""
        found: list[OomKill] = []
        for _ in range(_MOST if self._fd >= 0 else 0):
            try:
                record = os.read(self._fd, _RECORD)
            except OSError as error:
                if error.errno == EPIPE:
                    continue
                return found
            if not record:
                return found
            kill = kill_of(record.decode("utf-8", "replace"))
            if kill is not None:
                found.append(kill)
        return found

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
