"""Server-sent events to browsers that watch: each gets what it lacks, and a slow one less often.

Source: WHATWG HTML, server-sent events.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from qoslet.host.linux.processes.limit import start_thread

WATCHING = 32
"""Streams at a time; a further one takes the place of the oldest."""
SLOW_SECONDS = 30.0
"""Time in which a browser must take what it was sent."""

_GONE = select.POLLRDHUP

Event = Callable[[str, int], "tuple[bytes, int]"]
"""What a page lacks since a look: an event, and the look after it. Empty: nothing."""


class _Stream(Struct):
    peer: socket.socket
    page: str
    look: int
    pending: bytearray
    since: float = 0.0


class Streams:
    """The browsers that watch. ``event`` is asked with the lock of this object held."""

    def __init__(self, event: Event) -> None:
        self._event = event
        self._lock = threading.Lock()
        self._streams: dict[int, _Stream] = {}
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ended = False
        self._thread = threading.Thread(target=self._serve, name="streams", daemon=True)
        start_thread(self._thread)

    def add(self, peer: socket.socket, page: str, look: int) -> None:
        """Take a browser that has ``page`` as of a look, and send it what it lacks."""
        peer.setblocking(False)
        with self._lock:
            if self._ended:
                peer.close()
                return
            if len(self._streams) >= WATCHING:
                self._close(next(iter(self._streams)))
            stream = _Stream(peer, page, look, bytearray(b"retry: 2000\n\n"), time.monotonic())
            self._streams[peer.fileno()] = stream
            self._feed(stream)
        self._wake()

    def publish(self) -> None:
        """There was a look: send each what it lacks."""
        with self._lock:
            for stream in list(self._streams.values()):
                self._feed(stream)
        self._wake()

    def close(self) -> None:
        """Let all go."""
        with self._lock:
            self._ended = True
        self._wake()
        self._thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def _feed(self, stream: _Stream) -> None:
        """Add what a browser lacks, unless it has not yet taken what was sent before."""
        if stream.pending and stream.look >= 0 and time.monotonic() - stream.since > SLOW_SECONDS:
            self._close(stream.peer.fileno())
            return
        if len(stream.pending) > 64:
            return
        event, stream.look = self._event(stream.page, stream.look)
        if event and not stream.pending:
            stream.since = time.monotonic()
        stream.pending += event
        self._send(stream)

    def _send(self, stream: _Stream) -> None:
        number = stream.peer.fileno()
        try:
            while stream.pending:
                sent = stream.peer.send(stream.pending)
                del stream.pending[:sent]
                stream.since = time.monotonic()
        except BlockingIOError:
            return
        except OSError:
            self._close(number)

    def _close(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.peer.close()

    def _wake(self) -> None:
        with suppress(OSError):
            os.write(self._writer, b"!")

    def _serve(self) -> None:
        """Send on what did not fit, and notice who goes."""
        while True:
            poller = select.poll()
            poller.register(self._reader, select.POLLIN)
            with self._lock:
                if self._ended:
                    for number in list(self._streams):
                        self._close(number)
                    return
                for number, stream in self._streams.items():
                    poller.register(number, _GONE | (select.POLLOUT if stream.pending else 0))
            ready = poller.poll()
            with self._lock:
                for number, what in ready:
                    if number == self._reader:
                        os.read(self._reader, 4096)
                    elif what & (_GONE | select.POLLHUP | select.POLLERR | select.POLLNVAL):
                        self._close(number)
                    elif number in self._streams:
                        self._send(self._streams[number])
