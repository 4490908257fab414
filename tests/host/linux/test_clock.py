"""What signals ask of a run."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from qoslet.host.linux.clock import Rereading, Signals, WakingClock


@pytest.mark.parametrize(
    "number",
    [
        *(signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
        *(signal.SIGXCPU, signal.SIGIO, signal.SIGPWR),
    ],
)
def test_signals_are_counted(number: int) -> None:
    with Signals() as signals:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert signals.requested() == 2
        assert not signals.reload()


def test_signals_that_a_parent_held_back_are_heard() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            assert signals.requested() == 1
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_one_terminal_that_goes_asks_once() -> None:
    with Signals(hangs_up=True) as signals:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
        signals.hang_up()
        assert signals.requested() == 1
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.requested() == 1, "a session that is closed sends both"
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.requested() == 2


def test_without_a_terminal_sighup_reads_again() -> None:
    with Signals(hangs_up=False) as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.reload()
        assert not signals.reload()
        assert signals.requested() == 0


def test_nohup_is_obeyed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals(hangs_up=True) as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.requested() == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_output_that_is_lost_ends_the_wait() -> None:
    with Signals() as signals:
        clock = WakingClock(signals)
        threading.Timer(0.05, signals.hang_up).start()
        assert not clock.sleep(20)
        assert signals.requested() == 1


def test_a_change_is_told_from_a_signal() -> None:
    changes = [False, True, True]
    with Signals(hangs_up=False) as signals:
        stop = Rereading(signals, changes.pop)
        assert (stop.reload(), stop.is_asked) == (True, False)
        os.kill(os.getpid(), signal.SIGHUP)
        assert (stop.reload(), stop.is_asked) == (True, True)
        assert (stop.reload(), stop.is_asked) == (False, False)


def test_a_signal_that_no_call_was_interrupted_by_ends_the_wait() -> None:
    # as of one that comes between the last look at signals and poll(2): the kernel gives it to another thread
    def ask() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with Signals() as signals:
            asking = threading.Thread(target=ask)
            asking.start()
            begun = time.monotonic()
            assert not WakingClock(signals).sleep(20.0)
            assert time.monotonic() - begun < 10
            asking.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert signal.set_wakeup_fd(-1) == -1
