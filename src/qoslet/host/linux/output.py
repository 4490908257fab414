"""Standard output or error that never holds up or ends a run: a thread writes it, and tells when it
is gone.

A terminal that hangs up, a reader that exits and a disk that is full are the same to the caller:
``write`` goes on to work, and ``lost`` says why nothing is written any more.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from qoslet.host.linux.processes.limit import start_thread

BACKLOG_BYTES = 1 << 20
"""What waits for a slow reader at most; what comes beyond that is left out."""

DRAIN_SECONDS = 5.0
"""How long ``close`` waits for a reader that takes nothing."""


def _left_out(count: int) -> str:
    return f"… output left out {count} times: its reader is slow\n"


class OutputWriter:
    """Writes text to a descriptor in its order. ``lost`` is why it cannot, None while it can;
    ``on_lost`` is called once, in the writing thread, also where nothing was to be written: a pipe
    without a reader and a terminal that is gone are seen at once. A lost descriptor is pointed at
    /dev/null. ``left_out`` words how many texts a slow reader missed."""

    def __init__(
        self,
        descriptor: int,
        encoding: str = "utf-8",
        on_lost: Callable[[], None] = lambda: None,
        *,
        left_out: Callable[[int], str] = _left_out,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self.lost: OSError | None = None
        self._descriptor = descriptor
        self._encoding = encoding
        self._on_lost = on_lost
        self._left_out_text = left_out
        self._drain_seconds = drain_seconds
        self._terminal = os.isatty(descriptor)
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._left_out = 0
        self._progress = 0
        self._closing = self._given_up = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        start_thread(self._thread)

    def write(self, text: str) -> int:
        """Queue text; what the encoding lacks is escaped. Returns its length."""
        data = text.encode(self._encoding, "backslashreplace")
        with self._lock:
            if self.lost is not None or self._closing:
                return len(text)
            if self._bytes + len(data) > BACKLOG_BYTES:
                self._left_out += 1
                return len(text)
            data = self._note() + data
            waits = not self._queue
            self._queue.append(data)
            self._bytes += len(data)
        if waits:
            # a thread with text to write looks for more by itself: to wake it costs the caller a
            # moment without the interpreter
            os.eventfd_write(self._wake, 1)
        return len(text)

    def _note(self) -> bytes:
        """How many texts were left out since it was said last; nothing where none was."""
        if not self._left_out:
            return b""
        note = self._left_out_text(self._left_out)
        self._left_out = 0
        return note.encode(self._encoding, "backslashreplace")

    def flush(self) -> None:
        """What is queued is written anyway."""

    def close(self) -> None:
        """Wait until everything is written, the output is lost or nobody takes any of it; then the
        descriptor is pointed at /dev/null."""
        with self._lock:
            if note := self._note():
                self._queue.append(note)
                self._bytes += len(note)
            self._closing = True
        os.eventfd_write(self._wake, 1)
        progress, deadline = self._progress, time.monotonic() + self._drain_seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(0.05)
            if progress != self._progress:
                progress, deadline = self._progress, time.monotonic() + self._drain_seconds
        with self._lock:
            self._given_up = self._thread.is_alive()
        if self._given_up:
            silence(self._descriptor)
        else:
            os.close(self._wake)

    def _run(self) -> None:
        """The writing thread."""
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        poller.register(self._descriptor, 0)
        try:
            while True:
                data = self._next()
                if data is not None:
                    self._write_all(data)
                elif self._closing:
                    return
                else:
                    self._wait(poller)
        except OSError as error:
            self._lose(error)

    def _next(self) -> bytes | None:
        """What is to be written next."""
        with self._lock:
            if not self._queue:
                return None
            data = self._queue.popleft()
            self._bytes -= len(data)
            return data

    def _wait(self, poller: select.poll) -> None:
        """Wait for text. Raises OSError where the other end is gone."""
        for descriptor, events in poller.poll():
            if descriptor == self._wake:
                os.eventfd_read(self._wake)
            elif events & select.POLLNVAL:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            else:
                number = errno.EIO if self._terminal else errno.EPIPE
                raise OSError(number, os.strerror(number))

    def _write_all(self, data: bytes) -> None:
        """Write it; a descriptor that must not block is waited for. Raises OSError."""
        while data:
            try:
                count = os.write(self._descriptor, data)
            except BlockingIOError:
                room = select.poll()
                room.register(self._descriptor, select.POLLOUT)
                room.poll()
                continue
            data = data[count:]
            self._progress += count

    def _lose(self, error: OSError) -> None:
        """Nothing can be written any more."""
        with self._lock:
            if self._given_up:
                # the descriptor's number may be another's by now
                return
            self.lost = error
            self._queue.clear()
            self._bytes = 0
        silence(self._descriptor)
        self._on_lost()


def silence(descriptor: int) -> None:
    """Point a descriptor at /dev/null, so that no later write to it fails."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(null, descriptor)
        os.close(null)
