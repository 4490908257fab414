"""A kubelet 1.36.2 beside containerd 1.6.20 on cgroup v1, recorded on 2026-11-23: what its files make
is what it answers at /configz, and its pods plan as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from qoslet.app.node.found_node import FoundNode, KubeletOptions, find_node
from qoslet.core.api.manifest import Options
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node
from qoslet.host.kubelet.configuration import configuration
from qoslet.host.kubelet.processes import kubelet_processes
from tests.host.kubelet.fake_node import CERTIFICATES, declare, kubelet_port
from tests.paths import DATA

RECORDED = DATA / "kubelet" / "node-1.36.2"
CONFIGZ = json.loads((RECORDED / "configz.json").read_text())["kubeletconfig"]


def declared(machine: Path, *more: str) -> None:
    """The process as it was, with its files and the certificate of the tests."""
    arguments = (RECORDED / "cmdline.txt").read_text().splitlines()[1:]
    root = RECORDED / "root"
    files = {
        f"/{one.relative_to(root)}": one.read_text() for one in root.rglob("*") if one.is_file()
    }
    files["/srv/kubelet/pki/kubelet.crt"] = (CERTIFICATES / "self-signed.pem").read_text()
    declare(machine, *arguments, *more, files=files, cwd="srv/kubelet")


def leaves(document: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its dotted field."""
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value


def test_flags_drop_ins_and_file_make_what_the_kubelet_answers(tmp_path: Path) -> None:
    declared(tmp_path)
    (process,), _ = kubelet_processes(str(tmp_path))
    read = configuration(process).effective
    assert read is not None
    made, answered = dict(leaves(read.document)), dict(leaves(CONFIGZ))
    assert made.items() <= answered.items()
    # what is made is whole: a reservation or threshold that /configz has is not left out
    for section in ("kubeReserved", "systemReserved", "evictionHard", "featureGates"):
        assert read.document[section] == CONFIGZ[section]


@pytest.fixture
def found(tmp_path: Path) -> Iterator[FoundNode]:
    pages = {
        "/configz": (RECORDED / "configz.json").read_bytes(),
        "/pods": (RECORDED / "pods.json").read_bytes(),
        "/metrics": (RECORDED / "metrics.txt").read_bytes(),
    }
    with kubelet_port(pages, "self-signed.pem") as (number, _):
        declared(tmp_path, f"--port={number}", "--read-only-port=0")
        yield find_node(KubeletOptions(root=str(tmp_path)))


def test_the_live_node_is_planned(found: FoundNode) -> None:
    """The values are those that its cgroups had."""
    assert [row.state for row in found.notes] == [*["ok"] * 4, "unknown"]
    assert found.notes[-1].value == "unix:///srv/kubelet/cd.sock is not there"
    assert found.name == "n1"
    assert found.pods is not None
    machine = b"{apiVersion: qoslet/v1, kind: Node, capacity: {cpu: 2, memory: 24684096Ki, pid: 32768}, host: {hierarchy: v1}}"
    node, _ = load_node((), Flags(), texts=[*found.texts(), ("machine", machine)])
    made = plan(load_text(found.pods[1], Options(node_name=node.name)).pods, node)
    assert made.is_valid
    assert node.profile.kubernetes == "1.36"
    rows = {f"{one.name}/{row.file}": row.value for one in made.cgroups for row in one.settings}
    root = "/q-kubelet/kubepods"
    pod = f"{root}/podfd1d00f5b51c84af5cbccf6e082e93bb"
    assert rows[f"{root}/cpu.shares"] == "1792"
    assert rows[f"{root}/memory.limit_in_bytes"] == str((24684096 - 510 * 1024) * 1024)
    assert rows[f"{root}/pids.max"] == "31768"
    assert rows[f"{root}/burstable/cpu.shares"] == "163"
    assert rows[f"{pod}/cpu.cfs_quota_us"] == "55000"
    assert rows[f"{pod}/pids.max"] == "100"
    assert rows[f"{pod}/a/memory.limit_in_bytes"] == "67108864"
    assert all(one.path for one in made.cgroups if one.level == "container")
