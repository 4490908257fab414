"""Probes of real processes: in their group, within their time, with bounded output."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.workload.probe_spec import HttpGet, Probe, TcpSocket
from tests.host.keeper.test_process_runtime import Bench, shell

QUICK: dict[str, Any] = {"period": 0.1, "timeout": 5.0}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def start(*probes: Probe, restart: str = "Always", line: str = "exec sleep 987") -> Bench:
        one = replace(shell("c", line, restart=restart), probes=probes)
        made.append(Bench(tmp_path, one, grace=2.0))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.end()
        one.runtime.remove_pod("u")
        one.runtime.close()


def probe(kind: str, text: str, **fields: float) -> Probe:
    return Probe(kind, command=("sh", "-c", text), **{**QUICK, **fields})  # type: ignore[arg-type]


def test_a_failing_liveness_probe_has_the_container_restarted(run: Callable[..., Bench]) -> None:
    bench = run(probe("liveness", "echo no; exit 3", failure=2))
    states = bench.until(lambda states: states["c"].restarts >= 1)
    assert states["c"].killing == "Container c failed liveness probe, will be restarted"
    assert states["c"].probe_kills >= 1
    bench.until(lambda states: states["c"].unhealthy == ("Liveness probe failed: no",))


def test_a_container_that_never_restarts_stays_ended(run: Callable[..., Bench]) -> None:
    bench = run(probe("liveness", "exit 1", failure=1), restart="Never")
    states = bench.until(lambda states: not states["c"].running and states["c"].probe_kills == 1)
    assert states["c"].exit_code == 143
    assert states["c"].killing == "Container c failed liveness probe"


def test_readiness_follows_its_probe(run: Callable[..., Bench], tmp_path: Path) -> None:
    file = tmp_path / "ready"
    bench = run(probe("readiness", f"test -e {file}", failure=1))
    bench.until(lambda states: bool(states["c"].unhealthy))
    assert bench.states()["c"].ready is False
    file.touch()
    bench.until(lambda states: states["c"].ready is True and not states["c"].unhealthy)
    file.unlink()
    assert bench.until(lambda states: states["c"].ready is False)["c"].restarts == 0


def test_a_hanging_probe_delays_nobody_and_leaves_nothing(
    run: Callable[..., Bench], tmp_path: Path
) -> None:
    marks = tmp_path / "pids"
    text = f"echo $$ >> {marks}; sleep 987 & echo $! >> {marks}; wait"
    bench = run(probe("liveness", text, timeout=0.3, failure=1000))
    began = time.monotonic()
    while time.monotonic() < began + 1.5:
        before = time.monotonic()
        bench.states()
        assert time.monotonic() - before < 0.5
        time.sleep(0.02)
    (said,) = bench.states()["c"].unhealthy
    assert said.startswith("Liveness probe failed: command timed out: ")
    assert said.endswith("timed out after 0.3s")
    bench.end()
    bench.runtime.remove_pod("u")
    pids = [int(line) for line in marks.read_text().split()]
    assert len(pids) >= 4
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(_runs(pid) for pid in pids):
        time.sleep(0.02)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def test_output_is_bounded(run: Callable[..., Bench]) -> None:
    bench = run(probe("liveness", "head -c 3000000 /dev/zero | tr '\\0' x; exit 1", failure=1000))
    states = bench.until(lambda states: bool(states["c"].unhealthy))
    assert 1000 < len(states["c"].unhealthy[0]) < 1100


def test_a_command_that_is_not_there_is_an_error_and_no_failure(run: Callable[..., Bench]) -> None:
    bench = run(Probe("liveness", command=("/no/such",), **QUICK, failure=1))
    states = bench.until(lambda states: bool(states["c"].unhealthy))
    assert "errored and resulted in unknown state" in states["c"].unhealthy[0]
    time.sleep(0.3)
    assert bench.states()["c"].probe_kills == 0


def test_startup_holds_back_the_other_probes(run: Callable[..., Bench], tmp_path: Path) -> None:
    up, seen = tmp_path / "up", tmp_path / "seen"
    bench = run(
        probe("startup", f"test -e {up}", failure=1000),
        probe("liveness", f"touch {seen}"),
    )
    bench.until(lambda states: bool(states["c"].unhealthy))
    assert not seen.exists()
    assert bench.states()["c"].ready is False
    up.touch()
    bench.until(lambda states: seen.exists())
    assert bench.states()["c"].ready is True


def test_ports_of_a_plain_pod_are_the_hosts(run: Callable[..., Bench]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bench = run(Probe("readiness", tcp=TcpSocket(port), **QUICK))
        bench.until(lambda states: states["c"].ready is True)
    bench.until(lambda states: states["c"].ready is False)
    refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert bench.states()["c"].unhealthy == (f"Readiness probe failed: {refused}",)


def test_a_silent_server_runs_into_the_timeout(run: Callable[..., Bench]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bench = run(Probe("readiness", http=HttpGet(port), period=0.2, timeout=0.3))
        states = bench.until(lambda states: bool(states["c"].unhealthy))
    assert "context deadline exceeded" in states["c"].unhealthy[0]


def test_an_edited_probe_counts_without_a_restart(run: Callable[..., Bench]) -> None:
    bench = run(probe("readiness", "exit 1"))
    pid = bench.until(lambda states: bool(states["c"].unhealthy))["c"].pid
    edited = replace(bench.spec.launches[0], probes=(probe("readiness", "true"),))
    bench.runtime.update(replace(bench.spec, launches=(edited,)))
    assert bench.until(lambda states: states["c"].ready is True)["c"].pid == pid


def test_a_keeper_goes_on_with_the_probes_of_one_before(tmp_path: Path) -> None:
    one = replace(
        shell("c", "exec sleep 987", restart="Always"), probes=(probe("readiness", "true"),)
    )
    first = Bench(tmp_path, one)
    first.start()
    pid = first.until(lambda states: states["c"].ready is True)["c"].pid
    first.runtime.close()
    second = Bench(tmp_path, one, groups=first.groups)
    second.runtime.take_up()
    assert second.states()["c"].ready is True
    assert second.states()["c"].pid == pid
    second.end()
    second.runtime.remove_pod("u")
    second.runtime.close()


def test_nothing_is_open_after_many_probes(run: Callable[..., Bench]) -> None:
    bench = run(probe("readiness", "true", period=0.02), probe("liveness", "true", period=0.02))
    bench.until(lambda states: states["c"].ready is True)
    before = len(os.listdir("/proc/self/fd"))
    began = time.monotonic()
    while time.monotonic() < began + 1.0:
        bench.states()
        time.sleep(0.005)
    assert len(os.listdir("/proc/self/fd")) <= before + 8
