"""Lifecycle hooks of real processes, and a keeper that is killed in the middle of one."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.workload.hook_spec import TCP_SOCKET, Hook
from qoslet.core.workload.life import HOOK_ERROR
from qoslet.core.workload.probe_spec import HttpGet
from tests.host.keeper.test_process_runtime import Bench, ended, shell

WAITS = "exec sleep 987"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def start(*hooks: Hook, restart: str = "Never", line: str = WAITS, grace: float = 5.0) -> Bench:
        one = replace(shell("c", line, restart=restart), hooks=hooks)
        made.append(Bench(tmp_path, one, grace=grace))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.end()
        one.runtime.remove_pod("u")
        one.runtime.close()


def hook(kind: str, text: str) -> Hook:
    return Hook(kind, command=("sh", "-c", text))  # type: ignore[arg-type]


def test_it_has_not_started_until_its_post_start_ended(
    run: Callable[..., Bench], tmp_path: Path
) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    text = f"while ! test -e {go}; do sleep 0.01; done; touch {done}"
    bench = run(hook("postStart", text))
    bench.until(lambda states: states["c"].pid is not None)
    time.sleep(0.2)
    assert bench.states()["c"].starting
    go.touch()
    bench.until(lambda states: not states["c"].starting)
    assert done.exists()


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (hook("postStart", "echo no; exit 3"), "exit code 3: no"),
        (Hook("postStart"), TCP_SOCKET),
        (Hook("postStart", command=("/no/such",)), "o such file"),
        (Hook("postStart", http=HttpGet(1, hook=True)), "connection refused"),
    ],
)
def test_a_failed_post_start_ends_the_container(
    run: Callable[..., Bench], one: Hook, said: str
) -> None:
    bench = run(one)
    (failed,) = bench.until(lambda states: bool(states["c"].failed_hooks))["c"].failed_hooks
    assert failed[0] == "postStart"
    assert failed[1].startswith("PostStartHook failed: ")
    assert said in failed[1]
    states = bench.until(ended)
    assert (states["c"].exit_code, states["c"].end_reason) == (143, HOOK_ERROR)


def test_and_has_it_restarted(run: Callable[..., Bench], tmp_path: Path) -> None:
    file = tmp_path / "there"
    bench = run(
        hook("postStart", f"test -e {file} || {{ touch {file}; exit 1; }}"), restart="Always"
    )
    states = bench.until(lambda states: states["c"].restarts == 1 and not states["c"].starting)
    assert not states["c"].failed_hooks


def test_a_pre_stop_goes_before_the_signal(run: Callable[..., Bench], tmp_path: Path) -> None:
    file = tmp_path / "order"
    line = f"trap 'echo term >> {file}; exit 0' TERM; while :; do sleep 0.02; done"
    bench = run(hook("preStop", f"sleep 0.2; echo hook >> {file}"), line=line)
    bench.until(lambda states: states["c"].pid is not None and not states["c"].starting)
    bench.runtime.stop("u", 5.0)
    bench.until(ended)
    assert file.read_text().split() == ["hook", "term"]


def test_a_hanging_one_ends_with_the_grace_and_its_container(
    run: Callable[..., Bench], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    bench = run(hook("preStop", f"echo $$ > {pid}; exec sleep 988"))
    bench.until(lambda states: states["c"].pid is not None and not states["c"].starting)
    began = time.monotonic()
    bench.runtime.stop("u", 1.0)
    states = bench.until(ended)
    assert time.monotonic() - began >= 1.0
    assert states["c"].exit_code == 143
    number = int(pid.read_text())
    bench.until(lambda _: not Path(f"/proc/{number}").exists())


def test_a_sleep_lasts_as_long_as_its_container(run: Callable[..., Bench]) -> None:
    bench = run(Hook("preStop", sleep=0.3), line="sleep 0.1; exec sleep 986")
    bench.until(lambda states: states["c"].pid is not None and not states["c"].starting)
    began = time.monotonic()
    bench.runtime.stop("u", 9.0)
    bench.until(ended)
    assert 0.3 <= time.monotonic() - began < 8


def test_a_container_that_ends_by_itself_has_no_pre_stop(
    run: Callable[..., Bench], tmp_path: Path
) -> None:
    file = tmp_path / "no"
    bench = run(hook("preStop", f"touch {file}"), line="true")
    bench.until(ended)
    bench.runtime.stop("u", 5.0)
    bench.until(ended)
    time.sleep(0.1)
    bench.states()
    assert not file.exists()


def test_a_hook_gets_any_answer_of_the_pods_own_address(run: Callable[..., Bench]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bench = run(Hook("postStart", http=HttpGet(port, "/x", hook=True)))
        bench.until(lambda _: bool(select.select([listener], [], [], 0)[0]))
        connection, _ = listener.accept()
        with connection:
            assert b"User-Agent: kube-lifecycle/" in connection.recv(65536)
            assert bench.states()["c"].starting
            connection.sendall(b"HTTP/1.1 500 X\r\n\r\n")
        bench.until(lambda states: not states["c"].starting)


def test_the_next_keeper_runs_a_pre_stop_again(run: Callable[..., Bench], tmp_path: Path) -> None:
    count, go = tmp_path / "count", tmp_path / "go"
    text = f"echo x >> {count}; while ! test -e {go}; do sleep 0.01; done"
    first = run(hook("preStop", text), grace=30.0)
    first.until(lambda states: states["c"].pid is not None and not states["c"].starting)
    first.runtime.stop("u", 30.0)
    first.until(lambda _: count.exists() and count.read_text() == "x\n")
    first.states()
    first.runtime.close()
    second = Bench(tmp_path, *first.spec.launches, groups=first.groups)
    second.runtime.take_up()
    second.until(lambda _: count.read_text() == "x\nx\n")
    assert second.states()["c"].running
    go.touch()
    second.until(ended)
    second.runtime.remove_pod("u")
    second.runtime.close()
    first.runtime = Bench(tmp_path, *first.spec.launches, groups=first.groups).runtime
