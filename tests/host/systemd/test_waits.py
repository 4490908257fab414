"""Who waits for a systemd that does not answer: signs of life, and an end that is asked for."""

from __future__ import annotations

import errno
import os
import signal
import time

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.host.systemd.bus import hung_up
from tests.host.systemd.test_driver import ROOT, Bench, bench, end, good, sets

__all__ = ["bench"]


@pytest.mark.parametrize("what", ["manager", "bus", "hangs"])
def test_a_wait_gives_signs_of_life_and_ends_where_that_is_asked(bench: Bench, what: str) -> None:
    driver = bench.driver(back=40.0)
    good(driver.perform([Step("create", ROOT)]))
    assert bench.manager is not None
    if what == "hangs":
        bench.manager.send_signal(signal.SIGSTOP)
    else:
        end(bench.manager)
        bench.manager = None
    if what == "bus":
        end(bench.daemon)
        bench.daemon = None
    signs: list[float] = []
    bus = driver.units.bus
    bus.idle, bus.interrupts = lambda: signs.append(time.monotonic()), lambda: len(signs) // 3
    begun = time.monotonic()
    (outcome,) = driver.perform(sets(ROOT, memory_max="8192"))
    assert outcome.error
    assert time.monotonic() - begun < 20
    assert len(signs) >= 3
    assert "40 s" not in str(outcome.error)


@pytest.mark.parametrize("code", [errno.EBADF, errno.EPIPE, errno.ECONNRESET])
def test_a_bus_that_hangs_up_on_a_new_connection_is_waited_for(code: int) -> None:
    """Seen in a guest: systemctl restart dbus while the first connection was made (EBADF)."""
    assert hung_up(OSError(code, os.strerror(code)))
    assert not hung_up(OSError(errno.ECONNREFUSED, "nobody listens"))
    assert not hung_up(FileNotFoundError(errno.ENOENT, "no socket"))
