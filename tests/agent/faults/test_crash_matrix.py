"""The agent killed (-9) between any two things that it does while pods come, change and go: the
next one converges in a bounded number of turns, leaves no orphan, loses no line of the journal
and restarts no pod that need not be.

A kill is a copy of the machine as it is at that moment, with another agent on it: nothing of the
first one's memory is left, and no ``finally`` was run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qoslet.core.api.pod import Pod
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.observed import Observed
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.quantity import parse
from qoslet.core.reconcile.drift import Cause, Difference, compare
from qoslet.core.reconcile.journal import JournalState, read
from qoslet.core.workload.process_spec import PodSpec
from tests.agent.fixtures import node
from tests.agent.world import ROOT, Agent, World, pod

CHUNKS = 6
"""Tests that a scenario is divided into, so that all CPUs have some."""
TURNS = 25
"""Turns within which a new agent has put everything right."""
READS = ("poll", "list_pods")
SYSTEM = "/system"
Pods = Mapping[str, tuple[Pod, PodSpec]]


class Stage(NamedTuple):
    """What is wanted for a while. ``over`` are pods that have ended for good by its end."""

    pods: Pods
    node: Mapping[str, Any] = {}
    over: frozenset[str] = frozenset()


def stage(*pods: tuple[Pod, PodSpec], over: str = "", **given: Any) -> Stage:
    return Stage({one.uid: (one, spec) for one, spec in pods}, given, frozenset(over.split()))


SAME: dict[str, Any] = {"request": "cpu=500m memory=64Mi", "limit": "cpu=500m memory=64Mi"}
RESERVED: dict[str, Any] = {
    "qos_reserved": 50,
    "gates": {"QOSReserved": True},
    "enforce_node_allocatable": ("pods", "system-reserved"),
    "system_reserved": {"cpu": parse("500m"), "memory": parse("256Mi")},
    "system_reserved_cgroup": SYSTEM,
}
OUTSIDE: dict[str, Any] = {"cgroups_per_qos": False, "enforce_node_allocatable": ()}

SCENARIOS: dict[str, tuple[Stage, ...]] = {
    "life": (
        stage(
            pod("a", **SAME),
            pod("b", "app", "more", limit="cpu=1 memory=128Mi", volumes=("v",)),
            pod("c", request="", command="slow"),
            pod("j", restart="Never", command="true"),
            over="j",
        ),
        stage(
            pod("a", **SAME),
            pod("b", "app", "more", limit="cpu=2 memory=256Mi", volumes=("v",)),
            pod("c", request="", command="slow", volumes=("w",)),
            pod("d", "i:first", "s:beside", "app", limit="memory=64Mi"),
            pod("j", restart="Never", command="true"),
            over="j",
        ),
        stage(
            pod("b", "app", "more", limit="cpu=500m memory=32Mi", volumes=("v",)),
            pod("d", "i:first", "s:beside", "app", limit="memory=64Mi", command="slow"),
            pod("e", request="cpu=2"),
        ),
        stage(),
    ),
    "reserved": (
        stage(pod("g", **SAME), pod("b"), pod("x", request="", command="slow"), **RESERVED),
        stage(
            pod("g", request="cpu=1 memory=1Gi", limit="cpu=1 memory=1Gi"),
            pod("b", request="cpu=1 memory=512Mi", volumes=("v",)),
            pod("h", "s:beside", "app", **SAME),
            **RESERVED,
        ),
        stage(pod("h", "s:beside", "app", **SAME), pod("x", request=""), **RESERVED),
    ),
    "switched": (
        stage(pod("a"), pod("n", restart="Never"), pod("s", command="slow"), **OUTSIDE),
        stage(pod("a"), pod("n", restart="Never"), pod("s", command="slow"), pod("t"), over="n"),
        stage(pod("a"), pod("s", command="slow"), pod("t", volumes=("v",)), **OUTSIDE),
    ),
}
CASES = [
    (name, hierarchy, chunk)
    for name in SCENARIOS
    for hierarchy in ("v1", "v2")
    for chunk in range(CHUNKS)
]


@cache
def node_of(hierarchy: str, stage_of: tuple[str, int]) -> Node:
    given = SCENARIOS[stage_of[0]][stage_of[1]].node
    return node(hierarchy, **given)  # type: ignore[arg-type]


class Kill(NamedTuple):
    """A machine as a killed agent left it: in which stage, before what; ``torn`` is the least
    length of the journal of which the last write may have been lost in part."""

    world: World
    stage: int
    before: str
    number: int
    torn: int | None


class Story:
    """A scenario from its beginning to its end, without a kill. ``begins`` is how often each pod
    had been begun at the end of each stage, ``kills`` are the boundaries that were asked for."""

    def __init__(self, name: str, hierarchy: str, state: Path, wanted: range) -> None:
        self.name = name
        self.hierarchy = hierarchy
        self.stages = SCENARIOS[name]
        self.wanted = wanted
        self.kills: list[Kill] = []
        self.begins: list[dict[str, int]] = []
        self.boundaries = 0
        self._stage = 0
        self._size = -1
        self.world = World(hierarchy, [SYSTEM])
        self.world.kernel.write(SYSTEM, "pids.max", "77")
        self.agent = self.begin(self.world, state, 0)
        self.world.on = self.boundary
        for number in range(len(self.stages)):
            self._enter(number, state)
            self.agent.settle(TURNS)
            self.begins.append(dict(self.world.runtime.begins))
        self.world.on = lambda what: None
        self.world.journal = self.agent.close()

    def begin(self, world: World, state: Path, number: int) -> Agent:
        pods = self.stages[number].pods.values()
        return Agent(world, state, node_of(self.hierarchy, (self.name, number)), pods)

    def _enter(self, number: int, state: Path) -> None:
        """The next manifests; another node is another agent."""
        self._stage = number
        if number and self.stages[number].node != self.stages[number - 1].node:
            self.world.journal = self.agent.close()
            self.agent = self.begin(self.world, state, number)
        self.agent.want(self.stages[number].pods)

    def boundary(self, what: str) -> None:
        """The agent is about to do something."""
        if what in READS:
            return
        size = self.agent.file.stat().st_size if self.agent.file.exists() else 0
        torn = self._size if what != "record" and 0 <= self._size < size else None
        self._size = size if what == "record" else -1
        if self.boundaries in self.wanted:
            world = self.world.copy()
            world.journal = self.agent.file.read_bytes() if size else b""
            self.kills.append(Kill(world, self._stage, what, self.boundaries, torn))
        self.boundaries += 1


class Witness:
    """Lets another agent come after a kill, and looks at what becomes of it."""

    def __init__(self, story: Story, state: Path) -> None:
        self.story = story
        self.state = state
        self.count = 0
        self.recovered = 0
        self.most = 0

    def agent(self, world: World, number: int) -> Agent:
        """Another one, with a state directory of its own."""
        self.count += 1
        return self.story.begin(world, self.state / str(self.count % 2), number)

    def recover(self, world: World, number: int) -> None:
        """An agent comes with the manifests of a stage and settles, and all is checked."""
        agent = self.agent(world, number)
        try:
            self.most = max(self.most, agent.settle(TURNS))
            self.check(world, agent, number)
        finally:
            agent.close()
        self.recovered += 1

    def check(self, world: World, agent: Agent, number: int) -> None:
        """Nothing is missing, and nothing is there that should not be."""
        stage = self.story.stages[number]
        live = LivePlan(agent.source.live.node)
        standing = {uid: one for uid, one in stage.pods.items() if uid not in stage.over}
        groups = [group for one, _ in standing.values() for group in live.add(one).groups]
        assert self._off(live, world) == []
        apps = {one.path for one in groups if one.container and one.container.role != "init"}
        assert dict(world.processes) == dict.fromkeys(apps, 1)
        assert world.runtime.kept.keys() == stage.pods.keys()
        assert world.runtime.wrong == []
        assert [line for line in agent.said if "another process" in line] == []
        volumes = {uid: spec.volumes for uid, (_, spec) in standing.items() if spec.volumes}
        assert {uid: len(names) for uid, names in world.disk.there.items()} == {
            uid: len(names) for uid, names in volumes.items()
        }
        for uid, kept in world.runtime.kept.items():
            assert {life.starts for life in kept.lives.values()} == {1}, uid
        self._journal(world, agent)

    def _off(self, live: LivePlan, world: World) -> list[Difference]:
        """What is not as planned; of groups of others only planned values count."""
        seen = dict(world.kernel.observe(ROOT).cgroups)
        if self.story.name == "reserved":
            system = world.kernel.read_cgroup(SYSTEM)
            assert system is not None
            seen[SYSTEM] = system
        rows = compare(live.plan(), Observed(0.0, seen))
        return [row for row in rows if (row.path, row.cause) != (SYSTEM, Cause.NO_LONGER_PLANNED)]

    def _journal(self, world: World, agent: Agent) -> None:
        """It names what stands, with its inode, and what was before in groups of others."""
        said = read(agent.file.read_bytes())
        ledger = JournalState()
        ledger.add(said.entries)
        seen = world.kernel.observe(ROOT).cgroups
        standing = {path: one.identity for path, one in seen.items()}
        assert said.bad == 0
        assert {path: inode for path, (_, inode) in ledger.cgroups.items()} == standing
        assert {how for how, _ in ledger.cgroups.values()} <= {"made"}
        assert {path for path, _ in ledger.files} <= {*standing, *ledger.adopted}
        for (path, file), (before, ours) in ledger.files.items():
            if path == SYSTEM:
                assert same(file, ours, world.kernel.read(path, file)), (path, file)
                assert before == FRESH[self.story.hierarchy][file]
        if self.story.name == "reserved":
            assert ledger.adopted == {
                SYSTEM: next(iter(world.kernel.groups[SYSTEM].inodes.values()))
            }
        assert world.kernel.groups[SYSTEM].files["pids.max"] == "77"


FRESH = {
    "v1": {"cpu.shares": "1024", "memory.limit_in_bytes": "9223372036854771712"},
    "v2": {"cpu.weight": "100", "memory.max": "max"},
}


def goes_on(world: World, uid: str, stage: Stage) -> bool:
    """Whether a killed agent left the pod as it is wanted: then nobody may restart it."""
    kept = world.runtime.kept.get(uid)
    return kept is not None and kept.ending is None and kept.digest == stage.pods[uid][1].digest()


def restarts(story: Story, kill: Kill, world: World, number: int) -> None:
    """Each pod was begun as often as it had to be."""
    wanted = story.stages[number]
    for uid in wanted.pods:
        must = kill.world.runtime.begins[uid] + (not goes_on(kill.world, uid, wanted))
        found = world.runtime.begins[uid]
        assert found == must, f"{uid}: begun {found} times, it had to be {must}"


def as_without_a_kill(story: Story, number: int, world: World) -> None:
    """Each pod was begun as often as where nobody was killed."""
    uids = story.stages[number].pods.keys()
    begun = {uid: world.runtime.begins[uid] for uid in uids}
    assert begun == {uid: story.begins[number].get(uid, 0) for uid in uids}


def after(story: Story, witness: Witness, kill: Kill) -> None:
    """What may come after a kill, each on a machine of its own."""
    number, some = kill.stage, random.Random(f"{story.name} {story.hierarchy} {kill.number}")
    world = kill.world.copy()
    witness.recover(world, number)
    as_without_a_kill(story, number, world)
    if kill.torn is not None:
        world = kill.world.copy()
        world.journal = world.journal[: some.randrange(kill.torn + 1, len(world.journal))]
        witness.recover(world, number)
        as_without_a_kill(story, number, world)
    if kill.before.split()[0] in ("start", "stop", "update", "remove_pod"):
        late(story, witness, kill, number)
    other = number + some.choice((-1, 1))
    edited = story.name != "switched" and 0 <= other < len(story.stages)
    if edited and kill.before.startswith("start"):
        late(story, witness, kill, other)
    if edited and kill.number % 2:
        # manifests were edited while nobody ran
        world = kill.world.copy()
        witness.recover(world, other)
        restarts(story, kill, world, other)
    else:
        twice(story, witness, kill, some)


def late(story: Story, witness: Witness, kill: Kill, number: int) -> None:
    """The keeper is told by the killed agent after the next one has asked what is kept."""
    world = kill.world.copy()
    verb, what = world.runtime.asked
    agent = witness.agent(world, number)
    try:
        agent.turn()
        world.runtime.late(verb, what)
        agent.settle(TURNS)
        # begun where there is no group any more
        world.runtime.wrong.clear()
        witness.check(world, agent, number)
    finally:
        agent.close()
    witness.recovered += 1
    if number == kill.stage:
        for uid, times in story.begins[number].items():
            assert world.runtime.begins[uid] <= times + 1, uid


class Killed(BaseException):
    """An agent that is not to go on."""


def twice(story: Story, witness: Witness, kill: Kill, some: random.Random) -> None:
    """The next agent is killed too, after some of what it does."""
    world, left = kill.world.copy(), some.randrange(1, 40)

    left_by: list[World] = []

    def boundary(what: str) -> None:
        nonlocal left
        left -= what not in READS
        if left == 0:
            left_by.append(world.copy())
            left_by[0].journal = agent.file.read_bytes() if agent.file.exists() else b""
            raise Killed

    agent = witness.agent(world, kill.stage)
    world.on = boundary
    try:
        agent.settle(TURNS)
    except Killed:
        pass
    finally:
        world.on = lambda what: None
        agent.close()
    for again in left_by:
        witness.recover(again, kill.stage)
        as_without_a_kill(story, kill.stage, again)


@pytest.mark.parametrize(("name", "hierarchy", "chunk"), CASES)
def test_killed_at_any_boundary(name: str, hierarchy: str, chunk: int, tmp_path: Path) -> None:
    story = Story(name, hierarchy, tmp_path / "story", range(chunk, 100_000, CHUNKS))
    assert len(story.kills) == len(range(chunk, story.boundaries, CHUNKS)) > 10
    witness = Witness(story, tmp_path)
    for kill in story.kills:
        try:
            after(story, witness, kill)
        except (AssertionError, KeyError, ValueError) as error:
            where = f"{name} {hierarchy} stage {kill.stage} point {kill.number}: {kill.before}"
            raise AssertionError(f"{where}: {error}") from error
    assert witness.recovered > len(story.kills)


def test_there_are_a_thousand_of_them(tmp_path: Path) -> None:
    nobody = range(0)
    found = {
        (name, hierarchy): Story(name, hierarchy, tmp_path / name / hierarchy, nobody).boundaries
        for name in SCENARIOS
        for hierarchy in ("v1", "v2")
    }
    assert min(found.values()) > 100, found
    assert sum(found.values()) >= 1000, found
