"""Requests to an API server: what answers them, and what may go wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from qoslet.errors import QosletError


class NoResponse(QosletError):
    """The API server did not answer, or not to the end."""


class Silence(NoResponse):
    """Nothing came for as long as a request allows."""


class Response(Protocol):
    """An answer whose body is still to be read."""

    @property
    def status(self) -> int:
        """The code of HTTP."""

    @property
    def retry_seconds(self) -> float:
        """What ``Retry-After`` asks for; 0 where it is absent."""

    @property
    def date(self) -> float | None:
        """The server's clock in seconds since the epoch, in whole seconds; None where it tells none."""

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrives, an empty chunk never. Raises NoResponse where it breaks off, Silence
        where nothing arrives for the time that the request named."""

    def abort(self) -> None:
        """End ``chunks`` from another thread."""

    def close(self) -> None:
        """Give the connection back."""


class Session(Protocol):
    """A way to one API server, with the credentials of one user."""

    @property
    def server(self) -> str:
        """Its address, for messages."""

    def reach(self) -> None:
        """Connect once, and send nothing. Raises NoResponse."""

    def get(
        self, path: str, query: Mapping[str, str], *, silence_seconds: float, accept: str = ""
    ) -> Response:
        """GET ``path``. ``silence_seconds``: how long the server may say nothing. Raises NoResponse."""

    def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        silence_seconds: float,
        content_type: str = "application/json",
    ) -> Response:
        """Send JSON. Raises NoResponse, whether the server has taken it or not."""

    def close(self) -> None:
        """Close its connections."""


OpenSession = Callable[[], Session]
"""Makes a session with the credentials as their files hold them now. Raises CannotDo."""


class ReadLimits(Struct, frozen=True):
    """``seconds`` for a whole answer, ``size`` in bytes of one."""

    seconds: float = 30.0
    size: int = 64 << 20
    silence_seconds: float = 10.0


def body_of(response: Response, limits: ReadLimits, clock: Callable[[], float]) -> bytes:
    """The whole body, bounded in size and time. Raises NoResponse."""
    until = clock() + limits.seconds
    parts: list[bytes] = []
    size = 0
    for chunk in response.chunks():
        parts.append(chunk)
        size += len(chunk)
        if size > limits.size:
            raise NoResponse(f"the answer is larger than {limits.size >> 20} MiB")
        if clock() > until:
            raise NoResponse(f"the answer is not complete after {limits.seconds:g} s")
    return b"".join(parts)
