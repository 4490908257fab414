"""Edited resources of pods that run, on this machine's kernel."""

from __future__ import annotations

import sys

import pytest

from tests.live.agent.agents import MIB, SLOW, Agent, identities
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import PATIENCE, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]


def test_edited_resources_are_written_in_place(agent: Agent) -> None:
    text = pod("a", "exec sleep 1000")
    agent.write("a", text)
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 1)
    pids, groups = agent.pids(), identities(agent)
    (app,) = agent.apps()
    agent.write(
        "a", text.replace("memory: 32Mi}", "memory: 64Mi}").replace("cpu: 200m", "cpu: 300m")
    )
    agent.until(lambda: agent.limit(app) == 64 * MIB)
    agent.until(lambda: agent.limit(app.removesuffix("/app")) == 64 * MIB)
    agent.write(
        "a",
        text.replace("memory: 16Mi", "memory: 900Gi").replace("memory: 32Mi}", "memory: 900Gi}"),
    )
    agent.write("b", pod("b", "exec sleep 1000"))
    agent.until(lambda: len(agent.pids()) == 2)
    assert agent.limit(app) == 64 * MIB, "infeasible: it keeps what it has"
    agent.write("a", text)
    agent.until(lambda: agent.limit(app) == 32 * MIB)
    assert agent.pids() >= pids
    assert identities(agent).items() >= groups.items()
    out = agent.stop(run)
    assert "resize Infeasible: memory" in out


def test_a_limit_below_the_usage_is_followed_down_and_nobody_is_killed(agent: Agent) -> None:
    hold = "import sys,time; held = bytearray(100 << 20); print(1, flush=True)\nwhile not __import__('os').path.exists(sys.argv[1]): time.sleep(0.05)\ndel held; time.sleep(1000)"
    script, flag = agent.manifests.parent / "hold.py", agent.manifests.parent / "flag"
    script.write_text(hold)
    text = pod("a", f"exec {sys.executable} {script} {flag}").replace(
        "memory: 32Mi}", "memory: 192Mi}"
    )
    agent.write("a", text)
    run = agent.service()
    usage = "memory.current" if agent.v2 else "memory.usage_in_bytes"
    agent.until(
        lambda: any(int(agent.value(path, usage) or 0) > 100 * MIB for path in agent.apps())
    )
    pids = agent.pids()
    (app,) = agent.apps()
    agent.write("a", text.replace("memory: 192Mi}", "memory: 64Mi}"))
    agent.until(lambda: agent.limit(app) < 192 * MIB)
    assert 100 * MIB < agent.limit(app) < 130 * MIB, "near the usage"
    flag.touch()
    agent.until(lambda: agent.limit(app) == 64 * MIB, 30 * SLOW)
    assert agent.pids() == pids
    agent.stop(run)
