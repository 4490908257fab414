"""Answers questions about a running agent: over a private unix socket, and, where the owner asks
for it, over TCP.

HTTP, read only, beside the loop: a question is answered from pages that the loop has published, so
nobody who asks can hold it up. The socket is made in a directory that only its owner enters, is
private before it listens, and each peer's user is checked. A whole request is bounded in size and
time before it takes one of the threads that answer, so peers that send slowly hold up no others.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any

from msgspec import Struct

from qoslet.errors import BadInput, CannotDo, QosletError
from qoslet.host.questions.http_client import REQUEST_SECONDS
from qoslet.host.questions.request_server import ASKING, RequestServer, private_listener
from qoslet.host.state.folder import AGENT_SOCKET


class Page(Struct, frozen=True):
    """An answer: its media type and its bytes."""

    media: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
"""Path to what makes its page; called in the server's thread."""


class HttpHandler(BaseHTTPRequestHandler):
    """One request: GET or HEAD. ``request`` is its text, ``server`` what answers; who asked for the
    answer sends it."""

    server_version = "qoslet"
    sys_version = ""
    server: Any

    def setup(self) -> None:
        """The request is complete, the answer is sent when it is."""
        self.rfile: Any = BytesIO(self.request)
        self.wfile: Any = BytesIO()

    def finish(self) -> None:
        """The answer is in ``wfile``."""

    def do_GET(self) -> None:
        """The whole answer."""
        self.answer(whole=True)

    def do_HEAD(self) -> None:
        """Its head."""
        self.answer(whole=False)

    def answer(self, whole: bool) -> None:
        """Write the answer, or only its head."""
        raise NotImplementedError

    def address_string(self) -> str:
        """Peers have no address here."""
        return "peer"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their addresses may hold a token."""


class _PageHandler(HttpHandler):
    """``server`` are the pages; another path is 404."""

    def answer(self, whole: bool) -> None:
        """The page."""
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


def _answer_to(request: bytes, pages: Pages) -> bytes:
    """What a peer gets; nothing for what is no request."""
    handler = _PageHandler(request, ("", 0), pages)  # type: ignore[arg-type]
    return bytes(handler.wfile.getvalue())


class StateServer(RequestServer):
    """Serves ``pages`` until it is closed. ``seconds`` bound a whole request, and its answer."""

    def __init__(
        self,
        listener: socket.socket,
        pages: Pages,
        *,
        user: int | None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        super().__init__(
            listener, lambda request: _answer_to(request, pages), user=user, seconds=seconds
        )


def private(folder: str, pages: Pages) -> StateServer:
    """Listen at ``agent.sock`` in ``folder``, which only its owner can enter. One that is there
    already is replaced: whoever holds the folder's lock is the agent. Raises CannotDo."""
    listener = private_listener(folder, AGENT_SOCKET, "the agent's socket")
    return StateServer(listener, pages, user=os.geteuid())


def is_there(folder: str) -> bool:
    """Whether a socket has the name of the agent's, no link or directory."""
    try:
        return stat.S_ISSOCK(os.lstat(f"{folder}/{AGENT_SOCKET}").st_mode)
    except OSError:
        return False


def forget(folder: str) -> None:
    """Remove the socket of an agent that is gone."""
    with suppress(OSError):
        os.unlink(f"{folder}/{AGENT_SOCKET}")


def public(
    listener: socket.socket, pages: Pages, *, seconds: float = REQUEST_SECONDS
) -> StateServer:
    """Answer everybody who reaches a socket of ``listen``."""
    return StateServer(listener, pages, user=None, seconds=seconds)


def listen(address: str, option: str = "--metrics-bind-address") -> socket.socket:
    """Listen at ``HOST:PORT``, which ``option`` gave; who connects waits for an answer. Raises
    BadInput for no address, CannotDo where it is taken."""
    host, port = _parts(address, option)
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


def _parts(address: str, option: str) -> tuple[str, int]:
    """Numeric host and port; a port alone is on loopback."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise BadInput(
            f"{address!r} is not an address",
            where=option,
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
