"""Answers questions about a running agent: over a private unix socket, and, where the owner asks
for it, over TCP.

HTTP, read only, beside the loop: a question is answered from pages that the loop has published, so
nobody who asks can hold it up. The socket is made in a directory that only its owner enters, is
private before it listens, and each peer's user is checked. A whole request is bounded in size and
time before it takes one of the threads that answer, so peers that send slowly hold up no others.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from errno import ENOBUFS
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any

from msgspec import Struct

from qoslet.errors import SHORTAGES, BadInput, CannotDo, QosletError
from qoslet.host.state.folder import AGENT_SOCKET
from qoslet.host.state.http_client import REQUEST_SECONDS

AT_ONCE = 8
"""Answers under way; a further one waits for its turn."""
ASKING = 64
"""Peers whose request is not complete, or waits; a further one takes the place of the oldest."""
REQUEST_MAX = 64 * 1024
"""Bytes of a request; what is there of a longer one is answered."""

_EXHAUSTED = (*SHORTAGES, ENOBUFS)


class Page(Struct, frozen=True):
    """An answer: its media type and its bytes."""

    media: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
"""Path to what makes its page; called in the server's thread."""


class _Handler(BaseHTTPRequestHandler):
    """One request: GET or HEAD of a page. ``request`` is its text, ``server`` the pages."""

    server_version = "qoslet"
    sys_version = ""
    server: Any

    def setup(self) -> None:
        """The request is complete, the answer is sent when it is."""
        self.rfile: Any = BytesIO(self.request)
        self.wfile: Any = BytesIO()

    def finish(self) -> None:
        """``answer_to`` sends it."""

    def do_GET(self) -> None:
        """The page, or 404."""
        self._answer(whole=True)

    def do_HEAD(self) -> None:
        """Its head."""
        self._answer(whole=False)

    def _answer(self, whole: bool) -> None:
        path = self.path.partition("?")[0]
        make = self.server.get(path)
        if make is None:
            known = " ".join(sorted(self.server))
            self._send(404, Page("text/plain", f"the pages are {known}\n".encode()), whole)
            return
        try:
            page = make()
        except QosletError as error:
            self._send(503, Page("text/plain", f"{error}\n".encode()), whole)
            return
        self._send(200, page, whole)

    def _send(self, status: int, page: Page, whole: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", page.media)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if whole:
            self.wfile.write(page.body)

    def address_string(self) -> str:
        """Peers have no address here."""
        return "peer"

    def log_message(self, format: str, *args: Any) -> None:
        """Questions are not logged."""


def _answer_to(request: bytes, pages: Pages) -> bytes:
    """What a peer gets; nothing for what is no request."""
    handler = _Handler(request, ("", 0), pages)  # type: ignore[arg-type]
    return bytes(handler.wfile.getvalue())


def _peer(request: socket.socket) -> int:
    """The user at the other end."""
    credentials = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


class _PendingRequest(Struct):
    """A peer whose request is not complete, and when it must be (monotonic seconds)."""

    peer: socket.socket
    until: float
    text: bytearray


class _RequestWorker:
    """Answers complete requests in ``AT_ONCE`` threads at most; none waits where nothing is asked."""

    def __init__(self, pages: Pages, seconds: float) -> None:
        self._pages = pages
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
            threading.Thread(target=self._work, name="answer", daemon=True).start()
        except RuntimeError:
            # no thread can be made: where none is left to answer, the one that asks does
            with self._lock:
                others = self._threads > 1
                self._threads -= others
            if not others:
                self._work()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                peer, request = self._waiting.popleft()
            with peer:
                try:
                    answer = _answer_to(request, self._pages)
                    # of sendall as a whole
                    peer.settimeout(self._seconds)
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                except (OSError, MemoryError):
                    # a peer that went away, or reads too slowly, is its own trouble
                    continue


class StateServer:
    """Serves ``pages`` until it is closed. ``seconds`` bound a whole request, and its answer."""

    def __init__(
        self,
        listener: socket.socket,
        pages: Pages,
        *,
        user: int | None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._user = user
        self._seconds = seconds
        self._asking: dict[int, _PendingRequest] = {}
        self._answers = _RequestWorker(pages, seconds)
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(listener, select.POLLIN)
        self._poller.register(self._reader, select.POLLIN)
        self._thread = threading.Thread(target=self._serve, name="state", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Any:
        """Where it listens."""
        return self._listener.getsockname()

    def _serve(self) -> None:
        """Take peers and what they send; the pipe ends it, so that waiting costs no wake-ups."""
        while True:
            ready = {descriptor for descriptor, _ in self._poller.poll(self._wait())}
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
        if self._user is not None and _peer(peer) not in (0, self._user):
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


def private(folder: str, pages: Pages) -> StateServer:
    """Listen at ``agent.sock`` in ``folder``, which only its owner can enter. One that is there
    already is replaced: whoever holds the folder's lock is the agent. Raises CannotDo."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _bind(listener, place)
        finally:
            os.close(place)
        listener.listen(ASKING)
    except OSError as error:
        listener.close()
        raise CannotDo(
            f"cannot create the agent's socket: {error.strerror}", where=f"{folder}/{AGENT_SOCKET}"
        ) from error
    return StateServer(listener, pages, user=os.geteuid())


def is_there(folder: str) -> bool:
    """Whether the agent's socket has its name."""
    return os.path.exists(f"{folder}/{AGENT_SOCKET}")


def forget(folder: str) -> None:
    """Remove the socket of an agent that is gone."""
    try:
        os.unlink(f"{folder}/{AGENT_SOCKET}")
    except OSError:
        return


def _bind(listener: socket.socket, place: int) -> None:
    """Private before anybody can find it: bound under another name, then renamed. By way of the
    open folder a long path fits into an address, too."""
    new = f"{AGENT_SOCKET}.new"
    try:
        os.unlink(new, dir_fd=place)
    except FileNotFoundError:
        pass
    before = os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{place}/{new}")
    finally:
        os.umask(before)
    os.rename(new, AGENT_SOCKET, src_dir_fd=place, dst_dir_fd=place)


def public(
    listener: socket.socket, pages: Pages, *, seconds: float = REQUEST_SECONDS
) -> StateServer:
    """Answer everybody who reaches a socket of ``listen``."""
    return StateServer(listener, pages, user=None, seconds=seconds)


def listen(address: str) -> socket.socket:
    """Listen at ``HOST:PORT``; who connects waits for an answer. Raises BadInput for no address,
    CannotDo where it is taken."""
    host, port = _parts(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(ASKING)
    except OSError as error:
        listener.close()
        raise CannotDo(f"cannot listen: {error.strerror}", where=address) from error
    return listener


def _parts(address: str) -> tuple[str, int]:
    """Numeric host and port; a port alone is on loopback."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise BadInput(
            f"{address!r} is not an address",
            where="--metrics-bind-address",
            hint="such as 127.0.0.1:9753, or 9753 for that port of 127.0.0.1",
        )
    host = host or "127.0.0.1"
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return host, int(port)
    raise BadInput(f"{host!r} is not a numeric address", hint="such as 127.0.0.1:9753")
