"""The one call of gRPC that a probe makes, ``grpc.health.v1.Health/Check``, as HTTP/2 frames. Pure.

Nothing of an answer's headers is decoded: what decides is in its data, and without data it failed.

Source: RFC 9113 (frames), RFC 7541 (literals without indexing); gRPC over HTTP/2; health.proto;
kubelet pkg/probe/grpc (words).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from qoslet.core.workload.probe_spec import Grpc
from qoslet.core.workload.probes.http import AGENT, address

MAX_FRAME = 16384
"""Bytes of a frame that a peer may send where nobody allows more."""

MAX_ANSWER = 64 * 1024

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_PADDED = 8
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")

Step = tuple[Literal["send", "done"], bytes]


def question(asked: Grpc, host: str) -> bytes:
    """Everything that is sent at first."""
    rows = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", address(host, asked.port)),
        ("content-type", "application/grpc"),
        ("user-agent", AGENT),
        ("te", "trailers"),
    )
    head = b"".join(b"\0" + _text(name) + _text(value) for name, value in rows)
    service = asked.service.encode()[:4096]
    message = b"\x0a" + _varint(len(service)) + service if service else b""
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return b"".join(
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _frame(_SETTINGS, 0, 0, b""),
            _frame(_HEADERS, _END_HEADERS, 1, head),
            _frame(_DATA, _END_STREAM, 1, body),
        )
    )


class Answer:
    """What a server answers, piece by piece."""

    def __init__(self) -> None:
        self._unread = b""
        self._message = b""
        self._taken = 0

    def steps(self, data: bytes) -> Iterator[Step]:
        """What follows from a piece: frames to send, and the end. Raises ValueError."""
        self._unread += data
        while len(self._unread) >= 9:
            size = int.from_bytes(self._unread[:3], "big")
            kind, flags = self._unread[3], self._unread[4]
            if size > MAX_FRAME:
                raise ValueError("no answer of HTTP/2")
            if len(self._unread) < 9 + size:
                return
            body, self._unread = self._unread[9 : 9 + size], self._unread[9 + size :]
            self._taken += 9 + size
            if self._taken > MAX_ANSWER:
                raise ValueError("the answer is too long")
            if kind == _SETTINGS and not flags & _ACK:
                yield "send", _frame(_SETTINGS, _ACK, 0, b"")
            elif kind == _PING and not flags & _ACK:
                yield "send", _frame(_PING, _ACK, 0, body)
            elif kind == _DATA:
                padded = body[0] if flags & _PADDED and body else 0
                self._message += body[1 : len(body) - padded] if flags & _PADDED else body
            if kind in (_RESET, _GOAWAY) or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
                yield "done", b""
                return

    def judged(self) -> tuple[bool, str]:
        """Whether the service serves, and what there is to say where it does not."""
        size = int.from_bytes(self._message[1:5], "big")
        message = self._message[5 : 5 + size]
        if len(self._message) < 5 or self._message[0] or len(message) < size:
            return False, "error: health rpc did not succeed"
        status = message[1] if len(message) == 2 and message[0] == 8 else 0
        if status == 1:
            return True, ""
        word = _STATUSES[status] if status < len(_STATUSES) else str(status)
        return False, f'service unhealthy (responded with "{word}")'


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def _text(text: str) -> bytes:
    """A literal as it is. Source: RFC 7541 5.1 (a prefix of 7 bits), 5.2."""
    data = text.encode()
    if len(data) < 127:
        return bytes((len(data),)) + data
    return b"\x7f" + _varint(len(data) - 127) + data


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes((*made, number))
