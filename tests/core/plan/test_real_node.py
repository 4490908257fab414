"""Documents of a real one-node cluster, against the values that stood in its kernel."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Options
from qoslet.core.node.resolve import Flags
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.versions.runtime import runtime_of
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from tests.paths import SAMPLES


def _kernel() -> dict[str, dict[str, str]]:
    found = {}
    for line in (SAMPLES / "cgroups-v1.txt").read_text().splitlines():
        path, *files = line.split(" PROCS=")[0].split()
        found[path] = dict(file.split("=", 1) for file in files if "=" in file)
    return found


def _plan(pods: str) -> Plan:
    documents = [str(SAMPLES / "kubelet-config.yaml"), str(SAMPLES / "nodes.json")]
    node, problems = node_files.load_node(documents, Flags())
    loaded = manifests.load([str(SAMPLES / pods)], Options(node_name=node.name))
    return plan(loaded.pods, node, problems)


@pytest.mark.parametrize("pods", ["pods.json", "pods.yaml", "kubelet-pods.json", "nodes-pods.json"])
def test_values_stood_in_the_kernel(pods: str) -> None:
    kernel, compared = _kernel(), 0
    for group in _plan(pods).cgroups:
        if group.path not in kernel:
            ended = group.role == "init"
            assert ended or group.level == "sandbox", group.name
            continue
        for row in group.settings:
            if row.file in kernel[group.path]:
                assert kernel[group.path][row.file] == row.applied, (group.path, row.because)
                compared += 1
    assert compared >= 60


def test_every_pod_group_of_the_kernel_is_planned() -> None:
    planned = {group.path for group in _plan("pods.json").cgroups}
    stood = {path for path in _kernel() if path.rsplit("/", 1)[-1].startswith("pod")}
    assert stood <= planned


@pytest.mark.parametrize(
    ("runtime", "parent"), [("containerd-1.6.20+runc-1.1.5", "/k8s.io"), ("runc-1.1.5", "/custom")]
)
def test_containerd_has_its_own_place_for_containers_without_a_pods_cgroup(
    runtime: str, parent: str
) -> None:
    # of a kubelet 1.36.2 with cgroupsPerQOS false and cgroupRoot /custom
    node = node_files.load_node([str(SAMPLES / "kubelet-config.yaml")], Flags())[0]
    kubelet = replace(node.kubelet, cgroups_per_qos=False, cgroup_root="/custom")
    profile = replace(node.profile, runtime=runtime_of(runtime))
    node = replace(node, kubelet=kubelet, profile=profile, driver="cgroupfs")
    pods = manifests.load([str(SAMPLES / "kubelet-pods.json")], Options()).pods
    paths = [one.path for one in plan(pods, node).cgroups if one.container and one.container.id]
    assert paths
    assert all(path and path.rpartition("/")[0] == parent for path in paths)
