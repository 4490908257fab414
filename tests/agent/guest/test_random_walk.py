"""An agent beside a kubelet, and chance: pods come, go and come again, the kubelet and others write,
the policy changes, the node cannot be read, and the agent is killed (-9) at any of its boundaries. After
it has left, every value is what it would be if the agent had never been there."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from qoslet.core.api.pod import Pod
from qoslet.errors import CannotDo
from tests.agent.guest.beside import KUBEPODS, Beside, Kubelet, Source, kubelet_pod, policy, texts
from tests.agent.world import World

WALKS, STEPS = 8, 50
REQUESTS = (
    ("memory=64Mi", "memory=256Mi"),
    ("memory=100Mi", ""),
    ("", ""),
    ("cpu=500m memory=64Mi", "cpu=500m memory=64Mi"),
)
FILES = (
    frozenset[str](),
    frozenset({"memory.low"}),
    frozenset({"memory.low", "memory.min", "memory.high", "memory.oom.group", "cpu.weight"}),
)
VALUES = {"memory.low": "4096", "memory.min": "8192", "memory.high": "4194304", "cpu.weight": "33"}


class Killed(BaseException):
    """An agent that is not to go on."""


class Walk:
    """A node with the agent, and the same without it. ``left``: boundaries until the agent is killed;
    ``written``: the files that somebody else wrote, whose value of before may be either."""

    def __init__(self, seed: int, state: Path) -> None:
        self.some = random.Random(seed)
        self.state = state
        self.world, self.without = World("v2"), World("v2")
        self.kubelets = [Kubelet(self.world), Kubelet(self.without)]
        self.pods: dict[str, Pod] = {}
        self.written: set[tuple[str, str]] = set()
        self.left = self.kills = self.writes = 0
        self._come("a")
        self.source = Source([*self.pods.values()])
        self.beside = Beside(self.world, state, self.source)

    def _boundary(self, what: str) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                raise Killed

    def _run(self) -> None:
        """The kubelets write what they want."""
        for one in self.kubelets:
            one.run(*self.pods.values())

    def _come(self, name: str) -> None:
        self.pods[name] = kubelet_pod(name, *self.some.choice(REQUESTS))
        self._run()

    def _go(self, name: str) -> None:
        del self.pods[name]
        for world in (self.world, self.without):
            paths = [path for path in world.kernel.groups if f"/pod{name}" in path]
            for path in sorted(paths, key=len, reverse=True):
                world.kernel.rmdir(path)
        self.written = {one for one in self.written if f"/pod{name}" not in one[0]}

    def _write(self) -> None:
        """Somebody else writes a value."""
        paths = sorted(path for path in self.world.kernel.groups if path.startswith(KUBEPODS))
        path, file = self.some.choice(paths), self.some.choice(sorted(VALUES))
        for world in (self.world, self.without):
            world.kernel.write(path, file, VALUES[file])
        self.written.add((path, file))

    def step(self) -> None:
        """Some of everything, and a sync."""
        some, chance, name = self.some, self.some.random(), self.some.choice("abcdef")
        if chance < 0.3:
            if name in self.pods:
                self._go(name)
            if chance < 0.25 or name in "ab":
                self._come(name)
        elif chance < 0.4:
            self._run()
        elif chance < 0.5:
            self._write()
        elif chance < 0.6:
            mode = some.choice(("protect", "protect", "watch"))
            policy(self.source, files=some.choice(FILES), mode=mode)
        self.source.wrong = "the kubelet does not answer" if some.random() < 0.1 else ""
        if some.random() < 0.8:
            self.source.want(*self.pods.values())
        self.left = some.randrange(1, 12) if some.random() < 0.3 else 0
        self.world.on = self._boundary
        try:
            self.writes += len(self.beside.sync(some.choice((0.1, 5.0, 70.0, 700.0))).written)
        except CannotDo:
            assert self.source.wrong
        except Killed:
            self.kills += 1
            self.beside.leave()
            self.world.on = lambda what: None
            self.beside = Beside(self.world, self.state, self.source)
        self.world.on = lambda what: None

    def leave(self) -> None:
        """The agent puts all back as it ends, or ``qoslet release`` does."""
        self.source.wrong = ""
        self.source.want(*self.pods.values())
        self.beside.settle()
        if self.some.random() < 0.5:
            assert self.beside.agent.release() == []
            return
        refused = self.beside.released().refusals
        assert {(one.path, one.file) for one in refused} <= self.written
        if refused:
            assert self.beside.released(force=True).refusals == ()


def rest(world: World, without: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Every file of every cgroup but some."""
    found = texts(world)
    for path, file in without:
        found[path].pop(file, None)
    return found


@pytest.mark.parametrize("seed", range(WALKS))
def test_nothing_is_left_of_an_agent(seed: int, tmp_path: Path) -> None:
    walk = Walk(seed, tmp_path)
    for _ in range(STEPS):
        walk.step()
    assert walk.writes
    assert walk.kills
    walk.leave()
    assert rest(walk.world, walk.written) == rest(walk.without, walk.written)
    walk.beside.leave()
