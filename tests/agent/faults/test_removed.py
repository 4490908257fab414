"""Others remove groups of pods while the journal cannot always be written, and while agents are
killed: what is made again is ours, and the journal on disk says so in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.journal import JournalState, read
from qoslet.core.reconcile.steps import Step
from qoslet.errors import CannotDo
from tests.agent.fixtures import node
from tests.agent.world import ROOT, Agent, World, pod

READS = ("poll", "list_pods", "turn")
ENOUGH = 20
"""Boundaries that there are at least between a removal and rest."""


class Removed:
    """An agent at rest whose pods' groups somebody removes, with all in them. From then on its
    boundaries count."""

    def __init__(self, hierarchy: Hierarchy, state: Path) -> None:
        self.hierarchy: Hierarchy = hierarchy
        self.state = state
        self.world = World(hierarchy)
        self.agent = self.begin(self.world)
        self.agent.settle()
        kernel = self.world.kernel
        gone = [path for path in kernel.groups if "/pod" in path]
        for path in sorted(gone, key=len, reverse=True):
            for one in kernel.members(path):
                kernel.end(one.pid, 137)
            kernel.rmdir(path)

    def begin(self, world: World) -> Agent:
        pods = [pod("a", limit="cpu=1 memory=64Mi"), pod("b", "app", "more")]
        return Agent(world, self.state, node(self.hierarchy), pods)


def true(world: World, agent: Agent) -> None:
    """Each pod runs, and the journal's file names what stands, with its inode."""
    said = read(agent.file.read_bytes())
    ledger = JournalState()
    ledger.add(said.entries)
    groups = world.kernel.observe(ROOT).cgroups
    assert said.bad == 0
    assert {path: inode for path, (_, inode) in ledger.cgroups.items()} == {
        path: one.identity for path, one in groups.items()
    }
    assert {path for path, _ in ledger.files} <= groups.keys()
    assert world.runtime.kept.keys() == agent.source.pods.keys()
    assert set(world.processes.values()) == {1}
    assert not [line for line in agent.said if "not in our journal" in line], agent.said


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_what_is_made_again_is_ours_whatever_record_fails(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    failed = True
    for number in range(100):
        here = Removed(hierarchy, tmp_path)
        left, failed = number, False

        def on(what: str) -> None:
            nonlocal left, failed
            if what == "record":
                left -= 1
                if left == -1:
                    failed = True
                    raise CannotDo("the journal's file system is full", where=ROOT)

        here.world.on = on
        here.agent.settle()
        here.world.on = lambda what: None
        # whatever is written next takes what is owed along
        here.agent.source.put(*pod("z"))
        here.agent.settle()
        true(here.world, here.agent)
        here.agent.close()
        if not failed:
            break
    assert number > 1
    assert not failed


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_killed_at_any_boundary_the_next_agent_knows_what_is_ours(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    here = Removed(hierarchy, tmp_path / "first")
    kills: list[World] = []

    def on(what: str) -> None:
        if what.split()[0] not in READS:
            world = here.world.copy()
            world.journal = here.agent.file.read_bytes()
            kills.append(world)

    here.world.on = on
    here.agent.settle()
    here.agent.close()
    assert len(kills) > ENOUGH
    here.state = tmp_path / "next"
    for world in kills:
        agent = here.begin(world)
        agent.settle()
        true(world, agent)
        agent.close()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_what_a_runtime_makes_again_before_us_is_ours(hierarchy: Hierarchy, tmp_path: Path) -> None:
    here = Removed(hierarchy, tmp_path)
    gone = [path for path in here.agent.journal.ledger.cgroups if path.endswith("/poda")]
    # the agent has seen that it is absent, and is about to make it
    here.world.driver().layout.create(gone[0])
    driver = here.agent.driver
    assert [one.error for one in driver.perform([Step("create", gone[0])])] == [None]
    assert here.agent.journal.ledger.is_owned(gone[0], driver.layout.trees[0].inode(gone[0]))
    here.agent.settle()
    true(here.world, here.agent)
    here.agent.close()
