"""Pressure triggers: the kernel says when processes have waited for memory.

A trigger is always readable and tells by POLLPRI, once, so a thread of its own waits for it and
makes an eventfd readable. Source: Documentation/accounting/psi.rst "Monitoring for pressure
thresholds"; kernel/sched/psi.c psi_trigger_poll.
"""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from errno import EINVAL

from qoslet.host.linux.processes.limit import start_thread

SHARE = 0.1
"""Of the window in which some process waited."""
WINDOWS = (1_000_000, 2_000_000)
"""Microseconds, the first that the kernel takes: without CAP_SYS_RESOURCE only multiples of 2 s."""


class Triggers:
    """Triggers by the name that they are told with."""

    def __init__(self) -> None:
        self._fds: dict[str, int] = {}
        self._why = ""
        self._fired: set[str] = set()
        self._lock = threading.Lock()
        self._told = self._end = -1
        self._poll: select.epoll | None = None
        self._thread: threading.Thread | None = None

    @property
    def how(self) -> str:
        """What it watches, or why it cannot."""
        if self._fds:
            return f"memory pressure above {SHARE:.0%} wakes the agent"
        return f"memory pressure does not wake the agent: {self._why or 'the kernel has none'}"

    def add(self, name: str, path: str) -> bool:
        """Watch a file; whether the kernel can."""
        descriptor = self._open(path)
        if descriptor is None:
            return False
        if self._poll is None:
            self._start()
        self.drop(name)
        assert self._poll is not None
        with self._lock:
            self._fds[name] = descriptor
        self._poll.register(descriptor, select.EPOLLPRI)
        return True

    def drop(self, name: str) -> None:
        """Watch it no longer."""
        with self._lock:
            descriptor = self._fds.pop(name, None)
        if descriptor is not None:
            self._forget(descriptor)
            os.close(descriptor)

    def _forget(self, descriptor: int) -> None:
        """Wait for it no longer; one that the other thread has dropped is no fault."""
        assert self._poll is not None
        with suppress(OSError):
            self._poll.unregister(descriptor)

    def woken(self) -> frozenset[str]:
        """Those that fired since asked last."""
        if self._told < 0:
            return frozenset()
        try:
            os.eventfd_read(self._told)
        except BlockingIOError:
            return frozenset()
        with self._lock:
            fired, self._fired = frozenset(self._fired), set()
        return fired

    def descriptors(self) -> list[int]:
        """The eventfd, if anything is watched."""
        return [self._told] if self._told >= 0 else []

    def close(self) -> None:
        """End the thread and give everything back."""
        if self._thread is None:
            return
        os.eventfd_write(self._end, 1)
        self._thread.join()
        for name in list(self._fds):
            self.drop(name)
        assert self._poll is not None
        self._poll.close()
        os.close(self._told)
        os.close(self._end)
        self._told, self._thread = -1, None

    def _open(self, path: str) -> int | None:
        """An armed trigger."""
        for window in WINDOWS:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                self._why = error.strerror or ""
                return None
            try:
                os.write(descriptor, b"some %d %d\0" % (int(window * SHARE), window))
                return descriptor
            except OSError as error:
                os.close(descriptor)
                self._why = error.strerror or ""
                if error.errno != EINVAL:
                    return None
        return None

    def _start(self) -> None:
        flags = os.EFD_NONBLOCK | os.EFD_CLOEXEC
        self._told, self._end = os.eventfd(0, flags), os.eventfd(0, flags)
        self._poll = select.epoll()
        self._poll.register(self._end, select.EPOLLIN)
        self._thread = threading.Thread(target=self._wait, name="memory pressure", daemon=True)
        start_thread(self._thread)

    def _wait(self) -> None:
        """Until the end: who fired, told at most as often as the windows pass."""
        assert self._poll is not None
        while True:
            ready = dict(self._poll.poll())
            if self._end in ready:
                return
            with self._lock:
                self._fired.update(name for name, one in self._fds.items() if one in ready)
            for descriptor, what in ready.items():
                if what & select.EPOLLERR:
                    # its group is gone: it would be ready for ever
                    self._forget(descriptor)
            os.eventfd_write(self._told, 1)
