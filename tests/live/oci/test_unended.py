"""Pods whose processes no signal reaches: what is said of them, and that nothing of them is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.host.state.keepers import keepers_of
from tests.live.agent.agents import SLOW, Agent
from tests.live.agent.agents import agent as agent
from tests.live.hanging_mount import hanging_mount
from tests.live.oci.bundles import busybox

pytestmark = [pytest.mark.live, pytest.mark.timeout(300 * SLOW)]


def options_for(runtime: str, folder: Path) -> list[str]:
    """The options of an agent with this runtime."""
    options = ["--keep", "--with", runtime]
    if runtime == "runc":
        options += ["--images", str(busybox(folder)), "--storage", str(folder / "storage")]
    return options


def hanging_pod(mount: Path) -> str:
    """The manifest of a pod whose process never returns from a look into a mount."""
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
    metadata = {"name": "hangs", "uid": "hangs-0"}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def until(ready: Callable[[], bool]) -> None:
    """Wait for what no agent does."""
    deadline = time.monotonic() + 60 * SLOW
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """Where the file system is to be mounted that hangs."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here" / "hangs"


@pytest.mark.parametrize("runtime", ["process", "runc"])
def test_a_pod_that_cannot_end_is_named_until_it_is_gone(
    agent: Agent, tmp_path: Path, mount: Path, runtime: str
) -> None:
    options = options_for(runtime, tmp_path)
    with hanging_mount(mount) as hangs:
        agent.write("hangs", hanging_pod(mount))
        run = agent.begin(*options)
        agent.until(hangs.is_set, 40 * SLOW)
        agent.until(lambda: len(agent.pids()) == 1)
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
    until(lambda: not agent.alive({pid}))
    agent.release()
    assert (agent.groups(), agent.folder.exists()) == ([], False)


def test_what_ends_after_its_time_is_cleared_away(
    agent: Agent, tmp_path: Path, mount: Path
) -> None:
    """Its keeper has been ended by then."""
    with hanging_mount(mount) as hangs:
        agent.write("hangs", hanging_pod(mount))
        run = agent.begin(*options_for("runc", tmp_path))
        agent.until(hangs.is_set, 40 * SLOW)
        agent.stop(run)
        words = [sys.executable, "-m", "qoslet", "release", "--cgroup-root", agent.root]
        release = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        until(lambda: not keepers_of(str(agent.folder)))
    _, said = release.communicate(timeout=60 * SLOW)
    assert release.returncode == 0, said
    assert (agent.groups(), agent.folder.exists()) == ([], False)
    assert str(agent.folder) not in Path("/proc/self/mounts").read_text()
