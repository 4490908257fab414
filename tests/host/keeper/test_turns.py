"""A pod of many containers starts and ends in turns: nothing else waits for all of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.host.containers.log_files import ContainerLogs, LogLimits
from qoslet.host.containers.records import ProcessRecords
from qoslet.host.keeper.pod import TURN_SECONDS
from qoslet.host.keeper.process_runtime import ProcessRuntime
from tests.host.keeper.sessions import Sessions
from tests.host.keeper.test_process_runtime import launch

MANY = 40
STEP = TURN_SECONDS / 12
"""Seconds that pass with each question for the time: a turn has a few starts."""


class Turns:
    """A runtime whose time passes as it works."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.runtime = ProcessRuntime(
            Sessions(),
            ContainerLogs(str(folder / "logs"), LogLimits()),
            ProcessRecords(str(folder / "keeper"), "boot"),
            clock=self._time,
        )

    def _time(self) -> float:
        self.now += STEP
        return self.now

    def start(self, uid: str, *launches: ProcessSpec) -> None:
        paths = {one.name: f"/g/{os.getpid()}/{one.name}" for one in launches}
        self.runtime.start(PodSpec(uid, f"default/{uid}", launches, 5.0, ()), paths)

    def running(self, uid: str) -> int:
        return sum(state.running for state in self.runtime.states(uid))

    def until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not ready():
            assert time.monotonic() < deadline
            self.runtime.poll()
            time.sleep(0.001)


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    made = Turns(tmp_path)
    yield made
    for uid in made.runtime.list_pods():
        made.runtime.stop(uid, 0)
    deadline = time.monotonic() + 20
    while any(made.running(uid) for uid in made.runtime.list_pods()):
        assert time.monotonic() < deadline
        made.runtime.poll()


def many(*argv: str) -> list[ProcessSpec]:
    return [launch(f"c{number}", *argv) for number in range(MANY)]


def test_a_pod_of_many_containers_holds_up_no_start_of_another(turns: Turns) -> None:
    turns.start("many", *many("sleep", "100"))
    assert 0 < turns.running("many") < MANY / 2
    assert turns.runtime.wait() == 0.0
    turns.start("one", launch("one", "sleep", "100"))
    for _ in range(3):
        turns.runtime.poll()
    assert turns.running("one") == 1
    assert turns.running("many") < MANY / 2
    turns.start("more", *[launch(f"d{number}", "sleep", "100") for number in range(MANY)])
    turns.until(lambda: turns.running("many") == turns.running("more") == MANY)
    turns.runtime.poll()
    assert turns.runtime.wait() != 0.0


def test_a_pod_that_is_stopped_meanwhile_starts_nothing_more(turns: Turns) -> None:
    turns.start("many", *many("sleep", "100"))
    begun = turns.running("many")
    turns.runtime.stop("many", 0)
    turns.until(lambda: turns.runtime.held_pod("many").ended)
    ended = [one for one in turns.runtime.states("many") if one.exit_code is not None]
    assert len(ended) == begun
    turns.runtime.remove_pod("many")
    turns.runtime.poll()
    assert turns.runtime.wait() != 0.0


def test_many_ends_at_once_are_dealt_with_in_turns(turns: Turns) -> None:
    turns.start("many", *many("sleep", "100"))
    states = lambda: turns.runtime.states("many")  # noqa: E731
    turns.until(lambda: all(state.pid and not state.starting for state in states()))
    for state in states():
        assert state.pid is not None
        os.kill(state.pid, signal.SIGKILL)
    time.sleep(0.3)
    turns.runtime.poll()
    assert MANY / 2 < turns.running("many") < MANY
    turns.until(lambda: turns.running("many") == 0)
    assert {state.exit_code for state in states()} == {137}
