"""The agent killed at every boundary of what it does, while pods come, change and go: the next one
converges, and restarts nobody who need not be."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, get_args

import pytest

from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.workload.process_spec import MemoryVolume, PodSpec
from qoslet.errors import CannotDo
from tests.agent.fixtures import ROOT, Bench, node, pod_of, spec_of
from tests.agent.world import Agent, World, pod

HIERARCHIES: tuple[Hierarchy, ...] = get_args(Hierarchy)


class Killed(BaseException):
    """The agent is gone."""


class Dying:
    """Lets so many doings happen; then the agent is killed, before the next one."""

    def __init__(self, bench: Bench) -> None:
        self.left: int | None = None
        self.done = 0
        for part, names in (
            (bench.driver, ("perform",)),
            (bench.keeper, ("start", "stop", "remove_pod", "update")),
            (bench.disk, ("provide", "remove")),
        ):
            for name in names:
                wrap = self._steps if name == "perform" else self._counted
                setattr(part, name, wrap(getattr(part, name)))

    def _boundary(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1
        self.done += 1

    def _counted(self, do: Callable[..., object]) -> Callable[..., object]:
        def counted(*what: object) -> object:
            self._boundary()
            return do(*what)

        return counted

    def _steps(self, perform: Callable[..., object]) -> Callable[..., object]:
        def one_by_one(steps: Sequence[Step]) -> list[Outcome]:
            outcomes: list[Outcome] = []
            for step in steps:
                self._boundary()
                outcomes += cast("list[Outcome]", perform([step]))
                if outcomes[-1].error is not None:
                    break
            return outcomes

        return one_by_one


def with_volume(name: str) -> PodSpec:
    spec = spec_of(pod_of(name))
    return PodSpec(spec.uid, spec.key, spec.launches, 5.0, (), (MemoryVolume("v"),))


def scenario(hierarchy: Hierarchy, kill_after: int | None) -> int:
    """Pods are added, changed and removed, and the agent is killed once on the way; how many
    doings there were."""
    bench = Bench(hierarchy)
    dying = Dying(bench)
    dying.left = kill_after

    def turns(count: int = 2) -> None:
        for _ in range(count):
            try:
                bench.turn(2.0)
            except Killed:
                dying.left = None
                bench.begin()
                bench.source.again(bench.source.live.node)

    bench.put("stays", "cpu=100m")
    bench.source.put(pod_of("volume"), with_volume("volume"))
    turns()
    bench.put("resized", "cpu=500m memory=64Mi", "cpu=1 memory=128Mi")
    bench.put("edited", command="x")
    bench.put("goes")
    turns()
    bench.put("resized", "cpu=250m memory=32Mi", "cpu=2 memory=64Mi")
    bench.put("edited", command="y")
    bench.source.drop("goes")
    turns()
    bench.source.drop("volume")
    turns(3)
    bench.turn(60.0)
    bench.turn(60.0)
    check(bench)
    return dying.done


def check(bench: Bench) -> None:
    """Everything is as it would be without the kill."""
    assert compare(bench.source.live.plan(), bench.kernel.observe(ROOT)) == []
    assert bench.keeper.running == {"stays", "resized", "edited"}
    assert bench.keeper.kept.keys() == bench.keeper.running
    assert bench.keeper.kept["edited"].spec.launches[0].argv == ("y",)
    assert bench.disk.there == {}
    starts = [call[1] for call in bench.keeper.calls if call[0] == "start"]
    assert {uid: starts.count(uid) for uid in bench.keeper.running} == {
        "stays": 1,
        "resized": 1,
        "edited": 2,
    }
    alive = [one for one in bench.kernel.processes.values() if one.exit_code is None]
    assert len(alive) == 3
    assert not bench.reconciler.context.terminating
    assert {row.phase for row in bench.rows.values()} == {"Running"}


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_killed_at_any_boundary_the_next_agent_converges(hierarchy: Hierarchy) -> None:
    whole = scenario(hierarchy, None)
    assert whole > 70
    for boundary in range(whole):
        scenario(hierarchy, boundary)


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_pods_wait_no_longer_than_the_cgroup_above_them(hierarchy: str, tmp_path: Path) -> None:
    world = World(hierarchy)
    agent = Agent(world, tmp_path, node(hierarchy), [pod("a")])  # type: ignore[arg-type]

    def refuse(what: str) -> None:
        if what == "record":
            raise CannotDo("the journal's file system is full", where=ROOT)

    world.on = refuse
    assert agent.turn().errors
    world.on = lambda what: None
    # the pod that comes now looks at all cgroups above it before that one's next attempt
    agent.wait(0.2)
    agent.source.put(*pod("b"))
    agent.settle()
    assert world.runtime.begins == {"a": 1, "b": 1}
    agent.close()


def test_a_cgroup_of_which_a_part_was_left_is_ours_when_it_is_whole(tmp_path: Path) -> None:
    world = World("v1")
    agent = Agent(world, tmp_path, node("v1"), [pod("a", limit="cpu=1 memory=128Mi")])
    path = f"{ROOT}/kubepods/burstable/poda/app"

    def torn(what: str) -> None:
        # made in memory, cpu, cpuacct and cpuset, then removed where the kernel lets it
        if what in (f"mkdir {path} pids", f"rmdir {path} cpuset"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    world.on = torn
    agent.turn()
    agent = _killed(agent, tmp_path)

    def until(what: str) -> None:
        if what == f"write {path} memory.limit_in_bytes":
            raise Killed

    agent.world.on = until
    with pytest.raises(Killed):
        agent.settle()
    agent = _killed(agent, tmp_path)
    agent.settle()
    assert agent.world.runtime.begins == {"a": 1}
    agent.close()


def _killed(agent: Agent, state: Path) -> Agent:
    """The next agent, after one was killed."""
    world = agent.world.copy()
    world.journal = agent.file.read_bytes()
    agent.world.on = lambda what: None
    agent.close()
    return Agent(world, state, node("v1"), [pod("a", limit="cpu=1 memory=128Mi")])
