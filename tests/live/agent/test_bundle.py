"""Bundles of trees that agents really made: what is in them is what the kernel has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from qoslet.core.bundle.archive import unpack
from tests.cli.fixtures import answer
from tests.live.agent.agents import Agent, agent
from tests.live.agent.test_run import PATIENCE

__all__ = ["agent"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: zqalpha, namespace: zqspace}
spec:
  containers:
  - name: zqmain
    command: [sleep, "1000"]
    env: [{name: ZQTOKEN, value: zqsecret}]
    resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {memory: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: zqbeta, namespace: zqspace, uid: 0a1b2c3d-0000-4000-8000-00000000000b}
spec:
  containers:
  - {name: zqmain, command: [sh, -c, "sleep 1000 & sleep 1000"], resources: {}}
"""


def parts(agent: Agent, path: Path, *options: str) -> dict[str, bytes]:
    done = answer("bundle", "-o", str(path), *options, "--cgroup-root", agent.root)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    return dict(unpack(path.read_bytes(), "b").parts)


def planned(agent: Agent, *options: str, root: bool = False) -> dict[str, Any]:
    own = ("--cgroup-root", agent.root) if root else ()
    done = answer("plan", "-o", "json", *options, *own)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["node"]["probed"] = []
    del found["problems"]
    return found


def test_relative_manifests_begin_where_the_agent_began(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agent.manifests / "pods.yaml").write_text(PODS)
    agent.manifests = Path(os.path.relpath(agent.manifests))
    agent.service()
    agent.until(lambda: len(agent.pids()) == 4)
    monkeypatch.chdir(tmp_path)
    pods = json.loads(parts(agent, tmp_path / "b.tgz")["pods.json"])["items"]
    assert [one["metadata"]["name"] for one in pods] == ["zqalpha", "zqbeta"]


def test_the_bundle_of_a_running_agent(agent: Agent, tmp_path: Path) -> None:
    (agent.manifests / "pods.yaml").write_text(PODS)
    agent.service("--cgroup-driver", "cgroupfs")
    agent.until(lambda: len(agent.pids()) == 4)
    found = parts(agent, tmp_path / "b.tgz")
    pods = json.loads(found["pods.json"])["items"]
    assert [one["metadata"]["name"] for one in pods] == ["zqalpha", "zqbeta"]
    assert {one["status"]["phase"] for one in pods} == {"Running"}
    rows = [json.loads(line) for line in found["cgroups.jsonl"].splitlines()]
    below = {row["path"] for row in rows if row["path"].startswith(agent.root)}
    assert below == set(agent.groups())
    for row in rows:
        if row["path"] in below:
            for file, text in row["files"].items():
                if file in (agent.limit_file, "cpu.shares", "cpu.weight", "pids.max"):
                    assert agent.read(row["path"], file) == text
    counts = {row["path"].rpartition("/pod")[2]: row["processes"] for row in rows}
    assert counts["0a1b2c3d-0000-4000-8000-00000000000b/zqmain"] == 3
    leaf = next(row for row in rows if row["path"].endswith("0b/zqmain"))
    assert leaf["oomScoreAdj"] == [1000]
    machine = ("-f", str(agent.manifests), "--cgroup-driver", "cgroupfs", "--runtime", "process")
    assert planned(agent, "--bundle", str(tmp_path / "b.tgz")) == planned(
        agent, *machine, root=True
    )
    assert not [name for name, text in found.items() if b"zqsecret" in text or b"ZQTOKEN" in text]


def test_a_redacted_bundle_of_a_running_agent(agent: Agent, tmp_path: Path) -> None:
    (agent.manifests / "pods.yaml").write_text(PODS)
    agent.service("--cgroup-driver", "cgroupfs")
    agent.until(lambda: len(agent.pids()) == 4)
    found = parts(agent, tmp_path / "r.tgz", "--redact")
    hidden = ("zq", "ZQTOKEN", agent.root.strip("/"), "0a1b2c3d-0000-4000-8000-00000000000b")
    assert not [
        (name, one) for name, text in found.items() for one in hidden if one.encode() in text
    ]
    plan = planned(agent, "--bundle", str(tmp_path / "r.tgz"))
    paths = {json.loads(line)["path"] for line in found["cgroups.jsonl"].splitlines()}
    assert {one["path"] for one in plan["cgroups"] if one["path"]} <= paths
    assert len([one for one in plan["cgroups"] if one["level"] == "pod"]) == 2


def audited(agent: Agent, *options: str) -> tuple[int, list[dict[str, Any]]]:
    own = () if "--bundle" in options else ("--cgroup-root", agent.root)
    done = answer("audit", "-o", "json", *options, *own)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert found["compared"] > 10
    kept = ("verdict", "severity", "name", "path", "file", "expected", "found", "pod", "container")
    return done.returncode, [{key: one[key] for key in kept} for one in found["findings"]]


def test_the_audit_of_a_bundle_is_that_of_the_machine(agent: Agent, tmp_path: Path) -> None:
    (agent.manifests / "pods.yaml").write_text(PODS)
    run = agent.service("--cgroup-driver", "cgroupfs")
    agent.until(lambda: len(agent.pids()) == 4)
    # the agent would put back what follows
    agent.stop(run)
    pods = ("-f", str(agent.manifests), "--cgroup-driver", "cgroupfs")
    bundle = tmp_path / "b.tgz"
    parts(agent, bundle, *pods)
    code, found = audited(agent, "--bundle", str(bundle))
    assert (code, found) == audited(agent, *pods)
    assert not [
        one for one in found if one["file"] != "oom_score_adj" and one["severity"] != "info"
    ]
    leaf = next(path for path in agent.groups() if path.endswith("0b/zqmain"))
    tree = agent.tree.layout.tree_of("pids")
    assert tree is not None
    tree.write(leaf, "pids.max", "77")
    qos = leaf.rpartition("/pod")[0]
    cpu = agent.tree.layout.tree_of("cpu")
    assert cpu is not None
    cpu.write(qos, "cpu.weight" if agent.v2 else "cpu.shares", "99")
    parts(agent, bundle, *pods)
    code, found = audited(agent, "--bundle", str(bundle))
    assert (code, found) == audited(agent, *pods)
    assert code == 1
    assert {one["file"] for one in found} >= {"cpu.weight" if agent.v2 else "cpu.shares"}


NODE = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
podPidsLimit: 1234
"""


def test_the_node_of_a_bundle_is_that_of_the_agent(agent: Agent, tmp_path: Path) -> None:
    """As for ``audit``: nobody has to say again what the agent was given."""
    (agent.manifests / "pods.yaml").write_text(PODS)
    (tmp_path / "kubelet.yaml").write_text(NODE)
    given = ("--node", str(tmp_path / "kubelet.yaml"))
    agent.service(*given, "--kubernetes", "1.34")
    agent.until(lambda: len(agent.pids()) == 4)
    bundle = tmp_path / "b.tgz"
    found = parts(agent, bundle)
    assert b"podPidsLimit: 1234" in found["kubelet.yaml"]
    lacking = {one["part"] for one in json.loads(found["bundle.json"])["missing"]}
    assert "kubelet.yaml" not in lacking
    made = planned(agent, "--bundle", str(bundle))
    pids = {
        row["value"]
        for one in made["cgroups"]
        for row in one["settings"]
        if row["file"] == "pids.max"
    }
    assert "1234" in pids
    assert audited(agent, "--bundle", str(bundle)) == audited(agent)
