"""What ``qoslet ps`` shows of pods on this machine's kernel, before and after another agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.agent.agents import SLOW, Agent, agent
from tests.live.agent.test_run import ENVIRONMENT, PATIENCE, ended, pod

__all__ = ["agent"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(4 * PATIENCE)]

SPINS = pod("hog", "while :; do :; done")
"""Its limit is 200m of CPU and 32Mi."""


def listed(agent: Agent, *words: str) -> dict[str, dict[str, Any]]:
    """The pods by name, empty where no agent answers."""
    done = subprocess.run(
        agent.verb("ps", *words, "-o", "json"), env=ENVIRONMENT, capture_output=True, check=False
    )
    items = json.loads(done.stdout)["items"] if done.returncode == 0 else []
    return {item["name"]: item for item in items}


def table(agent: Agent) -> dict[str, list[str]]:
    """The cells of the wide table by name of the pod."""
    done = subprocess.run(
        agent.verb("ps", "-o", "wide"), env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith(" ")]
    return {cells[0]: cells for cells in lines}


def test_status_age_usage_and_a_rejected_edit(agent: Agent) -> None:
    agent.write("hog", SPINS)
    agent.write("crash", pod("crash", "exit 7"))
    agent.write("job", pod("job", "exit 4", "Never"))
    agent.write("oom", pod("oom", "exec tail /dev/zero", "Never"))
    run = agent.service()
    wanted = {"hog": "Running", "crash": "CrashLoopBackOff", "job": "Error", "oom": "OOMKilled"}
    agent.until(
        lambda: {name: item["status"] for name, item in listed(agent).items()} == wanted, PATIENCE
    )
    agent.until(lambda: (listed(agent)["hog"]["usage"]["throttledSeconds"] or 0) > 0.5, PATIENCE)
    first = listed(agent)
    crash = first["crash"]["containers"][0]
    assert (crash["exitCode"], crash["exitReason"]) == (7, "Error")
    assert crash["restartAt"] > crash["finishedAt"]
    assert first["oom"]["containers"][0]["exitCode"] == 137
    used = first["hog"]["usage"]
    assert used["cpuLimitCores"] == 0.2
    assert 0.2 < used["cpuOfLimit"] < 2
    assert used["memoryLimitBytes"] == 32 << 20
    cells = table(agent)
    head = cells["NAME"]
    at = {name: head.index(name) for name in head}
    assert cells["hog"][at["CPU/LIMIT"]].endswith("%")
    assert cells["hog"][at["THROTTLED"]].endswith("s")
    assert cells["crash"][at["EXIT"]] == "7"

    agent.write("hog", SPINS.replace("32Mi", "32Mib"))
    agent.until(lambda: bool(listed(agent)["hog"]["editRejected"]), PATIENCE)
    assert table(agent)["hog"][at["RESIZE"]] == "Rejected"
    agent.write("hog", SPINS)
    agent.until(lambda: not listed(agent)["hog"]["editRejected"], PATIENCE)

    run.send_signal(signal.SIGTERM)
    ended(run)
    agent.service()
    agent.until(lambda: set(listed(agent)) == set(wanted), PATIENCE)
    again = listed(agent)
    ages = {name: item["createdAt"] for name, item in again.items() if name in ("hog", "crash")}
    assert ages == {name: first[name]["createdAt"] for name in ages}
    assert set(listed(agent, "hog")) == {"hog"}


def test_pods_that_end_with_their_run_are_told_as_such(agent: Agent) -> None:
    stays = pod("stays", "trap : TERM; while :; do sleep 0.1; done")
    agent.write("stays", stays.replace("Seconds: 3", f"Seconds: {20 * SLOW:.0f}"))
    agent.write("goes", pod("goes", "exec sleep 1000"))
    run = agent.begin()
    agent.until(
        lambda: [one["status"] for one in listed(agent).values()] == ["Running"] * 2, PATIENCE
    )
    run.send_signal(signal.SIGINT)
    agent.until(lambda: set(listed(agent)) == {"stays"}, PATIENCE)
    assert listed(agent)["stays"]["status"] == "Terminating"
    assert agent.answers()
    agent.write("goes", pod("goes", "exec sleep 2000"))
    begun, busy = time.monotonic(), cpu_seconds(run.pid)
    time.sleep(1)
    assert cpu_seconds(run.pid) - busy < 0.4 * (time.monotonic() - begun), "it waits in a loop"
    run.send_signal(signal.SIGINT)
    ended(run)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(word) for word in words[11:13]) / os.sysconf("SC_CLK_TCK")


def test_a_frozen_pod_is_told_as_such(agent: Agent) -> None:
    agent.write("web", pod("web", "exec sleep 1000"))
    agent.service()
    agent.until(lambda: [one["status"] for one in listed(agent).values()] == ["Running"], PATIENCE)
    (app,) = agent.apps()
    above = app.rpartition("/")[0]
    file, frozen, thawed = ("cgroup.freeze", "1", "0")
    if not agent.v2:
        file, frozen, thawed = ("freezer.state", "FROZEN", "THAWED")
    tree = agent.tree.layout.tree_of(file.partition(".")[0])
    assert tree is not None
    said = f"{above} is frozen: nothing in it runs until it is thawed"
    tree.write(app, file, frozen)
    tree.write(above, file, frozen)
    try:
        agent.until(lambda: listed(agent)["web"]["message"] == said, PATIENCE)
        assert listed(agent)["web"]["status"] == "Running"
    finally:
        tree.write(above, file, thawed)
        tree.write(app, file, thawed)
    agent.until(lambda: listed(agent)["web"]["message"] is None, PATIENCE)
