"""The agent's socket: private, bounded, and no peer holds up another."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.errors import BadInput, CannotDo
from qoslet.host.questions.http_client import BusyAgent, ask
from qoslet.host.questions.http_server import (
    Page,
    Pages,
    StateServer,
    is_there,
    listen,
    private,
    public,
)
from qoslet.host.questions.request_server import ASKING, AT_ONCE
from qoslet.host.state.folder import AGENT_SOCKET


def late() -> Page:
    time.sleep(0.5)
    return Page("text/plain", b"late")


def pages() -> Pages:
    return {"/v1/pods": lambda: Page("application/json", b'{"items": []}'), "/slow": late}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / ("long" * 40)
    place.mkdir(mode=0o700)
    return place


@pytest.fixture
def server(folder: Path) -> Iterator[StateServer]:
    made = private(str(folder), pages())
    yield made
    made.close()


@pytest.mark.parametrize("stopped", [True, False])
def test_an_agent_that_does_not_answer_is_named(folder: Path, stopped: bool) -> None:
    code = """if True:
        import os, signal, socket, sys
        listener = socket.socket(socket.AF_UNIX)
        os.chdir(sys.argv[1])
        listener.bind(sys.argv[2])
        listener.listen()
        print("listens", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", code, str(folder), AGENT_SOCKET]
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        if stopped:
            agent.send_signal(signal.SIGSTOP)
            os.waitpid(agent.pid, os.WUNTRACED)
        with pytest.raises(BusyAgent) as caught:
            ask(str(folder), "/v1/pods", seconds=0.2)
        state = "is stopped" if stopped else "does not answer"
        assert caught.value.message == f"the agent {state} (process {agent.pid})"
        hint = f"kill -CONT {agent.pid}" if stopped else "look at its log"
        assert caught.value.hint == hint
    finally:
        agent.kill()
        agent.communicate()


def test_a_question_and_its_answer(server: StateServer, folder: Path) -> None:
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    facts = os.stat(folder / AGENT_SOCKET)
    assert stat.S_ISSOCK(facts.st_mode)
    assert stat.S_IMODE(facts.st_mode) == 0o600
    assert [entry.name for entry in folder.iterdir()] == [AGENT_SOCKET]


def test_a_page_that_is_not_there(server: StateServer, folder: Path) -> None:
    with pytest.raises(CannotDo, match="404"):
        ask(str(folder), "/v1/secrets")


def test_a_second_agent_takes_the_place_of_a_dead_one(folder: Path) -> None:
    first = private(str(folder), pages())
    second = private(str(folder), pages())
    first.close()
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    second.close()
    with pytest.raises(CannotDo, match="no agent is running"):
        ask(str(folder), "/v1/pods")


@pytest.mark.parametrize("full", [False, True])
def test_what_has_the_name_of_the_socket_gives_way(folder: Path, full: bool) -> None:
    place = folder / AGENT_SOCKET
    (folder / "elsewhere").touch()
    place.symlink_to("elsewhere")
    assert not is_there(str(folder))
    place.unlink()
    (place / "kept" if full else place).mkdir(parents=True)
    assert not is_there(str(folder))
    made = private(str(folder), pages())
    assert is_there(str(folder))
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    assert len([*folder.glob(f"{AGENT_SOCKET}.*/kept")]) == full
    made.close()


def test_where_no_inode_is_left_the_socket_of_a_dead_agent_gives_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source: bind(2), ENOSPC on a tmpfs with as many files as it may have."""

    class Full(socket.socket):
        def bind(self, address: object) -> None:
            if os.path.lexists(folder / AGENT_SOCKET):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().bind(address)  # type: ignore[arg-type]

    dead = private(str(folder), pages())
    dead.close()
    assert is_there(str(folder))
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", Full)
        again = private(str(folder), pages())
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    again.close()


def test_nobody_there(folder: Path) -> None:
    with pytest.raises(CannotDo, match="no agent is running"):
        ask(str(folder), "/v1/pods")
    with pytest.raises(CannotDo, match="no agent is running"):
        ask(str(folder / "gone"), "/v1/pods")


@pytest.mark.parametrize(
    "nonsense",
    [b"", b"\x00\xff" * 100, b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"POST /v1/pods HTTP/1.1\r\n\r\n",
     b"GET /v1/pods HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n"],
    ids=["nothing", "binary", "long", "post", "headers"],
)  # fmt: skip
def test_nonsense_harms_nobody(server: StateServer, folder: Path, nonsense: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        os.chdir(folder)
        peer.connect(AGENT_SOCKET)
        try:
            peer.sendall(nonsense)
        except OSError:
            pass
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'


def test_peers_that_ask_nothing_hold_up_others_for_a_while_only(
    server: StateServer, folder: Path
) -> None:
    os.chdir(folder)
    idle = [socket.socket(socket.AF_UNIX) for _ in range(AT_ONCE)]
    for peer in idle:
        peer.connect(AGENT_SOCKET)
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    for peer in idle:
        peer.close()
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'


def test_peers_that_drip_hold_up_nobody_and_are_let_go(folder: Path) -> None:
    """A deadline for each read alone was none: eight such peers silenced the metrics."""
    made = public(listen("127.0.0.1:0"), pages(), seconds=1.0)
    dripping = [socket.create_connection(made.address) for _ in range(3 * AT_ONCE)]
    ended: set[socket.socket] = set()
    begun = time.monotonic()
    while len(ended) < len(dripping) and time.monotonic() < begun + 30:
        for peer in dripping:
            try:
                peer.sendall(b"G")
            except OSError:
                ended.add(peer)
        with socket.create_connection(made.address, timeout=5) as other:
            other.sendall(b"GET /v1/pods HTTP/1.0\r\n\r\n")
            assert other.recv(4096).startswith(b"HTTP/1.0 200 OK")
        time.sleep(0.05)
    assert len(ended) == len(dripping)
    for peer in dripping:
        peer.close()
    made.close()


def test_more_peers_than_there_is_room_for_take_the_place_of_the_oldest(
    server: StateServer, folder: Path
) -> None:
    os.chdir(folder)
    idle = [socket.socket(socket.AF_UNIX) for _ in range(ASKING + 10)]
    for peer in idle:
        peer.connect(AGENT_SOCKET)
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    assert idle[0].recv(1) == b""
    for peer in idle:
        peer.close()


def test_a_peer_that_does_not_read_its_answer_is_let_go() -> None:
    large = {"/metrics": lambda: Page("text/plain", b"x" * (32 << 20))}
    made = public(listen("127.0.0.1:0"), large, seconds=0.5)
    lazy = [socket.create_connection(made.address) for _ in range(AT_ONCE)]
    for peer in lazy:
        peer.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    with socket.create_connection(made.address, timeout=30) as other:
        other.sendall(b"HEAD /metrics HTTP/1.0\r\n\r\n")
        assert other.recv(4096).startswith(b"HTTP/1.0 200 OK")
    for peer in lazy:
        peer.close()
    made.close()


def test_a_request_in_pieces(server: StateServer, folder: Path) -> None:
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(AGENT_SOCKET)
        for piece in (b"GET /v1/pods HT", b"TP/1.0\r", b"\n\r", b"\n"):
            peer.sendall(piece)
            time.sleep(0.02)
        assert peer.recv(4096).startswith(b"HTTP/1.0 200 OK")


def test_out_of_descriptors_it_waits_instead_of_spinning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[float] = []

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            if len(refused) < 3:
                refused.append(time.monotonic())
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(socket, "socket", Full)
    made = private(str(folder), pages())
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    assert refused[-1] - refused[0] >= 0.2
    made.close()


def test_without_a_thread_to_be_had_it_answers_all_the_same(
    server: StateServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    for _ in range(3):
        assert ask(str(folder), "/v1/pods") == b'{"items": []}'


def test_a_slow_page_holds_up_no_other(server: StateServer, folder: Path) -> None:
    answers: list[bytes] = []
    asking = threading.Thread(target=lambda: answers.append(ask(str(folder), "/slow")))
    asking.start()
    assert ask(str(folder), "/v1/pods") == b'{"items": []}'
    assert answers == []
    asking.join()
    assert answers == [b"late"]


def test_over_tcp() -> None:
    made = public(listen("127.0.0.1:0"), pages())
    with socket.create_connection(made.address) as peer:
        peer.sendall(b"GET /v1/pods?x=1 HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: peer.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert answer.endswith(b'{"items": []}')
    with pytest.raises(CannotDo, match="cannot listen"):
        listen(f"127.0.0.1:{made.address[1]}")
    made.close()


@pytest.mark.parametrize("address", ["", "x", "127.0.0.1:", "127.0.0.1:99999", "host:80", "::1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(BadInput):
        listen(address)


def test_descriptors_and_threads_are_given_back(folder: Path) -> None:
    def count() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    before = count()
    for _ in range(3):
        made = private(str(folder), pages())
        for _ in range(20):
            ask(str(folder), "/v1/pods")
        made.close()
    deadline = time.monotonic() + 10
    while count() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert count() == before
