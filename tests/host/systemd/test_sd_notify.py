"""What a service manager hears."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from qoslet.host.systemd.sd_notify import Notifier, extend_start


def heard(manager: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(manager.recv(4096).decode())
        except BlockingIOError:
            return found


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def environment(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.getsockname(), **more}


def test_a_service_s_life(manager: socket.socket) -> None:
    environ = environment(manager)
    notifier = Notifier(environ)
    assert environ == {}
    notifier.ready("2 pods")
    notifier.status("2 pods")
    notifier.status("3 pods\nREADY=1")
    notifier.stopping("ending")
    notifier.close()
    notifier.status("nobody hears this")
    ready, status, stopping = heard(manager)
    assert ready == "READY=1\nSTATUS=2 pods"
    assert status == "STATUS=3 pods READY=1"
    assert stopping == "STOPPING=1\nSTATUS=ending"


def test_a_start_that_takes_long_is_extended_until_it_is_ready(manager: socket.socket) -> None:
    environ = environment(manager)
    extend_start(environ)
    assert heard(manager) == ["EXTEND_TIMEOUT_USEC=60000000"]
    Notifier(environ).close()
    extend_start(environ)
    assert heard(manager) == []


def test_the_watchdog_is_fed_four_times_in_its_interval(manager: socket.socket) -> None:
    now = [0.0]
    environ = environment(manager, WATCHDOG_USEC="8000000", WATCHDOG_PID=str(os.getpid()))
    notifier = Notifier(environ, clock=lambda: now[0])
    assert notifier.watchdog_seconds == 8.0
    for at in range(80):
        now[0] = at / 10
        notifier.alive()
    assert heard(manager) == ["WATCHDOG=1"] * 4
    notifier.close()


@pytest.mark.parametrize(
    ("micro", "pid"), [("", ""), ("0", ""), ("x", ""), ("1000000", "1"), ("-5", "")]
)
def test_a_watchdog_that_is_not_ours(manager: socket.socket, micro: str, pid: str) -> None:
    environ = environment(manager, WATCHDOG_USEC=micro, WATCHDOG_PID=pid)
    notifier = Notifier(environ, pid=7)
    notifier.alive()
    assert notifier.watchdog_seconds is None
    assert heard(manager) == []
    notifier.close()


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_nobody_listens(address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready("well")
    notifier.close()


def test_an_abstract_address() -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(f"\0qoslet-test-{os.getpid()}")
    notifier = Notifier({"NOTIFY_SOCKET": f"@qoslet-test-{os.getpid()}"})
    notifier.ready("well")
    assert listener.recv(100) == b"READY=1\nSTATUS=well"
    notifier.close()
    listener.close()


class _Looked(Mapping[str, str]):
    """An environment that is asked for single variables alone: Python decodes each that it gives."""

    def __getitem__(self, name: str) -> str:
        raise KeyError(name)

    def __len__(self) -> int:
        raise AssertionError("nobody counts the variables")

    __iter__ = None  # type: ignore[assignment]


def test_without_a_manager_a_file_that_is_read_costs_one_look_at_the_environment() -> None:
    extend_start(_Looked())
