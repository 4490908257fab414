"""The pods of an agent, with what it says of their containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.app.node.agent_pods import agent_pods
from qoslet.core.api.manifest import Options

ID = "0123456789abcdef" * 4
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-1}
spec: {containers: [{name: app, image: x}, {name: side, image: x}]}
"""


@pytest.mark.parametrize(
    ("leaf", "found"),
    [(ID, ID), (f"cri-containerd-{ID}.scope", ID), ("app", None), (f"{ID}0", None)],
)
def test_containers_are_known_by_the_cgroups_of_a_runtime(
    tmp_path: Path, leaf: str, found: str | None
) -> None:
    (tmp_path / "web.yaml").write_text(POD)
    containers = [
        {"name": "app", "role": "regular", "cgroup": f"/q/podweb-1/{leaf}", "running": True},
        {"name": "side", "role": "regular", "cgroup": f"/q/podweb-1/{ID}", "running": False},
    ]
    row = {"uid": "web-1", "manifest": "web.yaml", "phase": "Running", "containers": containers}
    agent = {"workingDirectory": str(tmp_path), "items": [row]}
    (((pod, document),), why) = agent_pods(agent, Options(keep_raw=True))
    assert why == ""
    assert [one.id for one in pod.containers] == [found, None]
    statuses = document["status"]["containerStatuses"]
    assert [one.get("containerID") for one in statuses] == [found, None]


def test_a_container_in_back_off_waits_as_ps_says(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD)
    ended = {"role": "regular", "running": False, "exitCode": 137, "exitReason": "OOMKilled"}
    containers = [
        {"name": "app", **ended, "status": "CrashLoopBackOff", "restartAt": "2026-11-30T11:04:24Z"},
        {"name": "side", **ended, "status": "OOMKilled", "restartAt": None},
    ]
    row = {"uid": "web-1", "manifest": "web.yaml", "phase": "Running", "containers": containers}
    agent = {"workingDirectory": str(tmp_path), "items": [row]}
    (((pod, document),), _) = agent_pods(agent, Options(keep_raw=True))
    assert [one.waits for one in pod.containers] == ["CrashLoopBackOff", ""]
    app, side = document["status"]["containerStatuses"]
    assert app["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert app["lastState"] == side["state"]
    assert side["state"]["terminated"]["exitCode"] == 137
