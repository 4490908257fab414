"""Cgroups that another process made below the root, or where a pod's is to be: what is in them lives
on."""

from __future__ import annotations

import subprocess

import pytest

from tests.live.agent.agents import SLOW, Agent
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(240 * SLOW)]


def reasons(agent: Agent) -> dict[object, object]:
    return {row["name"]: row["reason"] for row in agent.rows()}


def test_what_another_process_runs_where_a_pod_was_to_start_lives_on(agent: Agent) -> None:
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.apps()) == 1)
    (app,) = agent.apps()
    top = app.rpartition("/")[0]
    name = top.rpartition("/")[2]
    (agent.manifests / "a.yaml").unlink()
    agent.until(lambda: not agent.apps() and top not in agent.groups())
    agent.tree.layout.create(top)
    theirs = subprocess.Popen(["sleep", "1000"])
    try:
        for tree in agent.tree.layout.trees:
            tree.write(top, "cgroup.procs", str(theirs.pid))
        agent.write("a", pod("a", "exec sleep 1000"))
        agent.eventually(lambda: reasons(agent).get("a") == "GroupNotOurs", 30 * SLOW)
        assert name.startswith("pod")
        (agent.manifests / "a.yaml").unlink()
        agent.eventually(lambda: "a" not in reasons(agent), 30 * SLOW)
        assert theirs.poll() is None
        assert theirs.pid in agent.tree.members(top)
        said = agent.stop(run)
        assert f"killed process {theirs.pid}" not in said
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()
        agent.tree.layout.trees[0].rmdir(top)
        for tree in agent.tree.layout.trees[1:]:
            tree.rmdir(top)


def test_release_on_v1_ends_what_is_left_in_our_cgroups_and_not_beside_them(
    agent: Agent,
) -> None:
    if agent.v2:
        pytest.skip("of v1; on v2 no process is in a cgroup with others below it")
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.apps()) == 1)
    (app,) = agent.apps()
    agent.stop(run)
    beside = f"{agent.root}/beside"
    agent.tree.layout.create(beside)
    inside, theirs = (subprocess.Popen(["sleep", "1000"]) for _ in range(2))
    try:
        for tree in agent.tree.layout.trees:
            tree.write(app.rpartition("/")[0], "cgroup.procs", str(inside.pid))
            tree.write(beside, "cgroup.procs", str(theirs.pid))
        assert f"killed process {inside.pid} (sleep)" in agent.release(code=1)
        assert inside.wait(10) == -9
        assert theirs.poll() is None
    finally:
        for process in (inside, theirs):
            process.kill()
            process.wait()
        for tree in agent.tree.layout.trees:
            tree.rmdir(beside)
    assert "cgroups removed" in agent.release()
