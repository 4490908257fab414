"""Two thousand pods come and go at full speed while everything fails now and then: at the end each
ended as it should, and nothing has grown."""

from __future__ import annotations

import errno
import gc
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.agent.config import Config
from qoslet.agent.state.pod_phases import WorkerPhase
from qoslet.core.api.pod import Pod
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.async_writes import CompletedWrite
from qoslet.host.cgroupfs.write_errors import PendingWrite
from qoslet.host.linux.openat import MountedTree
from tests.agent.fixtures import node
from tests.agent.world import ROOT, Agent, World, pod

PODS = 1000
"""For each hierarchy."""
AT_ONCE = 16
ERRORS = (errno.EBUSY, errno.ENOSPC, errno.EIO, errno.ENOMEM)
GENTLY = Config(
    root=ROOT,
    interval_seconds=None,
    resync_seconds=5.0,
    longest_resync_seconds=5.0,
    collection_seconds=0.01,
    retry_backoff=Backoff(first=0.5, longest=4.0, reset_after=0.0),
)


class Weather:
    """What goes wrong, and how often of each kind it did; nothing does while it is ``fair``."""

    def __init__(self, some: random.Random) -> None:
        self.some = some
        self.fair = False
        self.met: dict[str, int] = {}

    def now(self, kind: str, chance: float) -> bool:
        """Whether it is time for one of a kind."""
        if self.fair or self.some.random() >= chance:
            return False
        self.met[kind] = self.met.get(kind, 0) + 1
        return True

    def __call__(self, what: str) -> None:
        """Before something is done: it may fail."""
        verb = what.split()[0]
        if verb in ("mkdir", "rmdir", "write") and self.now("driver", 0.01):
            code = self.some.choice(ERRORS)
            raise OSError(code, os.strerror(code))
        if verb == "record" and self.now("journal", 0.02):
            raise CannotDo("the journal's file system is full", where=ROOT)
        if verb in ("start", "stop", "remove_pod", "update") and self.now("runtime", 0.05):
            raise CannotDo("the keeper cannot be reached")
        if verb in ("poll", "list_pods") and self.now("listening", 0.02):
            raise CannotDo("the keeper does not answer")
        if verb in ("provide", "give") and self.now("volumes", 0.1):
            raise CannotDo("process 7 (sh) uses it")


