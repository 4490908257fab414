"""CPUs of one's own under a running agent: kept over its death, the pool shrinking and growing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.core.node.fields import cpus
from tests.live.agent.agents import Agent
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import PATIENCE

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

ONLINE = cpus(Path("/sys/devices/system/cpu/online").read_text().strip()) or set()
STATIC = ("--cpu-manager-policy", "static", "--system-reserved", "cpu=100m")


def pod(name: str, cpu: str) -> str:
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}0}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: app
    command: [sleep, "1000"]
    resources: {{limits: {{cpu: {cpu}, memory: 64Mi}}}}
"""


@pytest.fixture
def kept(agent: Agent) -> Agent:
    if len(ONLINE) < 2:
        pytest.skip("one CPU: none can be anybody's own")
    return agent


def allowed(agent: Agent, name: str) -> set[int]:
    """The CPUs that a pod's process may use, as the kernel says; empty while there is none."""
    pids = {
        pid for path in agent.apps() if f"/pod{name}0/" in path for pid in agent.tree.members(path)
    }
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return cpus(line.split()[1]) or set()
    return set()


def test_cgroupfs_cpus_are_kept_over_the_agents_death(
    kept: Agent, record_property: Callable[[str, object], None]
) -> None:
    kept.write("own", pod("own", "1"))
    kept.write("shares", pod("shares", "500m"))
    first = kept.service(*STATIC)
    kept.until(lambda: bool(allowed(kept, "own") and allowed(kept, "shares")))
    own = allowed(kept, "own")
    assert len(own) == 1
    kept.eventually(lambda: allowed(kept, "shares") == ONLINE - own)
    pids = kept.pids()
    state = (kept.folder / "cpu_manager_state").read_text()
    assert '"entries":{"own0":{"app":' in state
    first.send_signal(signal.SIGKILL)
    first.wait()
    # it would come first in the order of manifests, and there is one CPU for one of them only
    kept.write("first", pod("first", str(len(ONLINE) - 1)))
    second = kept.service(*STATIC)
    kept.write("later", pod("later", "100m"))
    kept.eventually(lambda: allowed(kept, "later") == ONLINE - own)
    assert pids < kept.pids()
    assert allowed(kept, "own") == own
    assert allowed(kept, "shares") == ONLINE - own
    assert allowed(kept, "first") == set()
    os.unlink(kept.manifests / "own.yaml")
    kept.eventually(lambda: len(allowed(kept, "first")) == len(ONLINE) - 1)
    kept.eventually(lambda: allowed(kept, "shares") == ONLINE - allowed(kept, "first"))
    os.unlink(kept.manifests / "first.yaml")
    kept.eventually(lambda: allowed(kept, "shares") == ONLINE)
    assert "UnexpectedAdmissionError" in kept.stop(second)
    kept.release()
    assert not kept.folder.exists()
    record_property("compared", 6)


def test_a_state_of_another_node_is_refused(kept: Agent) -> None:
    kept.write("own", pod("own", "1"))
    first = kept.service(*STATIC)
    kept.until(lambda: bool(allowed(kept, "own")))
    kept.stop(first)
    pids = kept.pids()
    reserved = ",".join(map(str, sorted(ONLINE)))
    other = kept.begin("--keep", "--cpu-manager-policy", "static", "--reserved-cpus", reserved)
    _, err = other.communicate(timeout=PATIENCE)
    assert other.returncode == 3, err
    assert "cpu_manager_state" in err
    assert "is reserved now" in err
    assert "remove the file" in err
    assert kept.pids() == pids, "what runs stays"
    none = kept.begin("--keep")
    _, err = none.communicate(timeout=PATIENCE)
    assert none.returncode == 3, err
    assert "the node has none" in err
    assert kept.pids() == pids
