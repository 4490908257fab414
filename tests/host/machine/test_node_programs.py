"""Who else is on a declared machine, and what doctor says of it."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qoslet.core.node.doctor.checks import findings
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.machine import Machine, NodeProgram, OciProgram
from qoslet.host.machine.node_programs import device_bpf, oci_programs
from qoslet.host.state.agents import where_else
from qoslet.host.state.resume import lock_root
from tests.host.machine.test_doctor_facts import V2, machine

BUSY = {
    **V2,
    "proc/800/comm": "kubelet\n",
    "proc/800/cmdline": "",  # it has ended, and its parent does not look
    "proc/812/comm": "kubelet\n",
    "proc/700/comm": "containerd\n",
    "proc/701/comm": "containerd-shim\n",
    "run/containerd/containerd.sock": "",
    "run/crio/crio.sock": "",
    "sys/fs/cgroup/kubepods.slice/cgroup.procs": "",
    "sys/fs/cgroup/system.slice/cgroup.procs": "",
    "var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
    "sys/block/vda/queue/scheduler": "none [bfq]\n",
    "sys/block/vdb/queue/scheduler": "[none] bfq\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "boot/config-6.12.1": "CONFIG_CGROUPS=y\nCONFIG_CGROUP_BPF=y\n",
    "proc/self/ns/cgroup": "",
}


def rows(found: Machine) -> dict[str, list[DoctorFinding]]:
    made: dict[str, list[DoctorFinding]] = {}
    for row in findings(found):
        made.setdefault(row.topic, []).append(row)
    return made


def test_a_node_with_a_kubelet_and_runtimes(tmp_path: Path) -> None:
    found = machine(tmp_path, BUSY)
    assert found.programs == (
        NodeProgram("runtime", "containerd", 700, "/run/containerd/containerd.sock", True),
        NodeProgram("kubelet", "kubelet", 812),
        NodeProgram("runtime", "CRI-O", None, "/run/crio/crio.sock", True),
    )
    said = rows(found)
    (kubelet,) = said["kubelet"]
    assert kubelet.value == "kubelet (process 812); its pods are in /kubepods.slice"
    assert "leave these cgroups alone" in kubelet.cost
    assert "/var/lib/kubelet/config.yaml" in kubelet.remedy
    assert [row.value for row in said["container runtime"]] == [
        "containerd, process 700, /run/containerd/containerd.sock",
        "CRI-O, no process seen, /run/crio/crio.sock",
    ]
    assert said["BFQ"][0].value == "schedules vda"
    assert said["controller io"][0].state == "ok"
    assert said["device rules"][0].value == "eBPF (CONFIG_CGROUP_BPF)"
    assert said["cgroup namespaces"][0].state == "ok"
    assert said["qoslet agents"][0].value == "none found"


def test_a_machine_of_its_own(tmp_path: Path) -> None:
    said = rows(machine(tmp_path, V2))
    for topic in ("kubelet", "container runtime", "qoslet agents"):
        assert [(row.state, row.value) for row in said[topic]] == [("ok", "none found")]
    assert said["BFQ" if "BFQ" in said else "controller io"][0].state in ("missing", "unknown")


def test_a_tree_without_its_kubelet_is_named(tmp_path: Path) -> None:
    files = {name: text for name, text in BUSY.items() if name != "proc/812/comm"}
    assert rows(machine(tmp_path, files))["kubelet"][0].value.startswith("not running; its pods")


def test_agents_are_listed_by_their_sockets(tmp_path: Path) -> None:
    state = tmp_path / "run" / "qoslet"
    (state / "dead").mkdir(parents=True)
    with listening(state / "mine%2Fdeep"):
        (said,) = rows(machine(tmp_path, V2))["qoslet agents"]
        assert (said.value, said.remedy) == ("--cgroup-root /mine/deep", "")
        with listening(state / "own%2Fkubepods"):
            (said,) = rows(machine(tmp_path, V2))["qoslet agents"]
    assert said.value == "--cgroup-root /mine/deep; beside a kubelet at /own/kubepods"
    assert said.remedy == "what it does: qoslet agent --status"


def test_an_agent_that_starts_is_listed(tmp_path: Path) -> None:
    state = tmp_path / "run" / "qoslet"
    state.mkdir(parents=True)
    journal, _ = lock_root("/early", "v2", state=str(state), verb="run")
    (state / "early" / "cri" / "u").mkdir(parents=True)
    try:
        said = rows(machine(tmp_path, V2))
    finally:
        journal.close(gone=False)
    assert said["qoslet agents"][0].value == "starting or ending at /early"
    assert "qoslet pods" not in said


def test_pods_that_an_agent_left_are_said(tmp_path: Path) -> None:
    state = tmp_path / "run" / "qoslet"
    (state / "empty" / "keeper").mkdir(parents=True)
    (state / "deep%2Fleft" / "cri" / "u").mkdir(parents=True)
    (state / "one.slice%2Fone-a_b.slice" / "keeper" / "u").mkdir(parents=True)
    with listening(state / "kept"):
        (state / "kept" / "keeper" / "u").mkdir(parents=True)
        said = rows(machine(tmp_path, V2))
    assert said["qoslet agents"][0].value == "--cgroup-root /kept"
    (left,) = said["qoslet pods"]
    assert (left.state, left.value) == (
        "missing",
        "no agent has those of --cgroup-root /deep/left, /one/a-b",
    )
    assert where_else(0, str(state)) == (
        "pods of an agent that ended have --cgroup-root /deep/left or /kept or /one/a-b: "
        "qoslet run --keep goes on with them, qoslet release ends them"
    ), "the other agent has ended now"


@contextmanager
def listening(folder: Path) -> Iterator[None]:
    """The socket of an agent, while the context lasts."""
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        here = os.open(folder, os.O_PATH)
        listener.bind(f"/proc/self/fd/{here}/agent.sock")
        os.close(here)
        listener.listen()
        yield


def test_what_rights_hide_is_unknown() -> None:
    from msgspec.structs import replace

    from qoslet.host.machine.doctor_facts import look

    bare = look("/nowhere")
    hidden = replace(
        bare, agents=None, programs=(NodeProgram("runtime", "containerd", 7, "/s", False),)
    )
    said = rows(hidden)
    assert said["qoslet agents"][0].remedy == "use sudo"
    assert (said["container runtime"][0].state, said["container runtime"][0].remedy) == (
        "unknown",
        "run as root",
    )


@pytest.mark.parametrize(
    ("name", "version", "state"),
    [
        ("runc", "1.0.0", "ok"),
        ("runc", "0.1.1", "missing"),
        ("crun", "0.15", "ok"),
        ("crun", "0.14.1", "missing"),
        ("crun", "1.28", "ok"),
        ("runc", "", "unknown"),
    ],
)
def test_the_unified_map(name: str, version: str, state: str) -> None:
    """Source: runc 1.0.0-rc93 release notes, pull 2584; crun pull 459."""
    from msgspec.structs import replace

    from qoslet.host.machine.doctor_facts import look

    found = replace(look("/nowhere"), oci_programs=(OciProgram(name, version),))
    assert [row.state for row in rows(found)["OCI runtime"]] == [state]


@pytest.mark.parametrize(
    ("release", "state"),
    [
        ("4.19.0-amd64", "missing"),
        ("5.7.1", "missing"),
        ("5.15.0-91", "ok"),
        ("6.12.1", "ok"),
        ("weird", "unknown"),
    ],
)
def test_the_kernel_is_judged(tmp_path: Path, release: str, state: str) -> None:
    found = machine(tmp_path, {**V2, "proc/sys/kernel/osrelease": f"{release}\n"})
    (row,) = rows(found)["kernel"]
    assert (row.state, row.value.split(",")[0]) == (state, release)
    if state == "missing":
        assert row.remedy == "use Linux 5.19 or later"


def test_the_configuration_of_a_kernel(tmp_path: Path) -> None:
    assert device_bpf(str(tmp_path), "1.0") is None
    (tmp_path / "proc").mkdir()
    packed = tmp_path / "proc" / "config.gz"
    packed.write_bytes(gzip.compress(b"CONFIG_X=y\nCONFIG_CGROUP_BPF=y\n"))
    assert device_bpf(str(tmp_path), "1.0") is True
    packed.write_bytes(gzip.compress(b"# CONFIG_CGROUP_BPF is not set\n"))
    assert device_bpf(str(tmp_path), "1.0") is False
    packed.write_bytes(b"torn")
    assert device_bpf(str(tmp_path), "1.0") is None


def test_programs_of_this_machine_are_asked_for_their_versions() -> None:
    for one in oci_programs():
        assert one.name in ("runc", "crun")
        assert one.version == "" or one.version[0].isdigit()
