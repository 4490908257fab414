"""The time between two whole syncs: doubled while nothing differs, and in proportion to their cost."""

from __future__ import annotations

import pytest

from qoslet.agent.config import Config
from qoslet.agent.state.resync_timer import HELD_SECONDS, ResyncTimer

SERVICE = Config(interval_seconds=None)


def after(timer: ResyncTimer, took: float, *, quiet: bool = True) -> float:
    """The seconds from a whole sync to the next one."""
    now = timer.at or 0.0
    timer.synced(now, took, quiet=quiet)
    assert timer.at is not None
    return timer.at - now


def test_the_first_sync_is_a_whole_one() -> None:
    timer = ResyncTimer(SERVICE)
    assert timer.is_due(0.0)
    timer.synced(0.0, 0.1, quiet=False)
    assert (timer.is_due(9.9), timer.is_due(10.0)) == (False, True)


def test_it_doubles_while_nothing_differs_and_begins_again() -> None:
    timer = ResyncTimer(SERVICE)
    seconds = [after(timer, 0.01) for _ in range(5)]
    assert seconds == [10.0, 20.0, 40.0, 60.0, 60.0]
    assert after(timer, 0.01, quiet=False) == 10.0


def test_while_somebody_watches_it_stays() -> None:
    timer = ResyncTimer(Config(interval_seconds=1.0, resync_seconds=1.0))
    assert [after(timer, 0.001) for _ in range(3)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("took", "seconds"), [(0.1, 10.0), (0.5, 25.0), (1.0, 50.0), (9.0, 60.0)])
def test_costly_syncs_are_further_apart(took: float, seconds: float) -> None:
    timer = ResyncTimer(SERVICE)
    after(timer, took)
    assert after(timer, took, quiet=False) == seconds


def test_a_sync_that_does_much_is_not_a_costly_one() -> None:
    timer = ResyncTimer(SERVICE)
    assert after(timer, 30.0, quiet=False) == 10.0


def test_a_whole_sync_waits_for_what_is_in_a_hurry_and_not_for_ever() -> None:
    timer = ResyncTimer(SERVICE)
    assert timer.is_due(0.0, held=True), "the first looks at everything"
    seconds = after(timer, 0.1)
    at = timer.at
    assert at is not None
    assert timer.is_due(at)
    assert not timer.is_due(at, held=True)
    assert not timer.is_due(at + HELD_SECONDS - 0.1, held=True)
    assert timer.is_due(at + HELD_SECONDS, held=True)
    assert timer.due_at(held=True) == at + HELD_SECONDS
    assert timer.due_at() == at
    assert seconds > 0
