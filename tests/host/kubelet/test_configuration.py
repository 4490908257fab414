"""A kubelet's process, and the files that its command line names."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from qoslet.host.kubelet.configuration import Configuration, configuration
from qoslet.host.kubelet.processes import (
    KubeletProcess,
    age_seconds,
    has_exited,
    kubelet_processes,
)
from tests.host.kubelet.fake_node import HEAD, declare


def found(machine: Path) -> Configuration:
    (process,), _ = kubelet_processes(str(machine))
    return configuration(process)


def fields(machine: Path) -> dict[str, object]:
    read = found(machine)
    assert read.fault is None
    assert read.effective is not None
    return dict(read.effective.document)


def test_a_kubelet_is_found_by_its_process(tmp_path: Path) -> None:
    declare(tmp_path, "--config=/a", pid=7)
    declare(tmp_path, "x", comm="bash", pid=8)
    (one,), others = kubelet_processes(str(tmp_path))
    assert (one.pid, one.name, one.arguments) == (7, "kubelet", ("--config=/a",))
    assert not others


def test_a_kubelet_whose_program_has_another_name_is_named(tmp_path: Path) -> None:
    declare(tmp_path, "--config=/a", comm="/opt/kubelet-1.36", pid=7)
    declare(tmp_path, "kubelet", comm="bash", pid=8)
    assert kubelet_processes(str(tmp_path)) == ([], [])
    (one,), _ = kubelet_processes(str(tmp_path), 7)
    assert (one.pid, one.name, one.arguments) == (7, "kubelet", ("--config=/a",))
    for other in (8, 9):
        assert kubelet_processes(str(tmp_path), other) == ([], [])


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file of another user")
def test_a_process_of_another_user_decides_nothing(tmp_path: Path) -> None:
    declare(tmp_path, "--config=/a", pid=7)
    os.chown(tmp_path / "proc/7", 12345, 12345)
    assert kubelet_processes(str(tmp_path)) == ([], [7])


def test_a_process_that_ended_is_none(tmp_path: Path) -> None:
    declare(tmp_path, pid=7)
    (one,), _ = kubelet_processes(str(tmp_path))
    assert not has_exited(one)
    (tmp_path / "proc/7/cmdline").write_bytes(b"")
    assert kubelet_processes(str(tmp_path)) == ([], [])
    assert has_exited(one)


def test_drop_ins_are_taken_in_the_order_of_their_paths(tmp_path: Path) -> None:
    """Only ``.conf`` files, those of subdirectories where the directory's name stands."""
    drop_ins = {
        "/etc/d/20.conf": "{maxPods: 20, podPidsLimit: 20}",
        "/etc/d/10.conf": "{maxPods: 10, podPidsLimit: 10, containerLogMaxFiles: 10}",
        "/etc/d/15/z.conf": "{podPidsLimit: 15, containerLogMaxFiles: 15}",
        "/etc/d/99.yaml": "{maxPods: 99}",
        "/etc/d/99.conf.bak": "{maxPods: 98}",
    }
    files = {
        path: HEAD + text.strip("{}").replace(", ", "\n") + "\n" for path, text in drop_ins.items()
    }
    files["/etc/k.yaml"] = HEAD + "maxPods: 1\ncgroupRoot: /k\n"
    declare(tmp_path, "--config=/etc/k.yaml", "--config-dir=/etc/d", files=files)
    got = fields(tmp_path)
    assert (got["maxPods"], got["podPidsLimit"], got["containerLogMaxFiles"]) == (20, 20, 15)
    assert got["cgroupRoot"] == "/k"
    assert found(tmp_path).files == (
        "/etc/k.yaml",
        "/etc/d/10.conf",
        "/etc/d/15/z.conf",
        "/etc/d/20.conf",
    )


def test_a_link_to_a_directory_of_drop_ins_is_not_entered(tmp_path: Path) -> None:
    files = {"/etc/other/9.conf": HEAD + "maxPods: 9\n", "/etc/d/1.conf": HEAD + "maxPods: 1\n"}
    root = declare(tmp_path, "--config-dir=/etc/d", files=files)
    (root / "etc/d/5").symlink_to("/etc/other")
    assert fields(tmp_path)["maxPods"] == 1


def test_a_relative_path_is_from_the_working_directory(tmp_path: Path) -> None:
    files = {
        "/run/work/k.yaml": HEAD
        + "staticPodPath: pods\nauthentication: {x509: {clientCAFile: ca.crt}}\n"
    }
    declare(tmp_path, "--config", "k.yaml", files=files)
    got = fields(tmp_path)
    assert got["staticPodPath"] == "/run/work/pods"
    assert got["authentication"] == {"x509": {"clientCAFile": "/run/work/ca.crt"}}


