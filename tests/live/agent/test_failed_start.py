"""A start that fails late: nothing of it stays, and nothing that stood before goes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.host.state.folder import DEFAULT_STORAGE, LOG_DIRECTORY
from tests.live.agent.agents import Agent
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import PATIENCE, ended, pod
from tests.live.managers.test_managers_agent import STATIC

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

Start = Callable[[Agent, tuple[str, ...]], subprocess.Popen[str]]


def port_taken(agent: Agent, options: tuple[str, ...]) -> None:
    """The address of the metrics is another's."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        _, err = ended(agent.begin("--metrics-bind-address", address, *options), 3)
    assert "cannot listen: Address already in use" in err
    agent.runs.pop()


def socket_in_the_way(agent: Agent, options: tuple[str, ...]) -> None:
    """The agent's own socket cannot be made, for a mount cannot be moved away: everything else is
    done by then."""
    place = agent.folder / "agent.sock.new"
    place.mkdir(parents=True, exist_ok=True)
    agent.folder.chmod(0o700)
    agent.folder.parent.chmod(0o700)
    subprocess.run(["mount", "-t", "tmpfs", "qoslet-test", place], check=True)
    try:
        _, err = ended(agent.begin(*options), 3)
    finally:
        subprocess.run(["umount", place], check=True)
    assert "cannot create the agent's socket" in err
    agent.runs.pop()
    place.rmdir()


def unsound_node(agent: Agent, options: tuple[str, ...]) -> None:
    """The configuration has an error, which the plan says."""
    _, err = ended(agent.begin("--qos-reserved", "cpu=50%", *options), 2)
    assert "qos" in err.lower()
    agent.runs.pop()


FAILURES = [port_taken, socket_in_the_way, unsound_node]


@pytest.mark.parametrize("keep", [("--keep",), ()], ids=["keep", "run"])
@pytest.mark.parametrize("fail", FAILURES)
def test_it_leaves_nothing(agent: Agent, fail: Callable[..., None], keep: tuple[str, ...]) -> None:
    agent.write("a", pod("a", "exec sleep 1000"))
    fail(agent, (*keep, *STATIC))
    assert not agent.groups()
    left = list(agent.folder.iterdir()) if agent.folder.exists() else []
    assert left == []
    if agent.folder.exists():
        agent.folder.rmdir()
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 1)
    agent.stop(run)


@pytest.mark.parametrize("keep", [("--keep",), ()], ids=["keep", "run"])
@pytest.mark.parametrize("fail", FAILURES)
def test_what_stood_before_stays(
    agent: Agent, fail: Callable[..., None], keep: tuple[str, ...]
) -> None:
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 1)
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=PATIENCE)
    pids = agent.pids()
    fail(agent, keep)
    assert agent.pids() == pids
    run = agent.service()
    agent.until(agent.answers)
    assert agent.pids() == pids
    assert "the tree is as planned" in agent.stop(run)
    agent.release()
    assert not agent.folder.exists()


def test_release_finds_what_a_killed_start_left(agent: Agent) -> None:
    agent.folder.mkdir(mode=0o700, parents=True)
    agent.folder.parent.chmod(0o700)
    for name in ("cpu_manager_state", "keeper.lock", "cri.endpoint", "memory-events.new"):
        (agent.folder / name).write_text("{}")
    said = agent.release()
    assert "removed the state of a run without pods" in said
    assert not agent.folder.exists()


@pytest.mark.parametrize("place", [LOG_DIRECTORY, f"{DEFAULT_STORAGE}/containers"])
def test_release_finds_what_a_boot_has_left(agent: Agent, place: str) -> None:
    left = Path(place) / agent.folder.name
    (left / "default_web_1/c").mkdir(parents=True)
    assert "removed the state of a run without pods" in agent.release()
    assert not left.exists()
    assert not agent.folder.exists()


def test_assignments_that_nothing_runs_by_hold_up_no_start(agent: Agent) -> None:
    agent.folder.mkdir(mode=0o700, parents=True)
    agent.folder.parent.chmod(0o700)
    state = agent.folder / "cpu_manager_state"
    state.write_text('{"policyName":"static","defaultCpuSet":"0","entries":{"x":{"c":"1"}}}')
    os.chmod(state, 0o600)
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 1)
    out = agent.stop(run)
    assert "removed, since no pod runs" in out
    assert not state.exists()
