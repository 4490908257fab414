"""Reclaims memory through ``memory.reclaim``, in threads and in small amounts: the write itself
blocks while the kernel works.

Source: Documentation/admin-guide/cgroup-v2.rst memory.reclaim (5.19).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from errno import EAGAIN

from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.cgroupfs.reclaim import RECLAIM
from qoslet.host.linux.processes.limit import start_thread

WRITE_BYTES = 4 << 20
"""Bytes of one write."""
MAX_SECONDS = 1.0
"""After which no further one is begun."""
MAX_RUNNING = 4
"""Cgroups that are reclaimed from at once: each costs a CPU while it lasts."""


class KernelReclaim:
    """Matches ``agent.memory_ports.ProactiveReclaim``, ``MAX_RUNNING`` cgroups at a time. ``hierarchy`` and
    ``mounts`` are as for ``layout.layout_of``."""

    def __init__(self, hierarchy: str, mounts: Mapping[str, str] | str) -> None:
        self._tree = layout_of(hierarchy, mounts).tree_of("memory")
        self.running: set[str] = set()
        self._refused: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether so many reclaims are running that none can be begun."""
        return len(self.running) >= MAX_RUNNING

    def begin(self, path: str, amount: int) -> str:
        """Start to reclaim so many bytes; one of this cgroup that is running goes on instead. Returns
        the error, empty if none."""
        import threading

        if path in self.running:
            return ""
        self._refused.discard(path)
        if self.busy:
            return f"{RECLAIM}: {MAX_RUNNING} others are running"
        if self._tree is None:
            return "no memory controller"
        try:
            descriptor = self._tree.open_to_write(path, RECLAIM)
        except OSError as error:
            return f"{RECLAIM}: {error.strerror}"
        self.running.add(path)
        thread = threading.Thread(
            target=self._run, args=(path, descriptor, amount), name="reclaim", daemon=True
        )
        try:
            start_thread(thread)
        except OSError as error:
            self.running.discard(path)
            os.close(descriptor)
            return str(error.strerror)
        return ""

    def refused(self, path: str) -> bool:
        """Whether the last reclaim of this cgroup is over, and every write failed with EAGAIN."""
        return path not in self.running and path in self._refused

    def forget(self, path: str) -> None:
        """Drop the answer for a cgroup."""
        self._refused.discard(path)

    def _run(self, path: str, descriptor: int, amount: int) -> None:
        """Write until enough is reclaimed, the time is over, or the kernel refuses: it has tried
        sixteen times then."""
        until = time.monotonic() + MAX_SECONDS
        refused, fruitful = False, False
        try:
            while amount > 0 and not refused and time.monotonic() < until:
                try:
                    os.write(descriptor, b"%d" % min(WRITE_BYTES, amount))
                    fruitful = True
                except OSError as error:
                    if error.errno != EAGAIN:
                        return
                    refused = True
                amount -= WRITE_BYTES
        finally:
            if refused and not fruitful:
                self._refused.add(path)
            os.close(descriptor)
            self.running.discard(path)