class Slow:
    """Writes of limits that go on in the kernel now and then; matches ``host.slow.SlowWrites``."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._job: tuple[MountedTree, str, Step, str | None] | None = None
        self._left = 0

    def concerns(self, tree: MountedTree, path: str, step: Step) -> bool:
        return step.file.startswith("memory.") and self._weather.now("slow", 0.3)

    def write(self, tree: MountedTree, path: str, step: Step, before: str | None = None) -> None:
        if self._job is None:
            self._job, self._left = (tree, path, step, before), 3
        raise PendingWrite

    def settled(self) -> CompletedWrite | None:
        if self._job is None:
            return None
        tree, path, step, before = self._job
        self._left -= 1
        if self._left:
            return CompletedWrite(step, before, None, pending=True)
        self._job = None
        try:
            tree.write(path, step.file, step.value)
        except OSError as error:
            return CompletedWrite(step, before, error)
        return CompletedWrite(step, before, None)


def vanish(world: World, weather: Weather) -> None:
    """Somebody else removes a group of a pod, with what is in it."""
    paths = [path for path in world.kernel.groups if "/pod" in path]
    if not paths or not weather.now("vanished", 0.2):
        return
    path = weather.some.choice(sorted(paths))
    for one in world.kernel.members(path, below=True):
        world.kernel.end(one.pid, 137)
    for below in sorted(
        (one for one in paths if f"{one}/".startswith(f"{path}/")), key=len, reverse=True
    ):
        world.kernel.rmdir(below)


KINDS: tuple[Callable[[str], tuple[Pod, PodSpec]], ...] = (
    lambda name: pod(name, request="cpu=500m memory=64Mi", limit="cpu=500m memory=64Mi"),
    lambda name: pod(name, "app", "more", limit="cpu=1 memory=128Mi"),
    lambda name: pod(name, request="", command="slow"),
    lambda name: pod(name, restart="Never", command="true"),
    lambda name: pod(name, "i:first", "s:beside", "app", restart="OnFailure", command="true"),
    lambda name: pod(name, volumes=("v",), limit="memory=32Mi"),
    lambda name: pod(name, volumes=("v",), command="slow", restart="Never"),
)


def reachable(agent: Agent) -> int:
    """Bytes of all that the agent remembers."""
    gc.collect()
    seen: set[int] = set()
    waiting: list[object] = [agent.reconciler, agent.driver, agent.source]
    total = 0
    world = {id(agent.world), id(agent.world.kernel), id(agent.world.runtime), id(sys.modules)}
    while waiting:
        one = waiting.pop()
        if id(one) in seen or id(one) in world or isinstance(one, type | type(sys)):
            continue
        if callable(one) and not hasattr(one, "__self__"):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        waiting += gc.get_referents(one)
    return total


def churn(agent: Agent, weather: Weather, numbers: range) -> None:
    """So many pods come, live for a while and go."""
    some, source, world = weather.some, agent.source, agent.world
    for number in numbers:
        name = f"p{number}"
        source.put(*KINDS[number % len(KINDS)](name))
        alive = list(source.pods)
        if len(alive) > AT_ONCE:
            source.drop(some.choice(alive))
        if alive and some.random() < 0.2:
            which = some.choice(list(source.pods))
            kind = KINDS[int(which[1:]) % len(KINDS)]
            source.put(*(kind(which) if some.random() < 0.5 else pod(which, limit="cpu=3")))
        vanish(world, weather)
        agent.turn()
        agent.wait(0.2)


def calm(agent: Agent, weather: Weather) -> None:
    """The weather gets fair: all is as it should be before long."""
    weather.fair = True
    agent.settle(200)
    weather.fair = False


def ended_as_it_should(agent: Agent) -> None:
    """What is wanted stands, as often and as it is wanted; of all others nothing is left."""
    world, wanted = agent.world, agent.source.pods
    assert world.runtime.kept.keys() == wanted.keys() == agent.reconciler.context.workers.keys()
    over = {
        uid
        for uid, one in wanted.items()
        if agent.reconciler.context.workers[uid].phase is WorkerPhase.TERMINATED
    }
    for uid, kept in world.runtime.kept.items():
        assert (uid in over) == (not kept.pids), uid
    live = LivePlan(agent.source.live.node)
    for uid, one in wanted.items():
        worker = agent.reconciler.context.workers[uid]
        assert worker.pod == one.pod or worker.resize_state in ("Deferred", "Infeasible")
        if uid not in over:
            assert worker.pod is not None
            live.add(worker.pod)
    assert compare(live.plan(), world.kernel.observe(ROOT)) == []
    groups = world.kernel.observe(ROOT).cgroups
    assert agent.journal.ledger.cgroups.keys() == groups.keys()
    assert {path for path, _ in agent.journal.ledger.files} <= groups.keys()
    assert world.disk.there.keys() <= wanted.keys() - over


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_two_thousand_pods(hierarchy: str, tmp_path: Path) -> None:
    weather = Weather(random.Random(f"soak {hierarchy}"))
    world = World(hierarchy)
    agent = Agent(world, tmp_path / "state", node(hierarchy), (), GENTLY)  # type: ignore[arg-type]
    agent.driver.slow = Slow(weather)  # type: ignore[assignment]
    world.on = weather
    sizes, files = [], []
    step = PODS // 5
    for begin in range(0, PODS, step):
        churn(agent, weather, range(begin, begin + step))
        calm(agent, weather)
        ended_as_it_should(agent)
        agent.want({})
        calm(agent, weather)
        ended_as_it_should(agent)
        agent.said.clear()
        sizes.append(reachable(agent))
        files.append(len(os.listdir("/proc/self/fd")))
    assert not agent.reconciler.context.workers
    assert dict(world.processes) == {}
    assert world.disk.there == {}
    assert {*weather.met} == {
        "driver", "journal", "runtime", "listening", "volumes", "slow", "vanished",
    }  # fmt: skip
    assert min(weather.met.values()) > 10, weather.met
    assert sum(world.runtime.begins.values()) > PODS * 0.9
    assert max(files) == min(files), files
    # the driver keeps its last hundred notes; a hash table may be half empty
    assert max(sizes[2:]) <= sizes[0] + 40_000, sizes
    agent.close()
