"""Pods whose processes no signal reaches: what is said of them, and that nothing of them is lost."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.live.agent.agents import SLOW, Agent
from tests.live.agent.agents import agent as agent
from tests.live.hanging_mount import hanging_mount
from tests.live.oci.bundles import busybox

pytestmark = [pytest.mark.live, pytest.mark.timeout(300 * SLOW)]


@pytest.mark.parametrize("runtime", ["process", "runc"])
def test_a_pod_that_cannot_end_is_named_until_it_is_gone(
    agent: Agent, tmp_path: Path, runtime: str
) -> None:
    mount = tmp_path / "here" / "hangs"
    mount.parent.mkdir()
    options = ["--keep", "--with", runtime]
    if runtime == "runc":
        options += ["--images", str(busybox(tmp_path)), "--storage", str(tmp_path / "storage")]
    app = {
        "name": "app",
        "image": "busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"[ -e {mount}/file ]; exec sleep 600"],
        "volumeMounts": [{"name": "here", "mountPath": str(mount.parent)}],
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "hostNetwork": True,
        "containers": [app],
        "volumes": [{"name": "here", "hostPath": {"path": str(mount.parent)}}],
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hangs", "uid": "hangs-0"}}
    with hanging_mount(mount) as hangs:
        agent.write("hangs", json.dumps({**document, "spec": spec}))
        run = agent.begin(*options)
        agent.until(hangs.is_set, 40 * SLOW)
        (pid,) = agent.pids()
        (agent.manifests / "hangs.yaml").unlink()
        asleep = f"process {pid} (sh, in uninterruptible sleep)"
        agent.until(lambda: any(asleep in str(row["message"]) for row in agent.rows()), 40 * SLOW)
        agent.stop(run)
        run = agent.begin(*options)
        agent.until(lambda: any(asleep in str(row["message"]) for row in agent.rows()), 40 * SLOW)
        agent.stop(run)
        dry = agent.release("--dry-run")
        assert f"process {pid} (sh) would be stopped first" in dry
        said = agent.release(code=3)
        assert f"{asleep} cannot be stopped" in said
        assert "Pod default/hangs: stopped" not in said
    deadline = time.monotonic() + 10
    while agent.alive({pid}):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    agent.release()
    assert (agent.groups(), agent.folder.exists()) == ([], False)
