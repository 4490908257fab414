"""Asks a kubelet over HTTP: its read-only port, or its own port with its certificate verified.

The certificate is verified before anything is sent: against the authorities that the user names, or as
the very one that the kubelet's own file holds. Answers are bounded in size and time, and no
redirection is followed.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.api.schema import shown
from qoslet.errors import QosletError
from qoslet.host.linux.clock import overdue

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection, HTTPResponse

_CONNECT_SECONDS = 3.0
_AGAIN_SECONDS = 1.0
# shorter than an agent waits between two questions
_SHORTLY_SECONDS = 8.0
_CHUNK = 1 << 16


class AnswerLimits(Struct, frozen=True):
    """``seconds`` for one question in all, and bytes of its answer: 110 pods take 1 to 3 MiB."""

    seconds: float = 10.0
    size: int = 64 << 20


LIMITS = AnswerLimits()


class AnswerTimes:
    """How long to wait for an answer: ``usual`` seconds, but only one where there was none in that time
    shortly before, since an audit asks up to three times within seconds. ``clock`` tells seconds."""

    def __init__(self, usual: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._usual = usual
        self._clock = clock
        self._silent: dict[str, float] = {}

    def seconds(self, where: str) -> float:
        """The time for the next answer from ``where``."""
        since = self._clock() - self._silent.get(where, -math.inf)
        return _AGAIN_SECONDS if since < _SHORTLY_SECONDS else self._usual

    def missed(self, where: str, waited: float) -> None:
        """There was no answer within ``waited`` seconds, as ``seconds`` gave them. Missing a short time
        prolongs nothing, so that whoever asks all the time is answered late rather than never."""
        if waited >= self._usual:
            self._silent[where] = self._clock()


_TIMES = AnswerTimes(_CONNECT_SECONDS)


class NoAnswer(QosletError):
    """A kubelet did not answer, or not as one."""


class Credentials(Struct, frozen=True):
    """Who asks, and whom to trust; paths of files, empty where not given. ``certificate`` and
    ``key`` are a client's."""

    authorities: str = ""
    token: str = ""
    certificate: str = ""
    key: str = ""


class KubeletPort(Struct, frozen=True):
    """A port of a kubelet. ``pinned`` is the certificate (DER) that it must have where no authority
    is named; ``names`` are those that a certificate of an authority may have."""

    host: str
    port: int
    secure: bool
    pinned: bytes = b""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


class Answer(Struct, frozen=True):
    """The status of an answer, and what it holds."""

    status: int
    body: bytes


def ask_kubelet(
    port: KubeletPort, path: str, credentials: Credentials, limits: AnswerLimits = LIMITS
) -> Answer:
    """The answer to GET ``path``. Raises NoAnswer. Credentials go to a secure port only."""
    from http.client import HTTPException

    where = f"{port}{path}"
    until = time.monotonic() + limits.seconds
    seconds = _TIMES.seconds(str(port))
    headers = {"Accept": "application/json, text/plain", "Connection": "close"}
    try:
        if port.secure and credentials.token:
            headers["Authorization"] = f"Bearer {_token(credentials.token)}"
        connection = _connected(port, credentials, where, seconds)
        try:
            with _ended_at(connection, until):
                connection.request("GET", path, headers=headers)
                with connection.getresponse() as answer:
                    body = _body(answer, limits.size, where)
            if time.monotonic() >= until:
                # what is there was broken off
                raise TimeoutError
            return Answer(answer.status, body)
        finally:
            connection.close()
    except ConnectionRefusedError:
        raise NoAnswer("nothing listens there", where=where) from None
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= until:
            _TIMES.missed(str(port), seconds)
            raise NoAnswer("does not answer in time", where=where) from None
        raise NoAnswer(shown(str(error) or type(error).__name__, 200), where=where) from None


def _ended_at(connection: HTTPConnection, until: float) -> AbstractContextManager[None]:
    """Break a connection off at a time, however slowly its peer goes on. Raises OSError."""
    if connection.sock is None:
        connection.connect()
    peer = connection.sock
    return overdue(max(0.0, until - time.monotonic()), lambda: _break_off(peer))


