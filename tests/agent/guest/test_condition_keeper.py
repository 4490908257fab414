"""The condition of the node: written where it is asked for, not too often, and taken away again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from qoslet.agent.guest.condition_keeper import HEARTBEAT_SECONDS, ConditionKeeper
from qoslet.agent.guest.guest_loop import run as run_loop
from qoslet.core.guest.node_condition import NodeCondition
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.guest.status import GuestSync
from tests.agent.guest.beside import Beside, Kubelet, Source, kubelet_pod
from tests.agent.world import World

GOOD = NodeCondition("False", "CgroupsAsPlanned", "all")
BAD = NodeCondition("True", "CgroupsDiffer", "1 drift: /kubepods/cpu.weight")


class Status:
    """The conditions of a node by type, and the patches that made them."""

    def __init__(self) -> None:
        self.conditions: dict[str, dict[str, Any]] = {"Ready": {"status": "True"}}
        self.patches = 0
        self.answer: str | None = ""
        self._body = b""

    def begin(self, body: bytes) -> None:
        assert not self._body, "one at a time"
        self._body, self.patches = body, self.patches + 1

    def result(self, seconds: float = 0.0) -> str | None:
        if not self._body or self.answer is None:
            return None
        body, self._body = self._body, b""
        if self.answer:
            return self.answer
        [row] = json.loads(body)["status"]["conditions"]
        if row.pop("$patch", "") == "delete":
            self.conditions.pop(row["type"], None)
        else:
            self.conditions.setdefault(row["type"], {}).update(row)
        return ""

    def ours(self) -> str | None:
        found = self.conditions.get("CgroupsDiffer")
        return None if found is None else str(found["status"])


class Times:
    """Times that outlive an agent."""

    def __init__(self) -> None:
        self.times: Sequence[float] = ()

    def load(self) -> Sequence[float]:
        return self.times

    def save(self, times: Sequence[float]) -> None:
        self.times = times

    def forget(self) -> None:
        self.times = ()


class Bench:
    """A keeper whose clock is told."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.status, self.kept = Status(), Times()
        self.keeper = self.another()

    def another(self) -> ConditionKeeper:
        return ConditionKeeper(
            self.status, self.kept, lambda: self.time, lambda: 1.7e9 + self.time, lambda: 0.0
        )

    def run(self, seconds: float, wanted: NodeCondition | None) -> None:
        for _ in range(round(seconds)):
            self.keeper.sync(wanted)
            self.time += 1


def test_nothing_is_asked_of_the_api_server_where_nothing_is_wanted() -> None:
    bench = Bench()
    bench.run(100, None)
    assert bench.keeper.withdraw() == ""
    assert bench.status.patches == 0
    assert bench.keeper.next_at() is None


def test_a_condition_is_written_when_it_changes_and_once_in_half_an_hour() -> None:
    bench = Bench()
    bench.run(3, GOOD)
    assert (bench.status.ours(), bench.status.patches) == ("False", 1)
    began = bench.status.conditions["CgroupsDiffer"]["lastTransitionTime"]
    bench.run(HEARTBEAT_SECONDS - 10, GOOD)
    assert bench.status.patches == 1
    bench.run(20, GOOD)
    assert bench.status.patches == 2
    assert bench.status.conditions["CgroupsDiffer"]["lastTransitionTime"] == began
    bench.run(120, BAD)
    assert (bench.status.ours(), bench.status.patches) == ("True", 3)
    assert bench.status.conditions["CgroupsDiffer"]["lastTransitionTime"] != began


def test_what_comes_and_goes_is_written_once_a_minute() -> None:
    bench = Bench()
    for number in range(600):
        bench.run(1, BAD if number % 2 else GOOD)
    assert bench.status.patches <= 11


def test_a_refusal_is_said_and_tried_again_less_and_less_often() -> None:
    bench = Bench()
    bench.status.answer = "the API server answers 403: no"
    bench.run(3600, GOOD)
    assert bench.keeper.fault == "condition of the node: the API server answers 403: no"
    assert 3 <= bench.status.patches <= 8
    bench.status.answer = ""
    bench.run(3600, GOOD)
    assert (bench.keeper.fault, bench.status.ours()) == ("", "False")


def test_a_server_that_does_not_answer_holds_nothing_up() -> None:
    bench = Bench()
    bench.status.answer = None
    bench.run(100, GOOD)
    assert bench.status.patches == 1
    bench.status.answer = ""
    bench.run(2, GOOD)
    assert bench.status.ours() == "False"


def test_it_goes_with_the_policy_also_in_the_next_agent() -> None:
    bench = Bench()
    bench.run(3, BAD)
    bench.keeper = bench.another()
    bench.run(3, None)
    assert bench.status.conditions == {"Ready": {"status": "True"}}
    patches = bench.status.patches
    bench.run(5000, None)
    assert bench.status.patches == patches
    bench.keeper = bench.another()
    bench.run(5, None)
    assert bench.status.patches == patches, "it is known to be gone"


def test_it_goes_with_the_agent() -> None:
    bench = Bench()
    bench.run(3, BAD)
    assert bench.keeper.withdraw() == ""
    assert bench.status.ours() is None
    bench.run(100, BAD)
    bench.status.answer = "no way"
    assert bench.keeper.withdraw() == "the condition of the node stays: no way"
    bench.status.answer = None
    assert bench.keeper.withdraw() == "the condition of the node stays: no answer"
    assert bench.kept.times, "the next agent takes it away"


def test_the_end_does_not_wait_for_a_server_that_is_asked_already() -> None:
    bench = Bench()
    bench.status.answer = None
    bench.run(3, BAD)
    assert bench.keeper.withdraw() == "the condition of the node stays: no answer"
    assert bench.status.patches == 1


class Surface:
    """Keeps what is warned of."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def synced(self, done: GuestSync) -> None:
        """Nothing to show."""

    def log(self, line: str) -> None:
        """Nothing to show."""

    def warn(self, line: str) -> None:
        self.lines.append(line)


class Never:
    """Nobody asks for the end."""

    def requested(self) -> bool:
        return False

    def reload(self) -> bool:
        return False


def test_an_agent_writes_what_its_audit_finds(tmp_path: Path) -> None:
    world, status = World("v2"), Status()
    pod = kubelet_pod("a")
    Kubelet(world).run(pod)
    source = Source([pod])
    source.policy = GuestPolicy("watch", node_condition=True)
    beside = Beside(world, tmp_path, source)
    agent = beside.agent
    agent.condition = ConditionKeeper(
        status, Times(), world.clock.monotonic, lambda: 1.7e9, lambda: 0.0
    )
    for _ in range(40):
        beside.sync(1)
    assert status.ours() in ("True", "False")
    assert status.patches == 1
    source.status = replace(source.status, complete=False)
    source.policy = GuestPolicy("watch")
    for _ in range(200):
        beside.sync(1)
    assert status.ours() is None
    source.policy = GuestPolicy("watch", node_condition=True)
    for _ in range(5):
        beside.sync(1)
    assert status.ours() is not None
    surface = Surface()
    run_loop(agent, world.clock, Never(), surface, keep=True, seconds=0.0)
    assert status.ours() is not None
    run_loop(agent, world.clock, Never(), surface, seconds=0.0)
    assert (status.ours(), surface.lines) == (None, [])
