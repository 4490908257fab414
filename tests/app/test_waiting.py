"""A start that waits for systemd says so once, and ends where that is asked."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from qoslet.app.waiting import kubelet_waiting, say_waiting
from qoslet.errors import CannotDo
from qoslet.host.systemd.bus import Bus
from tests.host.systemd.test_driver import Bench, bench

__all__ = ["bench"]


def _stopped(bench: Bench, who: str) -> subprocess.Popen[str]:
    process = bench.manager if who == "manager" else bench.daemon
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    return process


@pytest.mark.parametrize("who", ["manager", "bus"])
def test_a_start_that_waits_says_so_once_and_can_be_ended(bench: Bench, who: str) -> None:
    process = _stopped(bench, who)
    bus, said, begun = Bus(bench.address), list[tuple[float, str]](), time.monotonic()
    say_waiting(bus, lambda line: said.append((time.monotonic() - begun, line)))
    bus.interrupts = lambda: int(time.monotonic() - begun > 4.0)
    try:
        with pytest.raises(CannotDo, match="no answer"):
            bus.run(bus.ping())
        took = time.monotonic() - begun
    finally:
        process.send_signal(signal.SIGCONT)
        bus.close()
    assert took < 20.0
    ((after, line),) = said
    assert 1.0 <= after < took
    assert line == f"waiting for systemd to answer ({bench.address})"


def test_an_answer_in_time_is_no_wait(bench: Bench) -> None:
    bus, said = Bus(bench.address), list[str]()
    say_waiting(bus, said.append)
    try:
        bus.run(bus.ping())
    finally:
        bus.close()
    assert said == []


def test_a_kubelet_that_is_waited_for_is_said_once() -> None:
    said: list[str] = []
    with kubelet_waiting(said.append, 0.0):
        time.sleep(0.2)
    with kubelet_waiting(said.append, 30.0):
        pass
    assert said == ["waiting for the kubelet and its runtime to answer"]
