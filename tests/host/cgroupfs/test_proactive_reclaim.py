"""One reclaim at a time: a pipe that nobody empties stands for a kernel that takes its time."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from qoslet.host.cgroupfs.proactive_reclaim import WRITE_BYTES, KernelReclaim


@pytest.fixture
def point(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / "q" / name).mkdir(parents=True)
        (tmp_path / "q" / name / "memory.reclaim").write_text("")
    return tmp_path


def until_idle(cold: KernelReclaim) -> None:
    deadline = time.monotonic() + 60
    while cold.busy:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_is_asked_for_in_small_amounts(point: Path) -> None:
    cold = KernelReclaim("v2", str(point))
    assert cold.begin("/q/a", 2 * WRITE_BYTES + 1) == ""
    until_idle(cold)
    assert (point / "q/a/memory.reclaim").read_text() == f"{WRITE_BYTES}{WRITE_BYTES}1"


def test_another_one_is_told_of_it(point: Path) -> None:
    file = point / "q/a/memory.reclaim"
    file.unlink()
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
    cold = KernelReclaim("v2", str(point))
    try:
        with suppress(BlockingIOError):
            while os.write(writer, bytes(1 << 12)):
                pass
        assert cold.begin("/q/a", WRITE_BYTES) == ""
        assert cold.busy
        assert cold.begin("/q/b", WRITE_BYTES) == "memory.reclaim: another reclaim is running"
        assert (point / "q/b/memory.reclaim").read_text() == ""
    finally:
        os.close(reader)  # the write ends in EPIPE
        os.close(writer)
    until_idle(cold)
    assert cold.begin("/q/b", WRITE_BYTES) == ""
    until_idle(cold)
    assert (point / "q/b/memory.reclaim").read_text() == str(WRITE_BYTES)


def test_what_cannot_be_asked_is_told(point: Path) -> None:
    cold = KernelReclaim("v2", str(point))
    assert cold.begin("/q/none", 1) == "memory.reclaim: No such file or directory"
    assert not cold.busy