def test_nothing_outside_the_process_s_root_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(HEAD + "maxPods: 666\n")
    root = declare(tmp_path, "--config=/../../secret.yaml", pid=1)
    assert found(tmp_path).effective is None
    (root / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (tmp_path / "proc/1/cmdline").write_bytes(b"kubelet\0--config=/link.yaml\0")
    read = found(tmp_path)
    assert read.fault is not None
    assert str(read.fault) == "/link.yaml: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "etc/k.yaml"),
        ("kind: Pod\napiVersion: v1\n", "is not a KubeletConfiguration"),
        ("- 1\n", "must be an object"),
        ("", "contains no document"),
        (HEAD.replace("v1beta1", "v1"), "has another apiVersion"),
        ("x" * ((3 << 20) + 1), "is more than 3 MiB"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str, message: str) -> None:
    declare(tmp_path, "--config=/etc/k.yaml", files={"/etc/k.yaml": text})
    read = found(tmp_path)
    assert read.effective is None
    assert message in str(read.fault)
    assert "\n" not in str(read.fault)


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    root = declare(tmp_path, "--config=/fifo")
    os.mkfifo(root / "fifo")
    assert found(tmp_path).effective is None


def test_the_lines_of_microk8s_are_flags(tmp_path: Path) -> None:
    lines = "# comment\n--kube-reserved=cpu=1\n--root-dir=${SNAP_COMMON}/var/lib/kubelet\n--max-pods 7\n\n"
    path = "/var/snap/microk8s/9/args/kubelet"
    declare(tmp_path, f"--kubelet-args-file={path}", files={path: lines}, comm="kubelite")
    got = fields(tmp_path)
    assert (got["kubeReserved"], got["maxPods"]) == ({"cpu": "1"}, 7)
    assert found(tmp_path).command.path("root-dir") == "/var/snap/microk8s/common/var/lib/kubelet"


def test_microshift_writes_a_file(tmp_path: Path) -> None:
    path = "/var/lib/microshift/resources/kubelet/config/config.yaml"
    declare(tmp_path, "run", files={path: f"{HEAD}maxPods: 250\n"}, comm="microshift")
    assert fields(tmp_path)["maxPods"] == 250


def test_hyperkube_has_the_flags_behind_its_command(tmp_path: Path) -> None:
    declare(tmp_path, "kubelet", "--max-pods=7", comm="hyperkube")
    declare(tmp_path, "kube-proxy", "--max-pods=8", comm="hyperkube", pid=813)
    assert fields(tmp_path)["maxPods"] == 7


def test_k3s_has_a_file_and_drop_ins(tmp_path: Path) -> None:
    files = {
        "/etc/rancher/k3s/config.yaml": "kubelet-arg:\n- max-pods=7\n- kube-reserved=cpu=1\nnode-name: N1\n",
        "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf": HEAD
        + "cgroupDriver: systemd\n",
    }
    declare(tmp_path, "server", files=files, comm="k3s-server")
    got = fields(tmp_path)
    assert (got["maxPods"], got["kubeReserved"], got["cgroupDriver"]) == (
        7,
        {"cpu": "1"},
        "systemd",
    )
    assert got["readOnlyPort"] == 0
    assert found(tmp_path).command.path("hostname-override") == "N1"
    assert got["containerRuntimeEndpoint"] == "unix:///run/k3s/containerd/containerd.sock"


def test_k3s_has_drop_ins_of_its_own_file_and_other_runtimes(tmp_path: Path) -> None:
    folder = "/etc/rancher/k3s/config.yaml.d"
    files = {
        "/etc/rancher/k3s/config.yaml": "kubelet-arg: max-pods=7\nnode-name: n1\n",
        f"{folder}/10.yaml": "kubelet-arg+: [pod-max-pids=9]\nnode-name: n2\n",
        f"{folder}/20.yml": "container-runtime-endpoint: /run/containerd/containerd.sock\n",
        f"{folder}/30.yaml.old": "node-name: n3\n",
    }
    declare(tmp_path, "agent", files=files, comm="k3s-agent")
    got = fields(tmp_path)
    assert (got["maxPods"], got["podPidsLimit"]) == (7, 9)
    assert found(tmp_path).command.path("hostname-override") == "n2"
    assert got["containerRuntimeEndpoint"] == "unix:///run/containerd/containerd.sock"


def test_k3s_with_docker(tmp_path: Path) -> None:
    declare(tmp_path, files={"/etc/rancher/k3s/config.yaml": "docker: true\n"}, comm="k3s-server")
    socket = "unix:///run/k3s/cri-dockerd/cri-dockerd.sock"
    assert fields(tmp_path)["containerRuntimeEndpoint"] == socket


def test_the_age_of_a_process(tmp_path: Path) -> None:
    own = age_seconds(KubeletProcess(os.getpid(), "kubelet", "/proc/self", ()))
    first = age_seconds(KubeletProcess(1, "kubelet", "/proc/1", ()))
    assert own is not None
    assert first is not None
    assert -1 < own <= first
    assert age_seconds(KubeletProcess(1, "kubelet", str(tmp_path), ())) is None


@pytest.mark.parametrize(("seconds", "changed"), [(-60, ""), (60, "/etc/k.yaml")])
def test_a_file_that_is_younger_than_its_kubelet_is_named(
    tmp_path: Path, seconds: int, changed: str
) -> None:
    root = declare(tmp_path, "--config=/etc/k.yaml", files={"/etc/k.yaml": HEAD})
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    ticks = int(uptime * os.sysconf("SC_CLK_TCK"))
    # it starts now: field 22 is the time since boot
    (tmp_path / "proc/812/stat").write_text(f"812 (kube let) S {'0 ' * 18}{ticks} 0\n")
    now = time.time()
    os.utime(root / "etc/k.yaml", (now + seconds, now + seconds))
    assert found(tmp_path).changed == changed
