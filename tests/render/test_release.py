"""What an undoing says: what was done, and nothing of what was not."""

from __future__ import annotations

from qoslet.core.reconcile.restore import RestoreConflict, RestorePlan
from qoslet.render.text.apply import release_lines

LEFT = RestoreConflict("written", "/q/a", "pids.max", "7", "5")
BUSY = RestoreConflict("process", "/q/b", pids=(4,))


def test_a_refused_undoing_removes_no_value_with_its_cgroup() -> None:
    assert release_lines("/q", RestorePlan((), left=(LEFT,)), [], verbose=False) == [
        f"removed with its cgroup: {LEFT.message}",
        "/q: 0 values restored, 0 cgroups removed, 1 value left",
    ]
    assert release_lines("/q", RestorePlan((), (BUSY,), left=(LEFT,)), [], verbose=False) == [
        f"refused: {BUSY.message}",
        "/q: nothing done, for 1 reason",
    ]
