"""Takes whole requests from peers and hands each to what answers, over any listening socket.

Whoever asks can hold up neither the program nor another peer: a whole request is bounded in size
and time before it takes one of the threads that answer, and each peer's user is checked where the
socket is private.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from errno import ENOBUFS, ENOSPC
from typing import Any

from msgspec import Struct

from qoslet.errors import SHORTAGES, CannotDo
from qoslet.host.linux.descriptors import owned, polled
from qoslet.host.linux.peer import peer_of
from qoslet.host.linux.processes.limit import start_thread
from qoslet.host.questions.http_client import REQUEST_SECONDS
from qoslet.host.state.own_files import put_in_place, unlink

AT_ONCE = 8
"""Answers under way; a further one waits for its turn."""
ASKING = 64
"""Peers whose request is not complete, or waits; a further one takes the place of the oldest."""
REQUEST_MAX = 64 * 1024
"""Bytes of a request; what is there of a longer one is answered."""

_EXHAUSTED = (*SHORTAGES, ENOBUFS)


class Streamed(Struct, frozen=True):
    """An answer that goes on: ``begin`` is sent at once, then ``take`` owns the peer, also where it
    closes it."""

    begin: bytes
    take: Callable[[socket.socket], None]


Answer = Callable[[bytes], "bytes | Streamed"]
"""The text of a request to its answer; called in a thread of the server."""


class _PendingRequest(Struct):
    """A peer whose request is not complete, and when it must be (monotonic seconds)."""

    peer: socket.socket
    until: float
    text: bytearray


class _RequestWorker:
    """Answers complete requests in ``AT_ONCE`` threads at most; none waits where nothing is asked."""

    def __init__(self, answer: Answer, seconds: float) -> None:
        self._answer = answer
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: deque[tuple[socket.socket, bytes]] = deque()
        self._threads = 0

    def add(self, peer: socket.socket, request: bytes) -> None:
        """Answer a request and close its peer."""
        with self._lock:
            self._waiting.append((peer, request))
            if len(self._waiting) > ASKING:
                self._waiting.popleft()[0].close()
            if self._threads == AT_ONCE:
                return
            self._threads += 1
        try:
            start_thread(threading.Thread(target=self._work, name="answer", daemon=True))
        except OSError:
            # no thread can be made: where none is left to answer, the one that asks does
            with self._lock:
                others = self._threads > 1
                self._threads -= others
            if not others:
                self._work()

    def _work(self) -> None:
        done = False
        try:
            self._answer_all()
            done = True
        finally:
            # a fault in one answer must not take the place of a thread for good
            if not done:
                with self._lock:
                    self._threads -= 1

    def _answer_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                peer, request = self._waiting.popleft()
            with peer:
                try:
                    answer = self._answer(request)
                    # of sendall as a whole
                    peer.settimeout(self._seconds)
                    if isinstance(answer, Streamed):
                        peer.sendall(answer.begin)
                        answer.take(peer.dup())
                        continue
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                except (OSError, MemoryError):
                    # a peer that went away, or reads too slowly, is its own trouble
                    continue


class RequestServer:
    """Answers requests until it is closed. ``user``: only that one and root may ask. ``seconds`` bound a whole request, and its answer."""

    def __init__(
        self,
        listener: socket.socket,
        answer: Answer,
        *,
        user: int | None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._user = user
        self._seconds = seconds
        self._asking: dict[int, _PendingRequest] = {}
        self._answers = _RequestWorker(answer, seconds)
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(listener, select.POLLIN)
        self._poller.register(self._reader, select.POLLIN)
        self._thread = threading.Thread(target=self._serve, name="state", daemon=True)
        start_thread(self._thread)

    @property
    def address(self) -> Any:
        """Where it listens."""
        return self._listener.getsockname()

    def _serve(self) -> None:
        """Take peers and what they send; the pipe ends it, so that waiting costs no wake-ups."""
        while True:
            ready = {descriptor for descriptor, _ in polled(self._poller, self._wait())}
            if self._reader in ready:
                break
            for descriptor in ready & self._asking.keys():
                self._receive(descriptor)
            now = time.monotonic()
            late = [number for number, asking in self._asking.items() if asking.until <= now]
            for descriptor in late:
                self._taken(descriptor).peer.close()
            if self._listener.fileno() in ready:
                self._accept()
        for descriptor in list(self._asking):
            self._taken(descriptor).peer.close()

    def _wait(self) -> float | None:
        """Milliseconds until a peer is late; the first has come first."""
        if not self._asking:
            return None
        first = next(iter(self._asking.values()))
        return max(0.0, first.until - time.monotonic()) * 1000 + 1

    def _taken(self, descriptor: int) -> _PendingRequest:
        self._poller.unregister(descriptor)
        return self._asking.pop(descriptor)

    def _accept(self) -> None:
        """Take the next peer; where nothing is left for it, the oldest one has to go."""
        if len(self._asking) >= ASKING:
            self._taken(next(iter(self._asking))).peer.close()
        try:
            peer, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED and self._asking:
                self._taken(next(iter(self._asking))).peer.close()
            elif error.errno in _EXHAUSTED:
                # the listener stays readable: do not spin
                time.sleep(0.1)
            return
        if self._user is not None and peer_of(peer).uid not in (0, self._user):
            peer.close()
            return
        peer.setblocking(False)
        self._poller.register(peer, select.POLLIN)
        until = time.monotonic() + self._seconds
        self._asking[peer.fileno()] = _PendingRequest(peer, until, bytearray())

    def _receive(self, descriptor: int) -> None:
        """Take what a peer sent; a complete request is answered."""
        asking = self._asking[descriptor]
        try:
            chunk = asking.peer.recv(REQUEST_MAX)
        except BlockingIOError:
            return
        except OSError:
            self._taken(descriptor).peer.close()
            return
        asking.text += chunk
        tail = asking.text[-len(chunk) - 3 :]
        ended = b"\n\r\n" in tail or b"\n\n" in tail
        if ended or not chunk or len(asking.text) > REQUEST_MAX:
            self._taken(descriptor)
            self._answers.add(asking.peer, bytes(asking.text))

    def close(self) -> None:
        """No further question is taken."""
        os.write(self._writer, b"!")
        self._thread.join()
        self._listener.close()
        os.close(self._reader)
        os.close(self._writer)


def private_listener(folder: str, name: str, what: str = "the socket") -> socket.socket:
    """Listen at ``name`` in ``folder``, mode 0600; one that is there already is replaced. Raises
    CannotDo about ``what``."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with owned(
            os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        ) as place:
            _bind(listener, place, name)
        listener.listen(ASKING)
    except OSError as error:
        listener.close()
        raise CannotDo(
            f"cannot create {what}: {error.strerror}", where=f"{folder}/{name}"
        ) from error
    return listener


def _bind(listener: socket.socket, place: int, name: str) -> None:
    """Private before anybody can find it: bound under another name, then renamed. By way of the
    open folder a long path fits into an address, too."""
    new = f"{name}.new"
    unlink(new, place)
    before = os.umask(0o177)
    try:
        try:
            listener.bind(f"/proc/self/fd/{place}/{new}")
        except OSError as error:
            if error.errno != ENOSPC:
                raise
            # the one that is to be replaced has the inode that is wanted
            unlink(name, place)
            listener.bind(f"/proc/self/fd/{place}/{new}")
    finally:
        os.umask(before)
    put_in_place(new, name, place)
