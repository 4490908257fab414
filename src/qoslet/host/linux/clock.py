"""Waiting that ends early: when something has happened, or somebody asks the program to end."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from qoslet.host.linux.descriptors import polled


@contextmanager
def overdue(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Where the block takes longer than ``seconds``, ``call`` is called once, in another thread."""
    from threading import Timer

    timer = Timer(seconds, call)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Signals:
    """Counts SIGINT, SIGTERM, SIGQUIT and others that would end the program where it stands, with
    its pods left behind, while it is entered; matches ``agent.loop.StopSignal``.
    SIGHUP asks to read the configuration again; where ``hangs_up``, it says that the terminal is
    gone (``hang_up``), unless it was ignored before, as nohup does."""

    _NUMBERS = (
        *(signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP),
        # SIGXCPU: the soft limit of CPU time
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGIO, signal.SIGPWR),
    )

    def __init__(self, *, hangs_up: bool = True) -> None:
        self._count = 0
        self._gone = False
        self._reload = False
        self._hangs_up = hangs_up
        self._before: list[tuple[int, object]] = []
        self._blocked: set[int] = set()
        self._woken = -1
        self.reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Signals:
        for number in self._NUMBERS:
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if number == signal.SIGHUP and self._hangs_up and ignored:
                continue
            self._before.append((number, signal.signal(number, self._note)))
        # a handler of Python's runs once the call has returned that a signal came just too early to interrupt
        self._woken = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # whoever started it may have held them back, also from the keeper that it starts
        self._blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._woken)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        for number, handler in self._before:
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self.reader)
        os.close(self._writer)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._count += 1
        elif self._hangs_up:
            self._gone = True
        else:
            self._reload = True

    def hang_up(self) -> None:
        """Ask to end because nobody watches any more, from any thread. However often, it counts
        once, and not beside a signal: shells and the kernel tell of one terminal several times."""
        self._gone = True
        with suppress(OSError):
            os.write(self._writer, b"!")

    def requested(self) -> int:
        """How often it was asked to end."""
        return max(self._count, int(self._gone))

    def reload(self) -> bool:
        """Whether it was asked to read the configuration again since this was asked last."""
        asked, self._reload = self._reload, False
        return asked

    def drain(self) -> None:
        """Take note of the wake-ups so far."""
        with suppress(BlockingIOError):
            os.read(self.reader, 4096)


class Rereading:
    """What ``signals`` say, and that the configuration is to be read again, too, whenever
    ``changed``; matches ``agent.loop.StopSignal``."""

    def __init__(self, signals: Signals, changed: Callable[[], bool]) -> None:
        self._signals = signals
        self._changed = changed
        self.is_asked = False
        """Whether ``reload`` was answered so last because of a signal."""

    def requested(self) -> int:
        """How often it was asked to end."""
        return self._signals.requested()

    def reload(self) -> bool:
        """Whether to read the configuration again."""
        changed = self._changed()
        self.is_asked = self._signals.reload()
        return self.is_asked or changed


class WakingClock:
    """Monotonic time; ``sleep`` also ends when a signal comes or a descriptor is readable.

    ``descriptors`` gives those to watch. Matches ``agent.ports.Clock``.
    """

    def __init__(
        self, signals: Signals, descriptors: Callable[[], Iterable[int]] = lambda: ()
    ) -> None:
        self._signals = signals
        self._descriptors = descriptors
        self.further: list[int] = []
        """More descriptors to watch."""
        self.longest: float | None = None
        """Seconds after which a wait ends in any case; None: it does not."""
        self.idle: Callable[[], None] = lambda: None
        """What is done every now and then while something else than time is waited for."""

    def watch_only(self, descriptors: Callable[[], Iterable[int]]) -> None:
        """Let these end a wait from now on, and no others but ``further``."""
        self._descriptors = descriptors

    def monotonic(self) -> float:
        """Seconds since some start."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> bool:
        """Wait at most ``seconds``; False if a signal asks to end."""
        poller = select.poll()
        poller.register(self._signals.reader, select.POLLIN)
        for descriptor in (*self._descriptors(), *self.further):
            poller.register(descriptor, select.POLLIN)
        if self.longest is not None:
            seconds = min(seconds, self.longest)
        polled(poller, max(0, round(seconds * 1000)))
        self._signals.drain()
        return self._signals.requested() == 0
