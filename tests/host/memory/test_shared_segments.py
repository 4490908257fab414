"""System V shared memory on this machine's kernel, and its table."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from qoslet.core.memory.sample import SharedSegment
from qoslet.core.memory.stat_parser import shared_segments
from qoslet.host.memory.shared_segments import KernelSegments

MIB = 1 << 20
_CREATE, _PRIVATE = 0o1000, 0
HEAD = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap"


def test_the_table_says_who_made_what_and_what_stays() -> None:
    lines = [
        "0 32768 600 1048576 421 421 1 0 0 0 0 1790000000 0 1789999999 1048576 4096",
        "12345 7 1600 4096 422 430 0 1000 1000 1000 1000 0 0 1790000001 4096 0",
        "12345 7 torn",
        "1 2 600 4096 422 x 0 0 0 0 0 0 0 1 1 1",
    ]
    assert shared_segments("\n".join([HEAD, *lines])) == [
        SharedSegment(32768, 421, 1789999999, 1, 1052672, goes=False),
        SharedSegment(7, 422, 1790000001, 0, 4096, goes=True),
    ]
    assert shared_segments(None) == shared_segments("") == []


@contextmanager
def holder() -> Iterator[int]:
    """A process that made a segment of a MiB, is attached to it, and waits."""
    told, tells = os.pipe()
    waits, ends = os.pipe()
    pid = os.fork()
    if pid == 0:
        library = ctypes.CDLL(None)
        library.shmat.restype = ctypes.c_void_p
        number = library.shmget(_PRIVATE, MIB, _CREATE | 0o600)
        at = library.shmat(number, None, 0)
        ctypes.memset(at, 1, MIB)
        os.write(tells, b"1")
        os.close(ends)
        os.read(waits, 1)
        os._exit(0)
    os.read(told, 1)
    try:
        yield pid
    finally:
        os.close(ends)
        os.waitpid(pid, 0)
        for descriptor in (told, tells, waits):
            os.close(descriptor)


@pytest.mark.skipif(not os.path.exists("/proc/sysvipc/shm"), reason="no System V IPC")
def test_what_a_process_left_is_removed_and_nothing_that_is_used() -> None:
    segments = KernelSegments()
    with holder() as pid:
        (found,) = segments.made_by({pid})
        assert (found.creator, found.users, found.goes) == (pid, 1, False)
        assert found.held >= MIB
        assert segments.made_by({os.getpid()}) == []
        assert segments.remove([found]) == 0
        assert segments.made_by({pid}) == [found]
    assert segments.remove([]) == 0
    assert segments.remove([found]) >= MIB
    assert segments.remove([found]) == 0


@pytest.mark.skipif(not os.path.exists("/proc/sysvipc/shm"), reason="no System V IPC")
def test_one_of_an_earlier_process_with_that_number_is_not_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = f"0 1 600 4096 {os.getpid()} 1 0 0 0 0 0 0 0 1000 4096 0"
    monkeypatch.setattr("qoslet.host.memory.shared_segments.text", lambda path: f"{HEAD}\n{line}\n")
    assert KernelSegments().made_by({os.getpid()}) == []
