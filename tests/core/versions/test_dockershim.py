"""Docker as a runtime, and runtimes without the unified map.

Sources: 1.24 changelog (no dockershim), KEP-2254 and KEP-2570 (never on cgroup v2), kubernetes
pkg/kubelet/dockershim helpers_linux.go (Memory and MemorySwap alike, no unified map, no huge pages),
runc CHANGELOG 1.0.0-rc93, crun NEWS 0.15.
"""

from __future__ import annotations

from typing import Any

import pytest

import qoslet
from qoslet.core.node.flags import Flags
from qoslet.core.node.resolve import Probed, node_from
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.versions.runtime import runtime_of

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: x, resources: {limits: {cpu: "1", memory: 1Gi}}}]}
"""
DOCKER = ("docker-20.10.7", "docker-18.09", "docker", "dockershim", "dockershim-1.17")


def planned(release: str, runtime: str = "", hierarchy: str = "v1", **flags: str) -> Plan:
    own: dict[str, Any] = {
        "apiVersion": "qoslet/v1", "kind": "Node", "kubernetes": release,
        "capacity": {"cpu": "4", "memory": "8Gi", "pid": "1000"},
        "host": {"hierarchy": hierarchy, "kernel": "6.1"},
    }  # fmt: skip
    if runtime:
        own["runtime"] = runtime
    node, problems = node_from([("node.yaml", own)], Flags(**flags), Probed)
    return qoslet.plan(qoslet.read_pods(POD), node, problems)


def said(rows: tuple[Problem, ...], text: str) -> bool:
    return any(text in row.message for row in rows)


@pytest.mark.parametrize("name", [*DOCKER, "docker://20.10.7"])
def test_docker_is_known(name: str) -> None:
    made = planned("1.22", name)
    assert not said(made.problems, "runtime is named")
    assert not said(made.problems, "known runtime")
    assert made.node.profile.runtime.cri == "docker"
    assert made.node.profile.runtime.curve == "linear"


@pytest.mark.parametrize(
    ("release", "known"), [("1.15", True), ("1.23", True), ("1.24", False), ("1.36", False)]
)
def test_docker_ends_with_1_23(release: str, known: bool) -> None:
    assert said(planned(release, "docker-20.10").problems, "has no dockershim") is not known


def test_what_is_taken_of_cri_dockerd_is_said() -> None:
    """Minikube's nodes: cri-dockerd reports docker://, with releases that have no dockershim."""
    for hierarchy in ("v1", "v2"):
        rows = planned("1.28", "docker://24.0.7", hierarchy).problems
        (row,) = [row for row in rows if "cri-dockerd" in row.message]
        assert row.severity == "info"
        assert not said(rows, "does not support cgroup v2")


@pytest.mark.parametrize(("hierarchy", "wrong"), [("v1", False), ("v2", True)])
def test_docker_is_never_on_v2(hierarchy: str, wrong: bool) -> None:
    rows = planned("1.22", "docker-20.10", hierarchy).problems
    assert said(rows, "dockershim does not support cgroup v2") is wrong


@pytest.mark.parametrize(
    ("name", "unified"),
    [
        *[(name, False) for name in DOCKER],
        ("runc-1.0.0-rc92", False), ("runc-1.0.0-rc93", True), ("runc-1.0.0-rc10", False),
        ("runc-1.0-rc10", False), ("runc-1.0.0", True), ("runc-1.1.5", True), ("runc-0.1", False),
        ("crun-0.10", False), ("crun-0.14.1", False), ("crun-0.15", True), ("crun-1.21", True), ("runc", True),
    ],
)  # fmt: skip
def test_the_unified_map(name: str, unified: bool) -> None:
    assert runtime_of(name).unified is unified
    rows = planned("1.23", name, "v2", feature_gates="MemoryQoS=true").problems
    assert said(rows, "ignores the unified map") is not unified
    made = qoslet.convert({"unified": {"memory.min": "4096"}}, "v2", source="oci", runtime=name)
    assert any(row.file == "memory.min" for row in made.parts[0].rows) is unified
    assert any(row.field == "unified" for row in made.parts[0].lost) is not unified


