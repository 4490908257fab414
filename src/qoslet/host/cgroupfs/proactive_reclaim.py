"""Reclaims memory through ``memory.reclaim``, in a thread and in small amounts: the write itself
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

WRITE_BYTES = 4 << 20
"""Bytes of one write."""
MAX_SECONDS = 1.0
"""After which no further one is begun."""
MAX_FRUITLESS = 2
"""Writes without success after which it is given up."""


class KernelReclaim:
    """Matches ``agent.ports.ProactiveReclaim``, one cgroup at a time. ``hierarchy`` and ``mounts``
    are as for ``cgroupfs.layout_of``."""

    def __init__(self, hierarchy: str, mounts: Mapping[str, str] | str) -> None:
        self._tree = layout_of(hierarchy, mounts).tree_of("memory")
        self._busy = False
        self._refused = ""

    @property
    def busy(self) -> bool:
        """Whether a reclaim is running."""
        return self._busy

    def begin(self, path: str, amount: int) -> str:
        """Start to reclaim so many bytes. Returns the error, empty if none."""
        import threading

        if self._busy:
            return f"{RECLAIM}: another reclaim is running"
        if self._tree is None:
            return "no memory controller"
        try:
            descriptor = self._tree.open_to_write(path, RECLAIM)
        except OSError as error:
            return f"{RECLAIM}: {error.strerror}"
        self._busy, self._refused = True, ""
        thread = threading.Thread(
            target=self._run, args=(path, descriptor, amount), name="reclaim", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._busy = False
            os.close(descriptor)
            return f"cannot start a thread: {error}"
        return ""

    def refused(self, path: str) -> bool:
        """Whether every write of the last reclaim failed with EAGAIN, and it was of this cgroup."""
        return not self._busy and self._refused == path

    def _run(self, path: str, descriptor: int, amount: int) -> None:
        """Write until enough is reclaimed, the time is over, or nothing more comes."""
        until = time.monotonic() + MAX_SECONDS
        fruitless, fruitful = 0, False
        try:
            while amount > 0 and fruitless < MAX_FRUITLESS and time.monotonic() < until:
                try:
                    os.write(descriptor, b"%d" % min(WRITE_BYTES, amount))
                    fruitless, fruitful = 0, True
                except OSError as error:
                    if error.errno != EAGAIN:
                        return
                    fruitless += 1
                amount -= WRITE_BYTES
        finally:
            self._refused = path if fruitless and not fruitful else ""
            self._busy = False
            os.close(descriptor)
