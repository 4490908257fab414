"""Standard output that is lost, slow or stuck: the writer goes on, and tells."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from qoslet.host.linux.output import BACKLOG_BYTES, OutputWriter

PATIENCE = 20.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for one in ends:
        try:
            os.close(one)
        except OSError:
            continue


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_text_comes_out_in_its_order(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    out = OutputWriter(writer, "ascii")
    for word in ("one\n", "→\n", "three\n"):
        assert out.write(word) == len(word)
    out.close()
    assert os.read(reader, 100) == b"one\n\\u2192\nthree\n"
    assert out.lost is None


def test_a_reader_that_is_gone_is_seen_before_anything_is_written(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    told = threading.Event()
    out = OutputWriter(writer, on_lost=told.set)
    assert not told.wait(0.1)
    os.close(reader)
    assert told.wait(PATIENCE)
    assert out.lost is not None
    assert out.lost.errno == errno.EPIPE
    out.write("nobody reads this\n")
    out.close()
    assert os.write(writer, b"x") == 1, "the descriptor is /dev/null now"


def test_a_terminal_that_is_gone() -> None:
    master, slave = pty.openpty()
    told = threading.Event()
    out = OutputWriter(slave, on_lost=told.set)
    out.write("text\n")
    os.close(master)
    assert told.wait(PATIENCE)
    assert out.lost is not None
    assert out.lost.errno == errno.EIO
    out.close()
    os.close(slave)


def test_a_full_disk() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    told = threading.Event()
    out = OutputWriter(full, on_lost=told.set)
    assert not told.wait(0.1)
    out.write("text\n")
    assert told.wait(PATIENCE)
    assert out.lost is not None
    assert out.lost.errno == errno.ENOSPC
    out.close()
    os.close(full)


def test_a_reader_that_takes_nothing_holds_up_nobody(pipe: tuple[int, int]) -> None:
    _, writer = pipe
    out = OutputWriter(writer, drain_seconds=0.2)
    begun = time.monotonic()
    for _ in range(BACKLOG_BYTES // 500):
        out.write("x" * 1000)
    out.close()
    assert time.monotonic() - begun < 5
    assert out.lost is None


def test_a_slow_reader_is_told_what_was_left_out(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    out = OutputWriter(writer)
    for _ in range(BACKLOG_BYTES // 500):
        out.write("x" * 1000)
    taken: list[bytes] = []
    reading = threading.Thread(
        target=lambda: taken.extend(iter(lambda: os.read(reader, 65536), b""))
    )
    reading.start()
    until(lambda: out._bytes == 0)
    out.write("last\n")
    out.close()
    os.close(writer)
    reading.join(PATIENCE)
    text = b"".join(taken).decode()
    assert "output left out" in text
    assert text.endswith("last\n")


def test_what_was_left_out_at_the_end_is_told_as_well(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = OutputWriter(writer)
    count = BACKLOG_BYTES // 1000 + 1000
    for number in range(count):
        output.write("x" * 999 + "\n")
        if number == 100:
            # the thread takes nothing more until the pipe is read
            until(lambda: not select.select([], [writer], [], 0)[1])
    text: list[bytes] = []
    reading = threading.Thread(
        target=lambda: text.extend(iter(lambda: os.read(reader, 1 << 16), b""))
    )
    reading.start()
    output.close()
    os.close(writer)
    reading.join()
    rows = b"".join(text).decode().splitlines()
    told = [int(row.split()[4]) for row in rows if "output left out" in row]
    assert "output left out" in rows[-1]
    assert len(rows) - len(told) + sum(told) == count


def test_a_descriptor_that_must_not_block(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.set_blocking(writer, False)
    out = OutputWriter(writer)
    out.write("x" * 200_000)
    count = 0
    while count < 200_000:
        count += len(os.read(reader, 65536))
    out.close()
    assert out.lost is None


def test_a_busy_thread_is_not_woken_again(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    out = OutputWriter(writer)
    wakes: list[object] = []

    def note(_: object, event: str, called: object) -> None:
        if event == "c_call" and called is os.eventfd_write:
            wakes.append(called)

    full = "x" * (1 << 17)
    out.write(full)
    until(lambda: fcntl.ioctl(reader, termios.FIONREAD, b"0000") != bytes(4))
    out.write("waits behind it\n")
    sys.setprofile(note)
    try:
        for number in range(100):
            out.write(f"{number}\n")
    finally:
        sys.setprofile(None)
    assert wakes == [], "it has text to write, and looks for more by itself"
    text = b""
    while not text.endswith(b"\n99\n"):
        text += os.read(reader, 1 << 16)
    assert text.count(b"\n") == 101
    out.close()
