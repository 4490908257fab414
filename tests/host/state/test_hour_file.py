"""What was done within the hour outlives the agent that did it, not the boot."""

from __future__ import annotations

import os
from pathlib import Path

from qoslet.agent.guest.hour_budget import HOUR_SECONDS, HourBudget
from qoslet.host.state.agents import running_roots
from qoslet.host.state.folder import escaped
from qoslet.host.state.hour_file import HourFile


def test_the_next_agent_counts_what_the_last_one_took(tmp_path: Path) -> None:
    now = [5000.0]
    kept = HourFile(str(tmp_path), "/own/kubepods", "ended")
    first = HourBudget(2, lambda: now[0], kept)
    assert os.listdir(tmp_path) == []
    first.take()
    now[0] += 60
    first.take()
    assert first.is_used_up
    second = HourBudget(2, lambda: now[0], kept)
    assert (second.count, second.is_used_up) == (2, True)
    assert HourBudget(2, lambda: now[0], HourFile(str(tmp_path), "/kubepods", "ended")).count == 0
    now[0] += HOUR_SECONDS - 30
    third = HourBudget(2, lambda: now[0], kept)
    assert (third.count, third.is_used_up) == (1, False)
    now[0] += HOUR_SECONDS
    assert HourBudget(2, lambda: now[0], kept).count == 0
    assert os.listdir(tmp_path) == []
    assert running_roots(str(tmp_path)) == []


def test_a_damaged_file_or_one_of_another_clock_counts_nothing(tmp_path: Path) -> None:
    kept = HourFile(str(tmp_path), "/kubepods", "ended")
    path = tmp_path / f"ended%{escaped('/kubepods')}"
    for text in ("x\n", "99999\n", ""):
        path.write_text(text)
        assert HourBudget(6, lambda: 5000.0, kept).count == 0
    (tmp_path / "other").write_text("4999\n")
    path.unlink(missing_ok=True)
    path.symlink_to("other")
    assert kept.load() == []
    path.unlink()
    path.mkdir()
    budget = HourBudget(1, lambda: 5000.0, kept)
    budget.take()
    assert budget.is_used_up
