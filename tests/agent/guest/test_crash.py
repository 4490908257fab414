"""The agent killed at every boundary: before and after each line of its journal and each write. What it
left is undone byte for byte, or taken up by the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.guest.beside import Beside, Kubelet, Source, kubelet_pod, policy, texts
from tests.agent.world import World

PODS = (kubelet_pod("a"), kubelet_pod("b", "memory=32Mi"))
MORE = kubelet_pod("c", "memory=100Mi")


class Killed(BaseException):
    """The agent is gone."""


class Boundaries:
    """Kills the agent at the boundary with a number, counted from 0."""

    def __init__(self, at: int | None) -> None:
        self.left, self.count = at, 0

    def __call__(self, what: str) -> None:
        self.count += 1
        if self.left is not None:
            if self.left == 0:
                self.left = None
                raise Killed
            self.left -= 1


def life(beside: Beside) -> None:
    """Everything that an agent does: first values, a reset, another policy, and a pod that comes."""
    beside.sync()
    beside.world.kernel.write("/q/kubepods/burstable/poda/aapp", "memory.low", "4096")
    beside.sync(70.0)
    beside.source.want(*PODS, MORE)
    beside.sync(70.0)
    policy(beside.source, files=frozenset({"memory.low", "memory.min"}))
    beside.sync(70.0)


def until(at: int | None, folder: Path, then: Callable[[World, Path, Source], None]) -> int:
    """A life that ends at a boundary; how many there are."""
    world = World("v2")
    Kubelet(world).run(*PODS, MORE)
    source = Source(PODS)
    beside = Beside(world, folder, source)
    boundaries = Boundaries(at)
    world.on = boundaries
    try:
        life(beside)
    except Killed:
        pass
    world.on = lambda what: None
    beside.leave()
    then(world, folder, source)
    return boundaries.count


def undone(world: World, folder: Path, source: Source) -> None:
    """``qoslet release`` after a crash: only what the kubelet wrote is there."""
    beside = Beside(world, folder, source)
    resets = {"/q/kubepods/burstable/poda/aapp": ("memory.low", "4096")}
    what = beside.released()
    if what.refusals:
        # killed while the other's value was there
        assert [(one.path, one.file, one.found) for one in what.refusals] == [
            (path, *row) for path, row in resets.items()
        ]
        assert beside.released(force=True).refusals == ()
    after, fresh = texts(world), World("v2")
    Kubelet(fresh).run(*PODS, MORE)
    expected = texts(fresh)
    for path, (file, value) in resets.items():
        assert after[path][file] in (value, expected[path][file])
        after[path][file] = expected[path][file]
    assert after == expected
    beside.leave()


def adopted(world: World, folder: Path, source: Source) -> None:
    """The next agent: what its policy names is as planned, what not is as before."""
    beside = Beside(world, folder, source)
    beside.settle()
    for _ in range(3):
        beside.sync(700.0)
    other = World("v2")
    Kubelet(other).run(*PODS, MORE)
    alone = Beside(other, folder / "other", source)
    alone.settle()
    assert texts(world) == texts(other)
    assert beside.agent.release() == []
    alone.agent.release()
    after, expected = texts(world), texts(other)
    low = after["/q/kubepods/burstable/poda/aapp"].pop("memory.low")
    expected["/q/kubepods/burstable/poda/aapp"].pop("memory.low")
    assert low in ("0", "4096")
    assert after == expected
    beside.leave()
    alone.leave()


BOUNDARIES = 30


@pytest.mark.parametrize("then", [undone, adopted])
def test_nothing_is_lost_wherever_it_is_killed(
    then: Callable[[World, Path, Source], None], tmp_path: Path
) -> None:
    count = until(None, tmp_path / "whole", then)
    assert count >= BOUNDARIES
    for at in range(count):
        until(at, tmp_path / str(at), then)
