"""``qoslet run --keep`` outlives who reads its log, and starts without any standard stream."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.agent.agents import Agent
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import ENVIRONMENT, PATIENCE, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]


@pytest.fixture
def one(agent: Agent) -> Iterator[Agent]:
    agent.write("a", pod("a", "exec sleep 1000"))
    yield agent
    agent.release()


def shell(agent: Agent, end: str) -> subprocess.Popen[str]:
    """The agent by way of a shell, with what stands at the end of its line."""
    line = " ".join(agent.verb("run", str(agent.manifests), "--keep"))
    return subprocess.Popen(
        ["bash", "-c", f"exec {line} {end}"],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "closed", [">&-", "2>&-", "<&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"]
)
def test_it_starts_without_standard_streams(one: Agent, closed: str) -> None:
    run = shell(one, closed)
    one.eventually(lambda: len(one.pids()) == 1 and one.answers())
    files = {number: os.readlink(f"/proc/{run.pid}/fd/{number}") for number in range(3)}
    for number, word in enumerate(("<&-", " >&-", "2>&-")):
        if word in f" {closed}":
            assert files[number] == "/dev/null", "no other file has its number"
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=PATIENCE)
    assert run.returncode == 0
    assert len(one.pids()) == 1


def test_it_outlives_the_reader_of_its_log(one: Agent) -> None:
    run = shell(one, "2>&1")
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.readline()
    run.stdout.close()
    run.stderr.close()
    one.eventually(lambda: len(one.pids()) == 1 and one.answers())
    one.write("b", pod("b", "exec sleep 1000"))
    one.eventually(lambda: len(one.pids()) == 2)
    time.sleep(0.5)
    assert run.poll() is None
    assert one.answers()
    run.send_signal(signal.SIGTERM)
    assert run.wait(PATIENCE) == 0
    assert len(one.pids()) == 2


def test_standard_input_that_is_closed_is_said(one: Agent, tmp_path: Path) -> None:
    line = " ".join(one.verb("run", "-", "--keep"))
    done = subprocess.run(
        ["bash", "-c", f"{line} <&-"], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "stdin: standard input is closed" in done.stderr
