"""Reclaims beside each other: a pipe that nobody empties stands for a kernel that takes its time."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from qoslet.host.cgroupfs.proactive_reclaim import WRITE_BYTES, KernelReclaim


@pytest.fixture
def point(tmp_path: Path) -> Path:
    for name in "abcde":
        (tmp_path / "q" / name).mkdir(parents=True)
        (tmp_path / "q" / name / "memory.reclaim").write_text("")
    return tmp_path


def until_idle(cold: KernelReclaim) -> None:
    deadline = time.monotonic() + 60
    while cold.running:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_is_asked_for_in_small_amounts(point: Path) -> None:
    cold = KernelReclaim("v2", str(point))
    assert cold.begin("/q/a", 2 * WRITE_BYTES + 1) == ""
    until_idle(cold)
    assert (point / "q/a/memory.reclaim").read_text() == f"{WRITE_BYTES}{WRITE_BYTES}1"


def full_pipe(file: Path) -> list[int]:
    """A pipe in the place of a file, in which a write waits until both ends are closed."""
    file.unlink()
    os.mkfifo(file)
    ends = [os.open(file, mode | os.O_NONBLOCK) for mode in (os.O_RDONLY, os.O_WRONLY)]
    with suppress(BlockingIOError):
        while os.write(ends[1], bytes(1 << 12)):
            pass
    return ends


def test_a_slow_one_holds_up_no_other_but_there_are_few(point: Path) -> None:
    ends = {name: full_pipe(point / "q" / name / "memory.reclaim") for name in "abcd"}
    cold = KernelReclaim("v2", str(point))
    try:
        assert cold.begin("/q/a", WRITE_BYTES) == ""
        assert cold.begin("/q/a", WRITE_BYTES) == "", "it goes on"
        assert len(cold.running) == 1
        assert [cold.begin(f"/q/{name}", WRITE_BYTES) for name in "bcd"] == [""] * 3
        assert cold.busy
        assert cold.begin("/q/e", WRITE_BYTES) == "memory.reclaim: 4 others are running"
        assert (point / "q/e/memory.reclaim").read_text() == ""
        assert not any(cold.refused(f"/q/{name}") for name in "abcde")
    finally:
        for reader, writer in ends.values():
            os.close(reader)  # the write ends in EPIPE
            os.close(writer)
    until_idle(cold)
    assert cold.begin("/q/e", WRITE_BYTES) == ""
    until_idle(cold)
    assert (point / "q/e/memory.reclaim").read_text() == str(WRITE_BYTES)


def test_what_cannot_be_asked_is_told(point: Path) -> None:
    cold = KernelReclaim("v2", str(point))
    assert cold.begin("/q/none", 1) == "memory.reclaim: No such file or directory"
    assert not cold.busy
