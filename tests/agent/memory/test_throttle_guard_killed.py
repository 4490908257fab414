"""The agent is killed before or after each thing that it does about a stall; the next one goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from qoslet.agent.state.memory_journal import MemoryJournal
from qoslet.core.reconcile.steps import Outcome, Step
from tests.agent.chosen_cgroups import Choosing, Chosen, Writing
from tests.agent.fixtures import Keeper
from tests.agent.memory.test_throttle_guard import MIB, Cold, Throttled


class Killed(BaseException):
    """SIGKILL."""


class Fuse:
    """Kills at the n-th moment; None: never. Each thing that is done has one before and one after."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.met = 0

    def burn(self) -> None:
        self.met += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


class FusedDriver(Writing):
    def __init__(self, kernel: Any, journal: MemoryJournal, fuse: Fuse) -> None:
        super().__init__(kernel, journal)
        self.fuse = fuse

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        self.fuse.burn()
        found = super().perform(steps)
        self.fuse.burn()
        return found


class FusedKeeper(Keeper):
    def __init__(self, kernel: Any, fuse: Fuse) -> None:
        super().__init__(kernel)
        self.fuse = fuse

    def restart(self, uid: str, container: str) -> None:
        self.fuse.burn()
        super().restart(uid, container)
        self.fuse.burn()

    def stop(self, uid: str, grace_seconds: float) -> None:
        self.fuse.burn()
        super().stop(uid, grace_seconds)
        self.fuse.burn()


class FusedChoosing(FusedKeeper, Choosing):
    pass


class FusedReclaim(Cold):
    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def begin(self, path: str, amount: int) -> str:
        self.fuse.burn()
        found = super().begin(path, amount)
        self.fuse.burn()
        return found


class Fused(Throttled):
    """What ended holds little afterwards, as a kernel sees it."""

    keepers: Any = FusedKeeper

    def __init__(self) -> None:
        self.fuse = Fuse()
        self.journal = MemoryJournal()
        super().__init__()
        self.driver = FusedDriver(self.kernel, self.journal, self.fuse)
        self.keeper = self.keepers(self.kernel, self.fuse)
        self.cold = FusedReclaim(self.fuse)
        self.begin()

    @property
    def ends(self) -> int:
        """How often the stalled container was ended."""
        return sum(call[0] in ("restart", "stop") for call in self.keeper.calls)

    def goes_on(self, seconds: float) -> None:
        """Time passes; one that was ended stalls no more."""
        for _ in range(round(seconds * 4)):
            before = self.ends
            try:
                self.time(0.25)
            finally:
                if self.ends > before:
                    for path in self.pushing:
                        self.holds(path, 5)
                    self.pushing.clear()


class FusedChosen(Fused, Chosen):
    """The same in cgroups that the container runtime chose."""

    keepers = FusedChoosing


def moments(kind: str, of: type[Fused]) -> int:
    bench = stalled(kind, of)
    before = bench.fuse.met
    bench.goes_on(8)
    return bench.fuse.met - before


def stalled(kind: str, of: type[Fused]) -> Fused:
    bench = of()
    if kind == "limit":
        bench.stalls(bench.pod("hog"))
    elif kind == "reclaim":
        path = bench.pod("hog")
        bench.holds(path, 240, cache=5)
        bench.pushing.add(path)
    elif kind == "raise":
        bench.available = 230
        bench.stalls(bench.pod("hog", limit="", high=200 * MIB), 205)
    else:
        restart = "Never" if kind == "end for good" else "Always"
        bench.available = 100
        bench.stalls(bench.pod("hog", limit="", high=200 * MIB, restart=restart), 205)
    return bench


@pytest.mark.parametrize("kind", ["limit", "reclaim", "raise", "end", "end for good"])
@pytest.mark.parametrize("of", [Fused, FusedChosen], ids=["planned", "chosen"])
def test_a_kill_at_any_moment_leaves_the_stall_to_the_next_agent(
    kind: str, of: type[Fused]
) -> None:
    count = moments(kind, of)
    assert count >= 2
    for moment in range(count):
        bench = stalled(kind, of)
        (path,) = bench.pushing
        planned = bench.high(path)
        bench.fuse.left = moment
        with pytest.raises(Killed):
            bench.goes_on(8)
        bench.fuse.left = None
        bench.begin()
        bench.turn()
        if path in bench.kernel.groups and (bench.ends == 0 or kind != "end for good"):
            assert bench.high(path) == planned, f"moment {moment}: what was raised is given back"
        bench.goes_on(8)
        if kind.startswith("end"):
            assert bench.ends == 1, f"moment {moment}: ended once"
        else:
            assert bench.high(path) != planned, f"moment {moment}: the next one answers"
            assert bench.ends == 0
