"""``qoslet agent`` in this kernel, beside a tree that a kubelet made: it writes what its policy names,
gives every byte back, and never fights without end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qoslet.core.node.node import Hierarchy
from tests.cli.fixtures import answer, run
from tests.live.agent.test_run import PATIENCE
from tests.live.audit.test_fix import Node, node

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

FILES = {"v1": "cpu.shares", "v2": "cpu.weight"}
HIERARCHIES = ["v1", "v2"]


class Agent:
    """An agent beside the tree of a node, as a process."""

    def __init__(self, tree: Node, folder: Path, *options: str) -> None:
        self.tree = tree
        self.log = folder / "agent.log"
        command = [sys.executable, "-m", "qoslet", "agent", *options, "--interval", "1"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--pods-from", str(folder / "pods.json"), *tree.options(folder)[2:]],
                stdout=log,
                stderr=log,
            )

    def status(self) -> dict[str, Any]:
        done = answer("agent", "--status", "-o", "json", "--cgroup-root", self.tree.bench.root)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def until(
        self, what: Callable[[dict[str, Any]], bool], seconds: float = 1.5 * PATIENCE
    ) -> dict[str, Any]:
        """The status once it is so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            status = self.status()
            if status and what(status):
                return status
            time.sleep(0.5)
        raise AssertionError(f"{self.status()}\n{self.log.read_text()}")

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def agent(tree: Node, folder: Path, *options: str) -> Iterator[Agent]:
    made = Agent(tree, folder, *options)
    try:
        yield made
    finally:
        made.end(signal.SIGKILL)


def policy_of(folder: Path, mode: str, *files: str) -> Path:
    path = folder / "policy.yaml"
    new = folder / ".policy.yaml"
    new.write_text(
        f"apiVersion: qoslet/v1\nkind: AgentPolicy\nmode: {mode}\nfiles: [{', '.join(files)}]\n"
    )
    new.rename(path)
    return path


