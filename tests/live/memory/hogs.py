"""Loads for groups with a memory limit, as Python programs: each prints a number when it got on.

``python -m tests.live.hogs KIND AMOUNT [MORE]``, amounts in MiB:

- ``grow``: touch so much anonymous memory, one MiB after the other, within MORE seconds;
- ``fill``: the same, then go through all of it again and again;
- ``read``: read a file of this size in ``/var/tmp`` again and again (made where it is not);
- ``both``: hold it, and read a file of MORE;
- ``idle``: hold it and do a little now and then;
- ``sockets``: send a file of this size to peers that do not read, then grow by MORE;
- ``pipes``: splice a file of this size into pipes that nobody reads, then grow by MORE;
- ``names``: make empty files in ``/dev/shm``, so many thousands;
- ``dirty``: write a file of this size in ``/var/tmp`` again and again;
- ``small``: make files of 4 KiB in ``/var/tmp``, so many thousands.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

MIB = 1 << 20
PAGE = 4096


def grown(amount: int, seconds: float = 0.0) -> Iterator[mmap.mmap]:
    """Memory that is touched page by page; told after each MiB."""
    held = mmap.mmap(-1, max(1, amount) * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # or a huge page comes with the first touch of it
    with suppress(OSError):  # a kernel without transparent huge pages
        held.madvise(mmap.MADV_NOHUGEPAGE)
    begun = time.monotonic()
    block = os.urandom(PAGE) * (MIB // PAGE)
    for one in range(amount):
        held[one * MIB : (one + 1) * MIB] = block
        told(one + 1)
        ahead = begun + seconds * (one + 1) / amount - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        yield held


def told(number: int) -> None:
    """Say how far it came, and when (wall-clock seconds)."""
    os.write(1, b"%d %.3f\n" % (number, time.time()))


def file_of(amount: int) -> str:
    """A file on a disk, whose pages can be taken back once they are written."""
    path = f"/var/tmp/qoslet-hog-{amount}"
    if not os.path.exists(path) or os.path.getsize(path) != amount * MIB:
        block = os.urandom(MIB)
        with open(f"{path}.{os.getpid()}", "wb") as new:
            new.writelines(block for _ in range(amount))
            os.fsync(new.fileno())
        os.rename(f"{path}.{os.getpid()}", path)
    return path


def read(amount: int) -> None:
    """Read a file for ever; told after each time."""
    buffer = bytearray(MIB)
    times = 0
    with open(file_of(amount), "rb", buffering=0) as file:
        while True:
            while file.readinto(buffer):
                pass
            file.seek(0)
            times += 1
            told(times)


def sockets(amount: int) -> list[socket.socket]:
    """Page cache that sockets hold."""
    kept = []
    with socket.create_server(("127.0.0.1", 0)) as server, open(file_of(amount), "rb") as file:
        at = 0
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while at < amount * MIB:
            sender = socket.create_connection(server.getsockname())
            peer, _ = server.accept()
            sender.setblocking(False)
            kept += [sender, peer]
            before = at
            while at < amount * MIB:
                try:
                    at += os.sendfile(sender.fileno(), file.fileno(), at, amount * MIB - at)
                except BlockingIOError:
                    break
            if at == before:
                break
    return kept


def pipes(amount: int) -> list[int]:
    """Page cache that pipes hold."""
    kept = []
    with open(file_of(amount), "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(amount):
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, MIB)
            kept += [reader, writer]
            left = MIB
            while left > 0:
                left -= os.splice(file.fileno(), writer, left, flags=os.SPLICE_F_NONBLOCK)
    return kept


def names(folder: str, thousands: int, size: int) -> None:
    """Files, in folders of a thousand; told after each hundred."""
    block = b"x" * size
    for number in range(thousands * 1000):
        place = f"{folder}/{number // 1000}"
        if number % 1000 == 0:
            os.makedirs(place, exist_ok=True)
        with open(f"{place}/a-file-with-a-name-of-some-length-{number:09}", "wb", 0) as file:
            if block:
                file.write(block)
        if number % 100 == 99:
            told(number // 100 + 1)


def dirty(amount: int) -> None:
    """Write a file for ever; told after each 4 MiB."""
    block, times = os.urandom(4 * MIB), 0
    with open("/var/tmp/qoslet-hog-dirty", "wb", buffering=0) as file:
        while True:
            for _ in range(amount // 4):
                file.write(block)
                times += 1
                told(times)
            file.seek(0)


def main(kind: str, amount: int, more: float = 0.0) -> None:
    """Do what the words say."""
    if kind == "read":
        read(amount)
    if kind in ("names", "small"):
        folder = "/dev/shm" if kind == "names" else "/var/tmp"
        names(f"{folder}/qoslet-hog-names", amount, 4096 if kind == "small" else 0)
    if kind == "dirty":
        dirty(amount)
    pinned: list[object] = []
    if kind in ("sockets", "pipes"):
        pinned += sockets(amount) if kind == "sockets" else pipes(amount)
        kind, amount, more = "grow", int(more), 0.0
    held = None
    for held in grown(amount, more if kind == "grow" else 0.0):  # noqa: B007
        pass
    if kind == "both":
        read(int(more))
    times = 0
    while kind in ("fill", "idle") and held is not None:
        for at in range(0, len(held), PAGE):
            held[at] = times & 255
        times += 1
        told(times)
        if kind == "idle":
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:]))
