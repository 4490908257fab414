"""The connection with a runtime that comes, goes and comes again."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.errors import CannotDo
from qoslet.host.nri.link import NriLink, check
from tests.host.nri.fake_runtime import ROOT, FakeRuntime, container, until
from tests.host.nri.test_session import HIGH, Handler


class Bench:
    """A socket with runtimes, one after another."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "nri.sock")
        self.now = 0.0
        self.log: list[str] = []
        self.woken = threading.Event()
        self.runtimes: list[FakeRuntime] = []
        self.registrations = 0
        self.refuse = ""
        self._listener: socket.socket | None = None
        self.link = NriLink(
            self.path, ROOT, "95", Handler(), self.log.append, self.woken.set, lambda: self.now
        )

    def listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self.runtimes.append(FakeRuntime(sock, refuse=self.refuse))

    def connect(self) -> str:
        """As the link, with the runtime that it found last in ``runtimes``."""
        line = self.link.connect()
        if line.startswith("registered"):
            self.registrations += 1
            until(
                lambda: (
                    len([one for one in self.runtimes if one.registered.is_set()])
                    >= self.registrations
                )
            )
        return line

    def unlisten(self) -> None:
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            os.unlink(self.path)
            self._listener = None

    def close(self) -> None:
        self.link.close()
        self.unlisten()
        for one in self.runtimes:
            one.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_it_says_once_how_to_switch_nri_on_and_registers_when_it_is(bench: Bench) -> None:
    line = bench.connect()
    assert "disable = false below" in line
    assert line.startswith(f"not registered: {bench.path}: no runtime with NRI listens")
    with pytest.raises(CannotDo, match="no runtime with NRI listens"):
        check(bench.path)
    times = []
    for _ in range(8):
        at = bench.link.next_at()
        assert at is not None
        times.append(round(at - bench.now, 3))
        bench.now = at
        assert bench.connect() == ""
    assert times == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    bench.listen()
    check(bench.path)
    bench.now += 5
    assert bench.connect().startswith("registered with")
    assert (bench.link.is_connected, bench.link.next_at()) == (True, None)
    assert bench.runtimes[-1].created(container()) == HIGH


def test_a_runtime_that_restarts_has_the_plugin_again(bench: Bench) -> None:
    bench.listen()
    bench.connect()
    for turn in range(3):
        bench.woken.clear()
        bench.unlisten()
        bench.runtimes[-1].socket.shutdown(socket.SHUT_RDWR)
        assert bench.woken.wait(5), "the loop is woken"
        until(lambda: not bench.link.is_connected)
        assert bench.log[-1].startswith("the connection with the runtime is lost")
        bench.now += 10
        assert bench.connect().startswith("not registered") or turn
        bench.listen()
        bench.now += 10
        assert bench.connect().startswith("registered")
        assert bench.runtimes[-1].created(container()) == HIGH


def test_a_runtime_that_closes_each_connection_is_asked_ever_more_seldom(bench: Bench) -> None:
    bench.listen()
    asked = 0
    while bench.now < 60:
        if bench.connect().startswith("registered"):
            asked += 1
            bench.runtimes[-1].socket.shutdown(socket.SHUT_RDWR)
            until(lambda: not bench.link.is_connected)
        bench.now += 0.1
    assert 5 < asked < 25


def test_a_refusal_is_said_and_tried_again(bench: Bench) -> None:
    bench.refuse = "invalid plugin name"
    bench.listen()
    assert "invalid plugin name" in bench.connect()
    bench.now += 1
    assert bench.connect() == "", "said once"
    bench.refuse = ""
    bench.now += 10
    assert bench.connect().startswith("registered")


def test_a_file_that_is_no_socket_is_said(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(CannotDo, match="no runtime with NRI listens"):
        check(str(place))
    with pytest.raises(CannotDo, match="does not answer"):
        check("/" + "x" * 200)