def written(status: dict[str, Any]) -> bool:
    return bool(status["mode"] == "protect" and status["counts"]["writes"] == 4)


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_it_writes_what_the_policy_names_and_gives_it_back(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    file = FILES[hierarchy]
    with node(hierarchy, tmp_path) as tree:
        planned, spoiled = tree.texts(), tree.spoil()
        policy = policy_of(tmp_path, "watch", file)
        with agent(tree, tmp_path, "--policy", str(policy)) as beside:
            found = beside.until(lambda one: one["compared"] > 0 and bool(one["findings"]))
            assert found["held"] == []
            assert tree.texts() == spoiled, "it only watches"
            policy_of(tmp_path, "protect", file)
            status = beside.until(written)
            now = tree.texts()
            assert {name for name in now if now[name] != spoiled[name]} == {
                name for name in planned if planned[name] != spoiled[name] and name.endswith(file)
            }
            assert {one["file"] for one in status["held"]} == {file}
            left = {
                one["file"]
                for one in beside.until(lambda one: len(one["findings"]) < len(found["findings"]))[
                    "findings"
                ]
            }
            assert file not in left
            assert "pids.max" in left, "what no policy names stays, and stays said"
            assert beside.end() == 0, beside.log.read_text()
        assert tree.texts() == spoiled
        assert not tree.journal.exists()


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_a_writer_that_resets_each_second_is_no_fight_without_end(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    file = FILES[hierarchy]
    with node(hierarchy, tmp_path) as tree:
        tree.spoil()
        policy = policy_of(tmp_path, "protect", file)
        with agent(tree, tmp_path, "--policy", str(policy)) as beside:
            before = beside.until(written)["counts"]
            for _ in range(20):
                tree.write(tree.pod(0), file, "77")
                time.sleep(1.0)
            status = beside.status()
            [contested] = status["contested"]
            counts = status["counts"]
            assert 3 <= counts["writes"] - before["writes"] <= 7, counts
            assert (contested["file"], contested["found"]) == (file, "77")
            assert contested["retrySeconds"] is None or contested["retrySeconds"] <= 32
            assert counts["resets"] >= counts["rewrites"]
            tree.write(tree.pod(0), file, "78")
            assert beside.end() == 0, beside.log.read_text()
        assert tree.write(tree.pod(0), file, "78") == "78", "what another wrote stays"
        assert "another process changed" in beside.log.read_text()
        assert not tree.journal.exists()


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_what_a_killed_agent_left_is_undone(hierarchy: Hierarchy, tmp_path: Path) -> None:
    file = FILES[hierarchy]
    with node(hierarchy, tmp_path) as tree:
        spoiled = tree.spoil()
        policy = policy_of(tmp_path, "protect", file)
        options = ("--policy", str(policy))
        with agent(tree, tmp_path, *options) as beside:
            beside.until(written)
            second = run(
                "agent",
                *options,
                "--pods-from",
                str(tmp_path / "pods.json"),
                *tree.options(tmp_path)[2:],
            )
            assert second.returncode == 3, second.stderr
            fix = answer("audit", *tree.options(tmp_path), "--fix")
            assert fix.returncode == 3, "nobody else writes in its tree"
            beside.end(signal.SIGKILL)
        assert tree.texts() != spoiled
        fix = answer("audit", *tree.options(tmp_path), "--fix")
        assert fix.returncode == 3
        assert "qoslet release" in fix.stderr
        undone = answer("release", "--cgroup-root", tree.root)
        assert (undone.returncode, tree.texts()) == (0, spoiled), undone.stderr
        with agent(tree, tmp_path, *options) as beside:
            beside.until(written)
            beside.end(signal.SIGKILL)
        policy_of(tmp_path, "watch", file)
        with agent(tree, tmp_path, *options) as beside:
            beside.until(lambda one: one["held"] == [])
            assert tree.texts() == spoiled, "the next one undoes what is named no longer"
            assert beside.end() == 0


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_values_are_kept_where_that_is_asked(hierarchy: Hierarchy, tmp_path: Path) -> None:
    file = FILES[hierarchy]
    with node(hierarchy, tmp_path) as tree:
        spoiled = tree.spoil()
        options = ("--policy", str(policy_of(tmp_path, "protect", file)))
        dry = run(
            "agent",
            *options,
            "--dry-run",
            "--pods-from",
            str(tmp_path / "pods.json"),
            *tree.options(tmp_path)[2:],
        )
        assert (dry.returncode, len(dry.stdout.splitlines())) == (0, 4), dry.stderr
        assert tree.texts() == spoiled
        with agent(tree, tmp_path, *options, "--keep") as beside:
            beside.until(written)
            assert beside.end() == 0
        kept = tree.texts()
        assert kept != spoiled
        with agent(tree, tmp_path, *options) as beside:
            status = beside.until(lambda one: len(one["held"]) == 4)
            assert status["counts"]["writes"] == 0
            assert tree.texts() == kept
            assert beside.end() == 0
        assert tree.texts() == spoiled


def test_on_cgroup_v1_there_is_no_memory_qos_to_write(tmp_path: Path) -> None:
    with node("v1", tmp_path) as tree:
        before = tree.texts()
        options = ("--mode", "guard", "--memory-qos", "qoslet")
        with agent(tree, tmp_path, *options) as beside:
            status = beside.until(lambda one: one["compared"] > 0)
            assert status["notes"] == ["cgroup v1 has no Memory QoS: nothing is written"]
            assert status["held"] == []
            assert tree.texts() == before
            assert beside.end() == 0


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_a_tree_where_nothing_is_left_is_released_again_and_again(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    with node(hierarchy, tmp_path) as tree:
        spoiled, groups = tree.spoil(), tree.groups()
        for options in (["--dry-run"], [], []):
            undone = answer("release", "--cgroup-root", tree.root, *options)
            assert undone.returncode == 0, undone.stderr
            assert (tree.texts(), tree.groups()) == (spoiled, groups)
        assert not tree.journal.exists()
        other = answer("apply", *tree.options(tmp_path)[:-1], tree.root, "--dry-run")
        assert other.returncode == 3, "it is a kubelet's all the same"
