"""The bytes between a runtime and its plugins: logical connections over one socket, each with ttrpc
messages.

A frame is the connection's number and a length, 32 bits each, and so many bytes. In the bytes of one
connection a message has its length and stream (32 bits each), its type and flags (8 bits each) before
it. All numbers are big-endian. Source: containerd/nri pkg/net/multiplex; containerd/ttrpc PROTOCOL.md.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final

from msgspec import Struct

from qoslet.errors import QosletError

PLUGIN, RUNTIME = 1, 2
"""The connections on which the runtime calls its plugin, and the plugin its runtime."""
REQUEST, RESPONSE = 1, 2
"""Types of messages of calls; streams have a third, which NRI does not use."""

LONGEST: Final = 4 << 20
"""Bytes of a message at most. Source: ttrpc messageLengthMax."""
_FRAME, _MESSAGE = Layout(">II"), Layout(">IIBB")
_LONGEST_FRAME = _MESSAGE.size + LONGEST
_FIRST_FRAME = 4096
"""Bytes of the first frame of a message: ttrpc reads its header through a buffer of this size, and a
frame that is longer does not fit there."""


class BadFrame(QosletError):
    """Bytes that are not what NRI says: nothing that follows can be read."""


class Message(Struct, frozen=True):
    """One ttrpc message of a logical connection."""

    connection: int
    stream: int
    kind: int
    data: bytes


def frames(message: Message) -> bytes:
    """A message as bytes. Raises BadFrame for one that is too long."""
    length = len(message.data)
    if length > LONGEST:
        raise BadFrame(f"a message of {length} bytes, more than {LONGEST} are not sent")
    whole = _MESSAGE.pack(length, message.stream, message.kind, 0) + message.data
    parts = [whole[:_FIRST_FRAME], *([whole[_FIRST_FRAME:]] if len(whole) > _FIRST_FRAME else [])]
    return b"".join(_FRAME.pack(message.connection, len(part)) + part for part in parts)


class FrameReader:
    """Takes bytes as they come, and gives the messages that are complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._streams = {PLUGIN: bytearray(), RUNTIME: bytearray()}

    def feed(self, data: bytes) -> list[Message]:
        """The messages that these bytes end. Raises BadFrame."""
        found, rest = list[Message](), self._bytes
        rest += data
        while len(rest) >= _FRAME.size:
            connection, length = _FRAME.unpack_from(rest)
            if length > _LONGEST_FRAME:
                raise BadFrame(
                    f"a frame of {length} bytes, more than {_LONGEST_FRAME} are not read"
                )
            end = _FRAME.size + length
            if len(rest) < end:
                break
            stream = self._streams.get(connection)
            if stream is not None:
                stream += rest[_FRAME.size : end]
                found += _messages(connection, stream)
            del rest[:end]
        return found


def _messages(connection: int, stream: bytearray) -> list[Message]:
    """Take the messages that are complete from the bytes of one connection. Raises BadFrame."""
    found = list[Message]()
    while len(stream) >= _MESSAGE.size:
        length, number, kind, _ = _MESSAGE.unpack_from(stream)
        if length > LONGEST:
            raise BadFrame(f"a message has {length} bytes, the limit is {LONGEST}")
        end = _MESSAGE.size + length
        if len(stream) < end:
            break
        found.append(Message(connection, number, kind, bytes(stream[_MESSAGE.size : end])))
        del stream[:end]
    return found
