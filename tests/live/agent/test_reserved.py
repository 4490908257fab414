"""Reserved memory and reserved cgroups on this machine's kernel: written, and given back."""

from __future__ import annotations

import os

import pytest

from tests.live.agent.agents import MIB, Agent
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import PATIENCE, ended, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]


def test_reserved_memory_limits_the_lower_tiers_before_the_pod_starts(agent: Agent) -> None:
    options = ("--qos-reserved", "memory=100%", "--feature-gates", "QOSReserved=true")
    agent.write("b", pod("b", "exec sleep 1000"))
    run = agent.service(*options)
    agent.until(lambda: len(agent.pids()) == 1)
    tier = next(path for path in agent.groups() if path.endswith("/besteffort"))
    before = agent.limit(tier)
    text = pod("g", "cat /proc/self/cgroup > /dev/null; exec sleep 1000")
    agent.write(
        "g",
        text.replace("requests: {cpu: 100m, memory: 16Mi}", "requests: {cpu: 200m, memory: 32Mi}"),
    )
    agent.until(lambda: len(agent.pids()) == 2)
    page = 4096
    assert abs(before - agent.limit(tier) - 32 * MIB) < page
    (agent.manifests / "g.yaml").unlink()
    agent.until(lambda: agent.limit(tier) == before)
    err = agent.stop(run)
    assert "error" not in err


class Reserved:
    """A group of somebody else, in every hierarchy."""

    def __init__(self, agent: Agent) -> None:
        self.path = f"{agent.root}-system"
        self.trees = agent.tree.layout.trees

    def __enter__(self) -> Reserved:
        for tree in self.trees:
            tree.mkdir(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        for tree in self.trees:
            tree.rmdir(self.path)


def test_reserved_groups_must_be_there_are_written_and_given_back(agent: Agent) -> None:
    agent.write("a", pod("a", "exec sleep 1000"))
    weight, limit = ("cpu.weight", "memory.max") if agent.v2 else ("cpu.shares", agent.limit_file)
    options = (
        "--system-reserved=cpu=500m,memory=256Mi",
        f"--system-reserved-cgroup={agent.root}-system",
        "--enforce-node-allocatable=pods,system-reserved",
    )
    _, err = ended(agent.begin(*options), 3)
    assert f"{agent.root}-system" in err
    assert "does not exist" in err
    with Reserved(agent) as system:
        if agent.v2:
            agent.tree.layout.trees[0].write("", "cgroup.subtree_control", "+memory +cpu +pids")
        before = {file: agent.read(system.path, file) for file in (weight, limit)}
        run = agent.begin(*options)
        agent.until(lambda: agent.limit(system.path) == 256 * MIB)
        agent.until(lambda: len(agent.pids()) == 1)
        assert agent.read(system.path, weight) != before[weight]
        agent.stop(run)
        assert {file: agent.read(system.path, file) for file in (weight, limit)} == before
        run = agent.service(*options)
        agent.until(lambda: agent.limit(system.path) == 256 * MIB)
        run.kill()
        run.communicate()
        agent.release()
        assert {file: agent.read(system.path, file) for file in (weight, limit)} == before


@pytest.mark.parametrize("killed", [False, True])
def test_controllers_that_a_reserved_cgroup_lacks_are_given_and_taken_back(
    agent: Agent, killed: bool
) -> None:
    if not agent.v2:
        pytest.skip("v1 has nothing to enable")
    agent.write("a", pod("a", "exec sleep 1000"))
    above, tree = f"{agent.root}-above", agent.tree.layout.trees[0]
    reserved = f"{above}/kube"
    tree.mkdir(above)
    tree.mkdir(reserved)

    def state() -> dict[str, object]:
        """What is enabled above, and the files that this makes."""
        files = os.listdir(f"/sys/fs/cgroup{reserved}")
        return {
            "root": sorted(tree.read("", "cgroup.subtree_control").split()),
            "above": tree.read(above, "cgroup.subtree_control"),
            "files": sorted(file for file in files if file.startswith(("cpu.w", "memory", "pids"))),
        }

    try:
        before = state()
        options = (
            "--kube-reserved=cpu=500m,memory=256Mi",
            f"--kube-reserved-cgroup={reserved}",
            "--enforce-node-allocatable=pods,kube-reserved",
        )
        run = agent.service(*options)
        agent.until(lambda: agent.value(reserved, "memory.max") == str(256 * MIB))
        agent.until(lambda: len(agent.pids()) == 1)
        if killed:
            run.kill()
            run.communicate()
        else:
            agent.stop(run)
        said = agent.release("--verbose")
        assert "cannot be read" not in said
        assert state() == before, said
        assert not agent.folder.exists()
    finally:
        tree.rmdir(reserved)
        tree.rmdir(above)


def test_a_reserved_cgroup_needs_the_hierarchies_of_its_values_only(agent: Agent) -> None:
    if agent.v2:
        pytest.skip("v2 has one hierarchy")
    agent.write("a", pod("a", "exec sleep 1000"))
    options = (
        "--system-reserved=cpu=500m,memory=256Mi",
        f"--system-reserved-cgroup={agent.root}-system",
        "--enforce-node-allocatable=pods,system-reserved",
    )
    with Reserved(agent) as system:
        for name, needed in (
            ("freezer", False),
            ("cpuset", False),
            ("cpu", True),
            ("memory", True),
        ):
            tree = agent.tree.layout.tree_of(name)
            if tree is None:
                continue
            tree.rmdir(system.path)
            if needed:
                _, err = ended(agent.begin(*options), 3)
                assert f"does not exist in the hierarchy of {name}" in err
                agent.runs.pop()
            else:
                run = agent.service(*options)
                agent.until(lambda: agent.value(system.path, "cpu.shares") == "512")
                agent.until(lambda: len(agent.pids()) == 1)
                out = agent.stop(run)
                assert "does not exist" not in out
                agent.release()
                assert agent.value(system.path, "cpu.shares") == "1024"
            tree.mkdir(system.path)
