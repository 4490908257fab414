"""What one pod that comes or goes costs does not depend on the pods that are there: counted in calls
of our own functions, so that no busy machine changes it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest

from qoslet.core.workload.container_state import ContainerState
from tests.agent.fixtures import Bench, Keeper
from tests.paths import REPO

OURS = str(REPO / "src" / "qoslet")
APART = f"{OURS}/sim"
"""The kernel made of values stands in for one: what it does is no cost of an agent. So is the keeper."""


class SteadyKeeper(Keeper):
    """Gives the same value again for a container that nothing happened to, as the real one does."""

    def poll(self) -> list[ContainerState]:
        before = self.__dict__.setdefault("given", {})
        return [before.setdefault(state, state) for state in super().poll()]


def is_apart(frame: FrameType | None) -> bool:
    """Whether a frame is the kernel's or the keeper's, or below one of theirs."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(APART) or code.co_qualname.startswith("Keeper."):
            return True
        frame = frame.f_back
    return False


def calls(work: Callable[[], object]) -> Counter[str]:
    """How often each of our functions is entered; a generator, whenever it goes on."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and not is_apart(frame):
            found[f"{code.co_filename.removeprefix(OURS)}:{code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def settled(pods: int) -> Bench:
    """An agent whose pods run."""
    bench = Bench()
    bench.keeper = SteadyKeeper(bench.kernel)
    bench.begin()
    for number in range(pods):
        bench.put(f"kept{number}")
    bench.put("leaving")
    bench.turn()
    bench.turn(100.0, whole=True)
    assert len(bench.keeper.running) == pods + 1
    return bench


def come(bench: Bench) -> None:
    """One pod more."""
    bench.put("new")
    bench.turn(0.1)
    bench.turn(0.1)
    assert "new" in bench.keeper.running


def go(bench: Bench) -> None:
    """One pod less."""
    bench.source.drop("leaving")
    for _ in range(3):
        bench.turn(0.1)
    assert not bench.groups("leaving")


@pytest.mark.parametrize("change", [come, go])
def test_one_pod_costs_the_same_beside_few_and_many(change: Callable[[Bench], None]) -> None:
    few, many = settled(4), settled(24)
    beside_few, beside_many = calls(lambda: change(few)), calls(lambda: change(many))
    assert beside_few["/agent/reconciler.py:Reconciler.sync"] in (2, 3)
    assert dict(beside_many - beside_few) == {}


def test_a_look_at_everything_is_seen() -> None:
    few, many = settled(4), settled(24)
    assert calls(lambda: many.turn(whole=True)) - calls(lambda: few.turn(whole=True))