def test_a_scope_of_docker() -> None:
    from qoslet.core.cgroup.names import cgroups_path, container_leaf

    assert container_leaf("docker", "a", True) == "docker-a.scope"
    assert container_leaf("docker", "a", False) == "a"
    assert cgroups_path("docker", "/x/y.slice", "a") == "y.slice:docker:a"


def test_no_swap_and_no_huge_pages_through_docker() -> None:
    message = {
        "linux": {
            "resources": {
                "memory_limit_in_bytes": 1 << 20,
                "hugepage_limits": [{"page_size": "2MB", "limit": 5}],
            }
        }
    }
    made = qoslet.convert(message, "v1", runtime="docker-19.03", source="cri")
    files = {row.file: row.value for row in made.parts[0].rows}
    assert files == {
        "memory.limit_in_bytes": "1048576", "memory.memsw.limit_in_bytes": "1048576",
    }  # fmt: skip
    assert [row.field for row in made.parts[0].lost] == ["hugepage_limits"]


@pytest.mark.parametrize(("release", "told"), [("1.15", True), ("1.23", True), ("1.36", False)])
def test_an_old_release_without_a_runtime_is_told(release: str, told: bool) -> None:
    assert said(planned(release).problems, "no runtime is named") is told
    assert not said(planned(release, "runc-1.1").problems, "no runtime is named")


WINDOWS = {"cpu_maximum": 50, "memory_limit_in_bytes": 1 << 20, "cpu_shares": 7}


@pytest.mark.parametrize(
    ("runtime", "cpu"),
    [
        ("dockershim-1.17", {"CpuPercent": 50}),
        ("dockershim-1.18", {"NanoCpus": 40_000_000}),  # 50 of 10000 of 8 processors: 0.04 CPUs
        ("docker-20.10", {"NanoCpus": 40_000_000}),
    ],
)
def test_host_config(runtime: str, cpu: dict[str, int]) -> None:
    made = qoslet.convert(WINDOWS, "docker", runtime=runtime, processors=8)
    assert made.parts[0].message == {"CpuShares": 7, "Memory": 1 << 20, **cpu}
    assert qoslet.to_dict(made)["to"] == "docker"


def test_dockershim_refuses_percents_above_100() -> None:
    for to in ("docker", "windows"):
        made = qoslet.convert(
            {"cpu_maximum": 7500}, to, runtime="dockershim-1.17", isolation="hyperv"
        )
        refusal = made.parts[0].refusal
        assert refusal is not None
        assert refusal.rule == "refused.windows.percent"
    assert qoslet.convert({"cpu_maximum": 7500}, "windows", runtime="dockershim-1.18").is_valid


def test_host_config_of_linux() -> None:
    message = {
        "linux": {
            "resources": {"cpu_quota": 5000, "memory_limit_in_bytes": 4096, "unified": {"a.b": "1"}}
        }
    }
    part = qoslet.convert(message, "docker", source="cri").parts[0]
    assert part.message == {"CpuQuota": 5000, "Memory": 4096, "MemorySwap": 4096}
    assert [row.field for row in part.lost] == ["unified"]


@pytest.mark.parametrize(
    ("release", "config"),
    [
        ("1.15", None),  # 2500 of 10000 is no percent
        ("1.20", {"NanoCpus": 1_000_000_000, "Memory": 1 << 30}),
        ("1.9", {}),
    ],
)
def test_host_config_of_a_pod(release: str, config: dict[str, int] | None) -> None:
    own = {"apiVersion": "qoslet/v1", "kind": "Node", "os": "windows", "kubernetes": release,
           "capacity": {"cpu": "4", "memory": "8Gi"}}  # fmt: skip
    node = node_from([("node.yaml", own)], Flags(), Probed)[0]
    [part] = qoslet.convert(POD, "docker", node=node).parts
    assert part.message == config
    assert (part.refusal is None) is (config is not None)
