"""Everything at once, by chance: pods come, change, return and go, the agent is killed (-9) before any
of its steps, steps fail, others write, remove and end what they like, and the node is configured
anew. Whenever it gets calm, all is as wanted; at the end nothing is left."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.api.pod import Pod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo
from tests.agent.faults.test_soak import (
    GENTLY,
    KINDS,
    Slow,
    Weather,
    calm,
    ended_as_it_should,
    vanish,
)
from tests.agent.fixtures import node
from tests.agent.world import ROOT, Agent, World, pod

WALKS = 8
"""For each hierarchy."""
STEPS, CALM_EVERY = 48, 12
NODES: tuple[Mapping[str, Any], ...] = (
    {},
    {"cpu_cfs_quota": False},
    {"cgroups_per_qos": False, "enforce_node_allocatable": ()},
)
FOREIGN = {
    "v1": (("cpu.shares", "77"), ("memory.limit_in_bytes", "123456789"), ("pids.max", "5")),
    "v2": (("cpu.weight", "77"), ("memory.max", "123456789"), ("pids.max", "5")),
}


class Killed(BaseException):
    """An agent that is not to go on."""


class Walk:
    """An agent on a machine, and what is wanted of it. ``left``: steps until it is killed."""

    def __init__(self, seed: str, hierarchy: str, state: Path) -> None:
        self.some = random.Random(f"{seed} {hierarchy}")
        self.hierarchy, self.state = hierarchy, state
        self.weather = Weather(self.some)
        self.world = World(hierarchy)
        self.wanted: dict[str, tuple[Pod, PodSpec]] = {}
        self.node: Mapping[str, Any] = {}
        self.left = self.kills = 0
        self.corpse: World | None = None
        self.agent = self._begun()

    def _begun(self) -> Agent:
        """An agent on the machine as it is."""
        self.world.on = lambda what: None
        configured = node(self.hierarchy, **self.node)  # type: ignore[arg-type]
        agent = Agent(self.world, self.state, configured, self._pods().values(), GENTLY)
        if self.some.random() < 0.5:
            agent.driver.slow = Slow(self.weather)  # type: ignore[assignment]
        self.world.on = self._boundary
        return agent

    def _pods(self) -> dict[str, tuple[Pod, PodSpec]]:
        return {one[0].uid: one for one in self.wanted.values()}

    def _boundary(self, what: str) -> None:
        """The agent is about to do something."""
        if self.left and what.split()[0] not in ("poll", "list_pods", "turn"):
            self.left -= 1
            if not self.left:
                self.corpse = self.world.copy()
                file = self.agent.file
                self.corpse.journal = file.read_bytes() if file.exists() else b""
                raise Killed
        self.weather(what)

    def _again(self) -> None:
        """Another agent, after the last one ended or was killed."""
        self.world.on = lambda what: None
        journal = self.agent.close()
        if self.corpse is None:
            self.world.journal = journal
        else:
            self.world, self.corpse = self.corpse, None
        self.left = 0
        self.agent = self._begun()

    def step(self) -> None:
        """Some of everything, and a few turns."""
        some = self.some
        for _ in range(some.choice((0, 1, 1, 2, 5))):
            self._edit(f"p{some.randrange(8)}")
        self.agent.want(self._pods())
        self._meddle()
        if some.random() < 0.05:
            self.node = some.choice(NODES)
            self._again()
        if some.random() < 0.25:
            self.left = some.randrange(1, 30)
        try:
            for _ in range(some.choice((1, 1, 2, 4))):
                self.agent.turn()
                self.agent.wait(some.choice((0.05, 0.2, 1.0)))
        except CannotDo:
            # a start that its runtime does not answer ends
            assert self.agent.reconciler.last_result is None
            self._again()
        except Killed:
            self.kills += 1
            if self.wanted and some.random() < 0.3:
                del self.wanted[some.choice(sorted(self.wanted))]
            self._again()
        self.left = 0

    def _edit(self, name: str) -> None:
        """A manifest comes, goes or changes; one that comes again may have another UID."""
        some, chance = self.some, self.some.random()
        if name in self.wanted and chance < 0.35:
            del self.wanted[name]
            return
        number, uid = int(name[1:]), name + some.choice(("", "x"))
        limit = f"cpu={some.randrange(1, 4)} memory={some.choice((32, 64, 128))}Mi"
        kind = some.choice(KINDS) if chance > 0.9 else KINDS[number % len(KINDS)]
        resized = 0.8 < chance < 0.9 and number % len(KINDS) == 0
        made = pod(name, limit=limit) if resized else kind(name)
        self.wanted[name] = replace(made[0], uid=uid), replace(made[1], uid=uid)

    def _meddle(self) -> None:
        """Others write, remove and end what they like."""
        some, kernel = self.some, self.world.kernel
        alive = sorted(pid for pid, one in kernel.processes.items() if one.exit_code is None)
        if alive and some.random() < 0.1:
            kernel.end(some.choice(alive), some.choice((0, 1, 137)))
        if some.random() < 0.15:
            vanish(self.world, self.weather)
        paths = sorted(path for path in kernel.groups if path.startswith(ROOT))
        if paths and some.random() < 0.2:
            path, (file, value) = some.choice(paths), some.choice(FOREIGN[self.hierarchy])
            try:
                kernel.write(path, file, value)
            except OSError:
                return


def runs_what_is_wanted(agent: Agent) -> None:
    """Each pod that is kept is the one that is wanted now, not as it was before an edit."""
    for uid, kept in agent.world.runtime.kept.items():
        assert kept.spec.digest() == agent.source.pods[uid].spec.digest(), uid


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@pytest.mark.parametrize("seed", range(WALKS))
def test_whenever_it_is_calm_all_is_as_wanted(seed: int, hierarchy: str, tmp_path: Path) -> None:
    walk = Walk(str(seed), hierarchy, tmp_path / "state")
    for number in range(1, STEPS + 1):
        walk.step()
        if number % CALM_EVERY == 0:
            calm(walk.agent, walk.weather)
            ended_as_it_should(walk.agent)
            runs_what_is_wanted(walk.agent)
    walk.wanted.clear()
    walk.agent.want({})
    calm(walk.agent, walk.weather)
    ended_as_it_should(walk.agent)
    assert dict(walk.world.processes) == {}
    assert walk.world.disk.there == {}
    assert walk.kills
    walk.agent.close()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_an_edit_between_two_agents_leaves_no_cgroup_of_what_was_not_started(
    hierarchy: str, tmp_path: Path
) -> None:
    walk = Walk("edited", hierarchy, tmp_path / "state")

    def killed(what: str) -> None:
        if what.startswith("start "):
            raise Killed

    walk.wanted["a"] = pod("a", "app", "more")
    walk.agent.want(walk._pods())
    walk.world.on = killed
    with pytest.raises(Killed):
        walk.agent.turn()
    more = [path for path in walk.world.kernel.groups if path.endswith("/more")]
    assert len(more) == 1
    walk.wanted["a"] = pod("a", "app")
    walk._again()
    calm(walk.agent, walk.weather)
    ended_as_it_should(walk.agent)
    said = f"{more[0]} belongs to no container of {more[0].rpartition('/')[0]} (empty): removing it"
    assert walk.agent.said.count(said) == 1
    walk.agent.close()
