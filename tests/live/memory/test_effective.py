"""What a running agent says of limits and protection is what this machine's kernel holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.agent.agents import Agent, agent
from tests.live.agent.test_run import PATIENCE
from tests.live.memory.cgroups import MIB
from tests.live.memory.test_memory_events import HOLDS, asked, memory, program

__all__ = ["agent"]
pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

NODE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
featureGates: {MemoryQoS: true}
memoryReservationPolicy: TieredReservation
"""
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: a, uid: a}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      command: [sh, -c, {program(HOLDS, mib=24, seconds=600)!r}]
      resources: {{requests: {{cpu: 10m, memory: 64Mi}}, limits: {{memory: 256Mi}}}}
    - name: unlimited
      command: [sleep, "600"]
"""


def app(agent: Agent) -> dict[str, Any]:
    """The container's row; nothing where there is none that uses what it holds."""
    found = [row for row in memory(agent).get("groups", ()) if row["container"] == "app"]
    return found[0] if found and (found[0]["currentBytes"] or 0) >= 24 * MIB else {}


def set_root(agent: Agent, file: str, value: int) -> None:
    tree = agent.tree.layout.tree_of("memory")
    assert tree is not None
    tree.write(agent.root, file, str(value))


def test_limits_and_protection_of_what_runs(
    agent: Agent, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if agent.tree.layout.tree_of("memory") is None:
        pytest.skip("no memory controller: Debian's kernels from 13 on have none for v1")
    (tmp_path / "node.yaml").write_text(NODE)
    agent.write("a", POD)
    form = ["--node", str(tmp_path / "node.yaml"), "--memory-qos", "1.37"] if agent.v2 else []
    agent.service(*form)
    agent.until(lambda: bool(app(agent)))
    row = app(agent)
    limit = {"cgroup": row["cgroup"], "file": agent.limit_file, "bytes": 256 * MIB}
    assert {name: row["binds"][name] for name in limit} == limit
    assert row["binds"]["room"] == row["maxBytes"] - row["currentBytes"]
    set_root(agent, agent.limit_file, 96 * MIB)
    agent.until(lambda: (app(agent).get("binds") or {}).get("cgroup") == agent.root)
    row = app(agent)
    assert (row["binds"]["bytes"], row["maxBytes"]) == (96 * MIB, 256 * MIB)
    record_property("binds", row["binds"])
    if not agent.v2:
        assert row["worthLess"] == []
        return
    [less] = row["worthLess"]
    assert (row["lowBytes"], less["bytes"], less["worthBytes"]) == (64 * MIB, 64 * MIB, 0)
    assert less["because"]["cgroup"] == agent.root
    line = f"app: memory.low 64Mi protects only 0 of {less['usedBytes'] >> 20}"
    assert line in asked(agent)
    set_root(agent, "memory.low", 64 * MIB)
    agent.until(lambda: not app(agent).get("worthLess", [less]))
    row = app(agent)
    assert row["protectedLowBytes"] >= 24 * MIB
    assert "protects only" not in asked(agent)
    record_property("protected", row["protectedLowBytes"])
