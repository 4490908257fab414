"""Answers questions about a running agent: over a private unix socket, and, where the owner asks
for it, over TCP.

HTTP, read only, one thread beside the loop: a question is answered from pages that the loop has
published, so nobody who asks can hold it up. The socket is made in a directory that only its
owner enters, is private before it listens, and each peer's user is checked. Requests are bounded
in size, time and number.
"""

from __future__ import annotations

import os
import select
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from msgspec import Struct

from qoslet.errors import BadInput, CannotDo, QosletError
from qoslet.host.state.folder import AGENT_SOCKET

REQUEST_SECONDS = 5.0
"""How long a peer may take to ask, or to read its answer."""
AT_ONCE = 8
"""Requests under way; a further one waits for its turn."""


class Page(Struct, frozen=True):
    """An answer: its media type and its bytes."""

    media: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
"""Path to what makes its page; called in the server's thread."""


class _Handler(BaseHTTPRequestHandler):
    """One request: GET or HEAD of a page."""

    timeout = REQUEST_SECONDS
    server_version = "qoslet"
    sys_version = ""
    server: _Server

    def do_GET(self) -> None:
        """The page, or 404."""
        self._answer(whole=True)

    def do_HEAD(self) -> None:
        """Its head."""
        self._answer(whole=False)

    def _answer(self, whole: bool) -> None:
        path = self.path.partition("?")[0]
        make = self.server.pages.get(path)
        if make is None:
            known = " ".join(sorted(self.server.pages))
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


class _Server(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """A listening socket, a thread a request, ``AT_ONCE`` of them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, pages: Pages, user: int | None) -> None:
        super().__init__("", _Handler)
        self.socket = listener
        self.pages = pages
        self._user = user
        self.room = threading.Semaphore(AT_ONCE)

    def fileno(self) -> int:
        """The listening socket, to wait on."""
        return self.socket.fileno()

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next peer."""
        peer, _ = self.socket.accept()
        peer.settimeout(REQUEST_SECONDS)
        return peer, ("", 0)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether this peer may ask."""
        return self._user is None or _peer(request) in (0, self._user)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The request, and room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def shutdown_request(self, request: Any) -> None:
        """Let the peer see the end."""
        try:
            request.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that went away, or asked nonsense, is its own trouble."""


def _peer(request: socket.socket) -> int:
    """The user at the other end."""
    credentials = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


class StateServer:
    """Serves ``pages`` until it is closed."""

    def __init__(self, listener: socket.socket, pages: Pages, *, user: int | None) -> None:
        listener.setblocking(False)
        self._server = _Server(listener, pages, user)
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, name="state", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Any:
        """Where it listens."""
        return self._server.socket.getsockname()

    def _serve(self) -> None:
        """Take each peer; the pipe ends it, so that waiting costs no wake-ups."""
        poller = select.poll()
        poller.register(self._server, select.POLLIN)
        poller.register(self._reader, select.POLLIN)
        while self._reader not in {descriptor for descriptor, _ in poller.poll()}:
            if not self._server.room.acquire(timeout=REQUEST_SECONDS / 10):
                continue
            try:
                peer, address = self._server.get_request()
            except OSError:
                self._server.room.release()
                continue
            if self._server.verify_request(peer, address):
                self._server.process_request(peer, address)
            else:
                self._server.shutdown_request(peer)
                self._server.room.release()

    def close(self) -> None:
        """No further question is taken."""
        os.write(self._writer, b"!")
        self._thread.join()
        self._server.socket.close()
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
        listener.listen(AT_ONCE)
    except OSError as error:
        listener.close()
        raise CannotDo(
            f"cannot create the agent's socket: {error.strerror}", where=f"{folder}/{AGENT_SOCKET}"
        ) from error
    return StateServer(listener, pages, user=os.geteuid())


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


def public(address: str | socket.socket, pages: Pages) -> StateServer:
    """Answer everybody who reaches ``HOST:PORT``, or a socket of ``listen``. Raises as that."""
    listener = listen(address) if isinstance(address, str) else address
    return StateServer(listener, pages, user=None)


def listen(address: str) -> socket.socket:
    """Listen at ``HOST:PORT``; who connects waits for an answer. Raises BadInput for no address,
    CannotDo where it is taken."""
    host, port = _parts(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(AT_ONCE)
    except OSError as error:
        listener.close()
        raise CannotDo(f"cannot listen: {error.strerror}", where=address) from error
    return listener


def _parts(address: str) -> tuple[str, int]:
    """Numeric host and port; a port alone is on loopback."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise BadInput(f"{address!r} is not an address", hint="such as 127.0.0.1:9753")
    host = host or "127.0.0.1"
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return host, int(port)
    raise BadInput(f"{host!r} is not a numeric address", hint="such as 127.0.0.1:9753")


LARGEST_ANSWER = 64 * 1024 * 1024


def ask(folder: str, path: str) -> bytes:
    """The page that the agent of ``folder`` gives. Raises CannotDo where none answers."""
    from http.client import HTTPConnection, HTTPException

    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    peer.settimeout(2 * REQUEST_SECONDS)
    where = f"{folder}/{AGENT_SOCKET}"
    try:
        _connect(peer, folder)
        connection = HTTPConnection("agent")
        connection.sock = peer
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(LARGEST_ANSWER)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise CannotDo(
            "no agent is running", where=where, hint="start it with: qoslet run DIR --keep"
        ) from error
    except PermissionError as error:
        raise CannotDo(
            "the agent belongs to another user", where=where, hint="run as root, or as that user"
        ) from error
    except (OSError, HTTPException) as error:
        raise CannotDo(
            f"the agent does not answer: {error or type(error).__name__}", where=where
        ) from error
    finally:
        peer.close()
    if answer.status != 200:
        raise CannotDo(f"the agent says {answer.status} {answer.reason}", where=where)
    return body


def _connect(peer: socket.socket, folder: str) -> None:
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        peer.connect(f"/proc/self/fd/{place}/{AGENT_SOCKET}")
    finally:
        os.close(place)
