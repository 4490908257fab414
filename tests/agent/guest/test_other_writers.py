"""Another manager resets what a guest writes: no fight without end, the budget is kept, it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.guest.rewrites import RewriteBudget, Rewrites
from tests.agent.guest.beside import KUBEPODS, MIB, Beside, Kubelet, Source, kubelet_pod, texts
from tests.agent.world import World

PODS = (kubelet_pod("a"), kubelet_pod("b"))
APP = f"{KUBEPODS}/burstable/poda/aapp"
KEY = (APP, "memory.low")


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    world = World("v2")
    Kubelet(world).run(*PODS)
    made = Beside(world, tmp_path, Source(PODS))
    made.settle()
    return made


def hours_of_resets(beside: Beside, seconds: int) -> int:
    """Another process resets a file every second; how often the agent has written."""
    before = beside.files.writes
    for _ in range(seconds):
        beside.world.kernel.write(*KEY, "4096")
        beside.auditor.woken = True
        beside.sync(1.0)
    return beside.files.writes - before


def test_a_reset_is_answered_at_once(beside: Beside) -> None:
    beside.world.kernel.write(*KEY, "4096")
    beside.auditor.woken = True
    done = beside.sync(1.0)
    assert done.resets == {KEY: "4096"}
    assert done.written == {KEY: str(64 * MIB)}
    [contested] = beside.status.contested
    assert (contested.path, contested.file, contested.wanted) == (*KEY, str(64 * MIB))
    assert (contested.contest.found, contested.contest.resets) == ("4096", 1)
    assert contested.retry_seconds is None


def test_a_fight_has_an_end(beside: Beside) -> None:
    first = hours_of_resets(beside, 3600)
    assert 8 <= first <= 20
    second = hours_of_resets(beside, 3600)
    assert 4 <= second <= 8
    assert beside.world.kernel.read(*KEY) == "4096" or beside.status.contested
    [contested] = beside.status.contested
    assert contested.contest.rewrites == first + second
    assert contested.contest.resets >= first + second
    assert 0 < (contested.retry_seconds or 1.0) <= 600.0
    assert beside.status.rewrites == first + second


def test_many_files_have_one_budget() -> None:
    rewrites = Rewrites(RewriteBudget(node_writes=60, node_seconds=60.0))
    keys = [("/kubepods", f"file{number}") for number in range(500)]
    written = 0
    for second in range(120):
        for key in keys:
            if rewrites.reset(key, "0", float(second)):
                rewrites.rewritten(key, float(second))
                written += 1
    assert written == 120
    at = rewrites.next_at()
    assert at is not None
    assert at >= 120.0


def test_a_contest_is_over_after_a_calm_time(beside: Beside) -> None:
    hours_of_resets(beside, 30)
    beside.sync(600.0)
    for _ in range(30):
        beside.sync(70.0)
    assert beside.status.contested == ()
    assert beside.world.kernel.read(*KEY) == str(64 * MIB)
    beside.world.kernel.write(*KEY, "4096")
    assert beside.sync(70.0).written == {KEY: str(64 * MIB)}, "the next one is answered at once"


def test_what_the_other_manager_wrote_last_is_given_back(beside: Beside) -> None:
    beside.world.kernel.write(*KEY, "4096")
    beside.sync(70.0)
    assert beside.world.kernel.read(*KEY) == str(64 * MIB)
    assert beside.agent.release() == []
    assert beside.world.kernel.read(*KEY) == "4096"
    assert beside.world.kernel.read(APP, "memory.high") == "max"


def test_what_another_process_wrote_since_stays_and_is_said(beside: Beside) -> None:
    before = texts(beside.world)
    beside.world.kernel.write(*KEY, "4096")
    refused = beside.released().refusals
    assert [(one.kind, one.path, one.file) for one in refused] == [("written", *KEY)]
    assert texts(beside.world)[APP]["memory.high"] == before[APP]["memory.high"]
    [note] = beside.agent.release()
    assert note.startswith(f"{APP}/memory.low: another process changed")
    assert beside.world.kernel.read(*KEY) == "4096"
    assert beside.world.kernel.read(APP, "memory.high") == "max"
    assert beside.journal.ledger.files == {}
