"""Bytes of NRI: frames as a runtime sends them, in any pieces, and those that no runtime sends."""

from __future__ import annotations

import random
import struct

import pytest

from qoslet.host.nri.frames import (
    LONGEST,
    PLUGIN,
    REQUEST,
    RUNTIME,
    BadFrame,
    FrameReader,
    Message,
    frames,
)
from tests.host.nri.fake_runtime import packed

REGISTER = bytes.fromhex(
    "00000002 00000048"  # connection 2, 72 bytes
    "0000003e 00000001 01 00"  # 62 bytes, stream 1, a request, no flags
    "0a1c 6e72692e706b672e6170692e7631616c706861312e52756e74696d65"
    "120e 5265676973746572506c7567696e"
    "1a0c 0a06 716f736c6574 12023935"
    "20 01"
)


def test_a_registration_is_these_bytes() -> None:
    payload = REGISTER[18:]
    assert len(payload) == 62
    message = Message(RUNTIME, 1, REQUEST, payload)
    assert frames(message) == REGISTER
    assert FrameReader().feed(REGISTER) == [message]


def test_messages_come_in_any_pieces_and_in_several_frames() -> None:
    rng = random.Random(19)
    wanted = [
        Message(
            rng.choice((PLUGIN, RUNTIME)), 2 * n + 1, 1, rng.randbytes(rng.choice((0, 5, 9000)))
        )
        for n in range(60)
    ]
    data = b"".join(map(frames, wanted))
    reader, found, at = FrameReader(), list[Message](), 0
    while at < len(data):
        size = rng.choice((1, 7, 5000))
        found += reader.feed(data[at : at + size])
        at += size
    assert found == wanted


@pytest.mark.parametrize("length", [0, 4086, 4087, 9000, LONGEST])
def test_the_first_frame_of_a_message_fits_the_buffer_of_ttrpc(length: int) -> None:
    data, sizes = frames(Message(PLUGIN, 1, 2, bytes(length))), list[int]()
    while data:
        _, size = struct.unpack(">II", data[:8])
        sizes.append(size)
        data = data[8 + size :]
    assert sizes[0] <= 4096
    assert sum(sizes) == length + 10
    assert len(sizes) <= 2


def test_a_connection_that_is_not_ours_is_left_out() -> None:
    good = packed(PLUGIN, 1, 1, b"x")
    assert FrameReader().feed(packed(7, 1, 1, b"y") + good) == [Message(PLUGIN, 1, 1, b"x")]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", 1, LONGEST + 11),
        struct.pack(">II", 9, 0xFFFFFFFF),
        struct.pack(">IIIIBB", 1, 10, LONGEST + 1, 1, 1, 0),
        struct.pack(">IIIIBB", 1, 10, 0xFFFFFFFF, 1, 1, 0),
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_a_length_that_no_runtime_sends_ends_the_connection(data: bytes) -> None:
    with pytest.raises(BadFrame):
        FrameReader().feed(data)
    with pytest.raises(BadFrame):
        frames(Message(PLUGIN, 1, 2, bytes(LONGEST + 1)))


def test_a_reader_keeps_no_more_than_a_message_of_each_connection() -> None:
    reader = FrameReader()
    head = struct.pack(">IIIIBB", 1, 10, LONGEST, 1, 1, 0)
    reader.feed(head)
    for _ in range(LONGEST // 65536):
        reader.feed(struct.pack(">II", 1, 65536) + bytes(65536))
    assert len(reader._streams[PLUGIN]) == 0
    assert len(reader._bytes) == 0