def _break_off(peer: socket.socket) -> None:
    with suppress(OSError):
        # of the socket below TLS, too, whose buffers another thread reads
        socket.socket.shutdown(peer, socket.SHUT_RDWR)


def _token(path: str) -> str:
    """A bearer token from its file. Raises NoAnswer."""
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(_CHUNK).strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise NoAnswer(f"cannot be read: {reason}", where=path) from None
    if not token or not token.isprintable() or " " in token:
        raise NoAnswer("contains no token", where=path, hint="give a file with one bearer token")
    return token


def _connected(
    port: KubeletPort, credentials: Credentials, where: str, seconds: float
) -> HTTPConnection:
    """A connection to a port whose certificate is verified, which waits for ``seconds`` at each step. Raises
    NoAnswer, OSError."""
    from http.client import HTTPConnection, HTTPSConnection

    if not port.secure:
        return HTTPConnection(port.host, port.port, timeout=seconds)
    import ssl

    context = _context(port, credentials, where)
    connection = HTTPSConnection(port.host, port.port, timeout=seconds, context=context)
    try:
        connection.connect()
        _verify(port, credentials, connection.sock, where)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        message = f"its certificate is not trusted: {error.verify_message or error.reason}"
        raise NoAnswer(message, where=where, hint=f"by {credentials.authorities}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _context(port: KubeletPort, credentials: Credentials, where: str) -> ssl.SSLContext:
    """What is trusted, and what we show. Raises NoAnswer."""
    import ssl

    if not credentials.authorities and not port.pinned:
        message = "its certificate cannot be verified: the file of it is not known"
        raise NoAnswer(message, where=where, hint="give --kubelet-ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    path = credentials.authorities
    try:
        if credentials.authorities:
            context.load_verify_locations(cafile=credentials.authorities)
        else:
            # compared byte for byte with the kubelet's own file, before anything is sent
            context.verify_mode = ssl.CERT_NONE
        path = credentials.certificate
        if path:
            context.load_cert_chain(path, credentials.key or None, password=_no_password)
    except ssl.SSLError:
        if path == credentials.certificate:
            hint = "give its own with --kubelet-key"
            raise NoAnswer("no key that fits it was given", where=path, hint=hint) from None
        hint = "give PEM of the authority of the kubelet's certificate"
        raise NoAnswer("contains no certificate", where=path, hint=hint) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise NoAnswer(f"cannot be used: {reason or error}", where=path) from None
    return context


def _no_password() -> str:
    raise ValueError("its key has a password")


def _verify(
    port: KubeletPort, credentials: Credentials, connection: ssl.SSLSocket, where: str
) -> None:
    """Raise NoAnswer for a certificate that is not the kubelet's."""
    if not credentials.authorities:
        if connection.getpeercert(binary_form=True) != port.pinned:
            message = "its certificate is not the one of the kubelet's own file"
            hint = "another program may listen there; or give --kubelet-ca"
            raise NoAnswer(message, where=where, hint=hint)
        return
    certificate = connection.getpeercert() or {}
    rows = certificate.get("subjectAltName", ())
    found = {str(row[1]).lower() for row in rows if len(row) == 2}
    if not found.intersection(port.names):
        message = f"its certificate is for {', '.join(sorted(found)[:5]) or 'no name'}"
        hint = f"expected {' or '.join(port.names)}"
        raise NoAnswer(shown(message, 200), where=where, hint=hint)


def _body(answer: HTTPResponse, most: int, where: str) -> bytes:
    """What an answer holds, in bounded size. Raises NoAnswer, OSError."""
    chunks: list[bytes] = []
    size = 0
    while chunk := answer.read1(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise NoAnswer(f"answers with more than {most >> 20} MiB", where=where)
    if answer.length:
        raise NoAnswer("ends in the middle of its answer", where=where)
    return b"".join(chunks)
