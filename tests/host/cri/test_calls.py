"""A runtime that is slow to answer a connection, or does not answer."""

import asyncio
import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

from qoslet.host.cri.calls import Away, Calls, answered
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.runtime_info import facts_of
from tests.host.cri.server import CriServer

SLOW_SECONDS = 0.6
"""More than gRPC waits between two attempts."""


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()
    with contextlib.suppress(ConnectionError):
        await target.wait_closed()


def test_a_runtime_on_a_busy_machine_takes_its_time_to_answer_a_connection(tmp_path: Path) -> None:
    slow = tmp_path / "slow.sock"
    connections = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        await asyncio.sleep(SLOW_SECONDS)
        behind = await asyncio.open_unix_connection(tmp_path / "cri.sock")
        await asyncio.gather(copy(reader, behind[1]), copy(behind[0], writer))

    async def ask() -> str:
        async with await asyncio.start_unix_server(accept, slow):
            calls = Calls(f"unix://{slow}")
            try:
                return (await calls.open()).runtime_name
            finally:
                await calls.close()
                await asyncio.gather(*filter(None, connections), return_exceptions=True)

    with CriServer(tmp_path):
        assert asyncio.run(ask()) == "containerd"


SETTINGS = b"\0\0\0\4\0\0\0\0\0"
GOAWAY = b"\0\0\x08\7\0\0\0\0\0\0\0\0\0\0\0\0\1"


def test_a_runtime_that_takes_no_calls_any_more_is_asked_once(tmp_path: Path) -> None:
    """As one that ends and does not come to its end: it keeps its connections."""
    with socket.socket(socket.AF_UNIX) as listening, contextlib.ExitStack() as kept:
        listening.bind(str(tmp_path / "cri.sock"))
        listening.listen()

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.enter_context(listening.accept()[0]).sendall(SETTINGS + GOAWAY)

        async def ask() -> None:
            calls = Calls(f"unix://{tmp_path}/cri.sock")
            try:
                await calls("Version", pb.VersionRequest(), pb.VersionResponse, 3.0)
            finally:
                await calls.close()

        server = threading.Thread(target=accept)
        server.start()
        begun = time.monotonic()
        try:
            with pytest.raises(Away, match="GOAWAY"):
                asyncio.run(ask())
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            server.join()
    assert time.monotonic() - begun < 2


def test_a_runtime_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    async def ask() -> None:
        calls = Calls(f"unix://{tmp_path}/none.sock")
        try:
            await calls.open()
        finally:
            await calls.close()

    begun = time.monotonic()
    with pytest.raises(Away):
        asyncio.run(ask())
    assert time.monotonic() - begun < 5


def test_a_runtime_that_comes_back_is_met_soon(tmp_path: Path) -> None:
    async def ask() -> float:
        calls = Calls(f"unix://{tmp_path}/cri.sock")
        with pytest.raises(Away):
            await calls.open()
        begun = time.monotonic()
        with CriServer(tmp_path):
            while time.monotonic() - begun < 8:
                with contextlib.suppress(Away):
                    await calls.open()
                    break
                await asyncio.sleep(0.05)
            await calls.close()
            return time.monotonic() - begun

    assert asyncio.run(ask()) < 5


def test_a_call_that_was_given_up_does_not_disturb_the_next_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "silent.sock"

    async def ask() -> None:
        calls = Calls(f"unix://{path}")
        try:
            async with asyncio.timeout(0.1):
                await facts_of(calls)
        finally:
            await calls.close()

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        for _ in range(5):
            with pytest.raises(TimeoutError):
                answered(ask())
            # what gRPC tells late arrives before the next question
            time.sleep(0.2)
    assert caplog.records == []


def test_a_socket_that_is_not_there_is_said_in_the_words_of_the_kernel(tmp_path: Path) -> None:
    endpoint = f"unix://{tmp_path}/none.sock"

    async def ask() -> None:
        calls = Calls(endpoint)
        try:
            await calls.open()
        finally:
            await calls.close()

    with pytest.raises(Away, match=r": Version: no answer: No such file or directory$"):
        answered(ask())
