"""An audit of a kubelet's node where an agent of qoslet keeps values of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qoslet.app.audit.machine import Audited
from qoslet.app.audit.node_audit import beside_agent
from qoslet.errors import CannotDo
from tests.core.audit.trees import look, plan_of, tree_of, written


@pytest.mark.parametrize("runs", [True, False])
def test_what_the_agent_of_the_node_holds_is_told_as_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    plan = plan_of(str(tmp_path), "v2", "systemd", "1.36")
    path, file = "/kubepods.slice/kubepods-burstable.slice", "memory.low"
    report = look(plan, written(tree_of(plan), path, file, "4194304"))
    asked = list[str | None]()

    def status(cgroup_root: str | None) -> dict[str, Any]:
        asked.append(cgroup_root)
        if not runs:
            raise CannotDo("no agent runs beside a kubelet here")
        return {"held": [{"cgroup": path, "file": file, "value": "4194304"}]}

    monkeypatch.setattr("qoslet.app.node.asked_guest.agent_status", status)
    found = beside_agent(Audited(plan, report)).report.findings
    assert asked == [plan.node.kubelet.cgroup_root]
    told = {(one.path, one.file): one.severity for one in found}
    assert told[path, file] == ("info" if runs else "warning")
    beside_agent(Audited(plan, look(plan, tree_of(plan))))
    assert len(asked) == 1, "nothing is asked where nothing is off"
