"""A recording as bytes: a first line with the format's number, then checked frames.

A frame is a mark, the length and the CRC-32 of its payload, and the payload. Whatever is between
two frames is damage: it is skipped up to the next frame whose checksum holds.
"""

from __future__ import annotations

from binascii import crc32
from struct import Struct as Packing

from msgspec import Struct

FORMAT = 1
"""The number of the format that is written."""
FIRST_LINE = b"qoslet recording %d\n" % FORMAT
MAX_FRAME = 16 << 20
"""Bytes of a payload, at most."""

_START = b"qoslet recording "
_MARK = b"\xf5QR\n"
_HEAD = Packing("<4sII")


class Frame(Struct, frozen=True, gc=False):
    """A payload, and the end of its frame in the data."""

    payload: bytes
    end: int


class Gap(Struct, frozen=True, gc=False):
    """``size`` bytes at ``start`` that are no frame."""

    start: int
    size: int


def frame(payload: bytes) -> bytes:
    """One payload as a frame. Raises ValueError for one that is too long."""
    if len(payload) > MAX_FRAME:
        raise ValueError(f"a frame of {len(payload)} bytes is too long")
    return _HEAD.pack(_MARK, len(payload), crc32(payload)) + payload


def format_of(data: bytes) -> int | None:
    """The number in the first line; None where the data is no recording."""
    line, _, _ = data[:64].partition(b"\n")
    if not line.startswith(_START):
        return None
    number = line.removeprefix(_START)
    return int(number) if number.isdigit() else None


def scan(data: bytes) -> list[Frame | Gap]:
    """The frames of a recording and the gaps between them, in their order. A gap at the end is a
    frame that was not written whole."""
    at = data.find(b"\n") + 1
    found: list[Frame | Gap] = []
    bad: int | None = None
    while at < len(data):
        one = _frame_at(data, at)
        if one is None:
            bad = at if bad is None else bad
            at = data.find(_MARK, at + 1)
            if at < 0:
                break
            continue
        if bad is not None:
            found.append(Gap(bad, at - bad))
            bad = None
        found.append(one)
        at = one.end
    if bad is not None:
        found.append(Gap(bad, len(data) - bad))
    return found


def whole(data: bytes) -> int:
    """The bytes up to the end of the last frame that is whole."""
    frames = [one.end for one in scan(data) if isinstance(one, Frame)]
    return frames[-1] if frames else data.find(b"\n") + 1


def _frame_at(data: bytes, at: int) -> Frame | None:
    """The frame that begins there; None where none does."""
    if len(data) - at < _HEAD.size:
        return None
    mark, length, checksum = _HEAD.unpack_from(data, at)
    start = at + _HEAD.size
    if mark != _MARK or length > MAX_FRAME or start + length > len(data):
        return None
    payload = data[start : start + length]
    return Frame(payload, start + length) if crc32(payload) == checksum else None
