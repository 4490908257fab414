"""Writes that wait: a full pipe stands for a kernel that reclaims."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.async_writes import AsyncWrites
from qoslet.host.cgroupfs.driver import Cgroupfs

MiB = 1 << 20


class Stuck:
    """A v2 tree with two groups; the limit of ``/q/a`` waits until ``read`` takes what is there."""

    def __init__(self, folder: Path) -> None:
        for path in ("q/a", "q/b"):
            (folder / path).mkdir(parents=True)
            (folder / path / "memory.current").write_text(str(50 * MiB))
            (folder / path / "memory.max").write_text("max")
            (folder / path / "cpu.weight").write_text("")
        pipe = folder / "q/a/memory.max"
        pipe.unlink()
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        self._filled = 0
        while True:
            try:
                self._filled += os.write(self._pipe, b"x" * 65536)
            except BlockingIOError:
                break
        self.folder = folder
        self.now = 0.0
        slow = AsyncWrites(grace=0.02, deadline=30.0, clock=lambda: self.now)
        self.driver = Cgroupfs("v2", str(folder), "/q", slow=slow)

    def read(self) -> bytes:
        """Everything in the pipe, until the write that waits is through."""
        text = b""
        deadline = time.monotonic() + 10
        while len(text) <= self._filled and time.monotonic() < deadline:
            try:
                text += os.read(self._pipe, 65536)
            except BlockingIOError:
                time.sleep(0.01)
        return text[self._filled :]

    def close(self) -> None:
        os.close(self._pipe)
        self.driver.close()


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Stuck]:
    made = Stuck(tmp_path)
    yield made
    made.close()


LOWER = Step("set", "/q/a", "memory.max", str(8 * MiB))


def test_a_write_that_waits_is_pending_and_told_when_it_is_over(stuck: Stuck) -> None:
    begun = time.monotonic()
    outcomes = stuck.driver.perform([LOWER, Step("set", "/q/b", "cpu.weight", "7")])
    assert time.monotonic() - begun < 5
    assert [(one.pending, one.error) for one in outcomes] == [(True, None), (False, None)]
    assert (stuck.folder / "q/b/cpu.weight").read_text() == "7"
    assert [one.pending for one in stuck.driver.poll_pending()] == [True]
    assert stuck.read() == LOWER.value.encode()
    deadline = time.monotonic() + 5
    while (late := stuck.driver.poll_pending())[0].pending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [(one.step, one.pending, one.error) for one in late] == [(LOWER, False, None)]
    assert stuck.driver.poll_pending() == []


def test_one_at_a_time_and_what_cannot_wait_is_not_held_up(stuck: Stuck) -> None:
    stuck.driver.perform([LOWER])
    other = [
        Step("set", "/q/b", "memory.max", str(8 * MiB)),
        Step("set", "/q/b", "memory.max", str(200 * MiB)),
        Step("set", "/q/b", "memory.max", "max"),
    ]
    assert [one.pending for one in stuck.driver.perform(other)] == [True, False, False]
    assert (stuck.folder / "q/b/memory.max").read_text() == "max"


def test_beyond_its_deadline_it_counts_as_failed_once(stuck: Stuck) -> None:
    stuck.driver.perform([LOWER])
    stuck.now = 31.0
    (late,) = stuck.driver.poll_pending()
    assert late.errno_name == "ETIMEDOUT"
    assert "reclaim" in (late.error or "")
    assert [one.pending for one in stuck.driver.poll_pending()] == [True]
    assert [one.pending for one in stuck.driver.perform([LOWER])] == [True]


def test_a_refusal_comes_at_once(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        if data == LOWER.value.encode():
            raise OSError(errno.EBUSY, "busy")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    (outcome,) = stuck.driver.perform([LOWER])
    assert (outcome.errno_name, outcome.pending) == ("EBUSY", False)
    assert "could not reclaim it" in (outcome.error or "")


def test_new_groups_and_files_of_no_memory_are_written_directly(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AsyncWrites, "write", None)
    (stuck.folder / "q/b/memory.current").write_text("0")
    steps = [
        Step("set", "/q/b", "memory.max", str(8 * MiB)),
        Step("set", "/q/b", "cpu.weight", "9"),
    ]
    assert [one.error for one in stuck.driver.perform(steps)] == [None, None]


def test_what_is_wanted_meanwhile_is_what_stands(stuck: Stuck) -> None:
    """A write waits for room; the limit is lifted before it is made."""
    folder = stuck.folder / "q/b"
    os.mkfifo(folder / "memory.reclaim")
    pipe = os.open(folder / "memory.reclaim", os.O_RDWR | os.O_NONBLOCK)
    try:
        filled = 0
        while True:
            try:
                filled += os.write(pipe, b"x" * 65536)
            except BlockingIOError:
                break
        lower = Step("set", "/q/b", "memory.max", str(8 * MiB), gently=True)
        lifted = Step("set", "/q/b", "memory.max", "max")
        assert [one.pending for one in stuck.driver.perform([lower])] == [True]
        assert [one.error for one in stuck.driver.perform([lifted])] == [None]
        (folder / "memory.current").write_text("0")
        while filled > 0:
            filled -= len(os.read(pipe, 65536))
        deadline = time.monotonic() + 5
        while (late := stuck.driver.poll_pending())[0].pending and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [(one.step, one.error) for one in late] == [(lifted, None)]
        assert (folder / "memory.max").read_text() == "max"
        assert stuck.driver.poll_pending() == []
    finally:
        os.close(pipe)
