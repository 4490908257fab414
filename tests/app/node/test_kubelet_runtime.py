"""The runtime of a live kubelet: its version, container IDs that statuses lack, and static pods where
the kubelet does not answer."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from qoslet.app.node.found_node import FoundNode, KubeletOptions, find_node, kubelet_fields
from qoslet.errors import CannotDo
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.kubelet import cri_containers
from qoslet.host.kubelet.answers import KubeletAnswer
from qoslet.host.kubelet.client import AnswerTimes
from qoslet.host.kubelet.configuration import configuration
from qoslet.host.kubelet.processes import kubelet_processes
from tests.host.cri.server import CriServer
from tests.host.kubelet.fake_node import HEAD, METRICS, declare, kubelet_port, pods

UID = "io.kubernetes.pod.uid"
ID = "a" * 64
CLOCK = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CriServer]:
    with CriServer(tmp_path, "containerd", "v2.2.0") as made:
        yield made


def box(server: CriServer, name: str, uid: str, *, ready: bool = True) -> None:
    state = pb.SANDBOX_READY if ready else pb.SANDBOX_NOTREADY
    metadata = pb.PodSandboxMetadata(name=name, uid=uid, namespace="default")
    made = pb.PodSandbox(id=f"box-{uid}", metadata=metadata, state=state, labels={UID: uid})
    server.boxes[made.id] = made


def container(
    server: CriServer, id: str, uid: str, name: str, at: int, *, running: bool = True
) -> None:
    labels = {UID: uid, "io.kubernetes.container.name": name}
    server.containers[id] = pb.ContainerStatus(
        id=id,
        metadata=pb.ContainerMetadata(name=name),
        state=pb.CONTAINER_RUNNING if running else pb.CONTAINER_EXITED,
        created_at=at,
        labels=labels,
    )
    server.owners[id] = f"box-{uid}"


def look(
    machine: Path,
    server: CriServer,
    config: str,
    files: Mapping[str, str] | None = None,
    age: int | None = None,
) -> FoundNode:
    text = f"{HEAD}port: 1\ncontainerRuntimeEndpoint: {server.endpoint}\n{config}"
    declare(
        machine / "m",
        "--config=/k.yaml",
        "--hostname-override=N1",
        files={"/k.yaml": text, **(files or {})},
    )
    if age is not None:
        stat = machine / "m/proc/812/stat"
        ticks = int((float(Path("/proc/uptime").read_text().split()[0]) - age) * CLOCK)
        stat.write_text(f"812 (kubelet) S {'0 ' * 18}{ticks} 0\n")
    return find_node(KubeletOptions(root=str(machine / "m")))


def ids(found: FoundNode) -> dict[str, list[str]]:
    """Pod to the IDs in its statuses."""
    assert found.pods is not None
    items: list[dict[str, Any]] = json.loads(found.pods[1])["items"]
    return {
        one["metadata"]["name"]: [
            row.get("containerID", "") for row in one.get("status", {}).get("containerStatuses", ())
        ]
        for one in items
    }


def note(found: FoundNode, topic: str) -> tuple[str, str]:
    (row,) = [row for row in found.notes if row.topic == topic]
    return row.state, row.value


def test_the_runtime_is_named(tmp_path: Path, server: CriServer) -> None:
    found = look(tmp_path, server, "")
    assert found.documents[-1][1]["runtime"] == "containerd-2.2.0"
    assert note(found, "kubelet runtime") == ("ok", f"containerd-2.2.0 at {server.endpoint}")


def test_a_socket_that_only_the_command_line_names_counts(tmp_path: Path) -> None:
    """As of kubelets before 1.27, whose ``/configz`` has no such field: seen beside 1.25.9."""
    declare(tmp_path, "--container-runtime-endpoint=unix:///run/a.sock")
    read = configuration(kubelet_processes(str(tmp_path))[0][0])
    answers = KubeletAnswer()
    answers.configz = {"maxPods": 7}
    told = {"containerRuntimeEndpoint": "unix:///run/a.sock", "maxPods": 7}
    assert kubelet_fields(read, answers) == told
    answers.configz = {"containerRuntimeEndpoint": "unix:///run/b.sock"}
    assert kubelet_fields(read, answers) == answers.configz


@pytest.mark.parametrize(
    ("options", "state"), [({}, "missing"), ({"SystemdCgroup": True}, "ok")], ids=["none", "set"]
)
def test_a_runtime_without_systemd_below_a_kubelet_with_it_is_told(
    tmp_path: Path, server: CriServer, options: dict[str, bool], state: str
) -> None:
    runc = {"runtimeType": "io.containerd.runc.v2", "options": options}
    server.config = json.dumps({"containerd": {"runtimes": {"runc": runc}}})
    found = look(tmp_path, server, "cgroupDriver: systemd\n")
    (row,) = [row for row in found.notes if row.topic == "kubelet runtime"]
    assert row.state == state
    assert ("SystemdCgroup = true" in row.remedy) == (state == "missing")
    assert look(tmp_path / "other", server, "cgroupDriver: cgroupfs\n").notes[-1].state == "ok"


@pytest.mark.parametrize(("release", "driver"), [("v1.30.1", None), ("v1.33.4", "systemd")])
def test_the_runtime_s_driver_counts_since_131(
    tmp_path: Path, server: CriServer, release: str, driver: str | None
) -> None:
    server.driver = pb.SYSTEMD
    metrics = METRICS.replace(b"v1.33.4", release.encode())
    with kubelet_port({"/pods": pods("a"), "/metrics": metrics}) as (number, _):
        found = look(tmp_path, server, f"readOnlyPort: {number}\n")
    named = [one.get("cgroupDriver") for _, one in found.documents if "cgroupDriver" in one]
    assert named == ([driver] if driver else [])


def test_ids_that_statuses_lack_are_the_runtime_s(tmp_path: Path, server: CriServer) -> None:
    container(server, "b" * 64, "uid-a", "app", 1)
    container(server, ID, "uid-a", "app", 2)
    container(server, "c" * 64, "uid-a", "app", 3, running=False)
    container(server, "d" * 64, "uid-other", "app", 4)
    with kubelet_port({"/pods": pods("a", "b"), "/metrics": METRICS}) as (number, _):
        found = look(tmp_path, server, f"readOnlyPort: {number}\n")
    assert ids(found) == {"a": [f"containerd://{ID}"], "b": []}


@pytest.mark.parametrize("named", [True, False])
def test_a_pod_that_the_kubelet_no_longer_names_has_ended(
    tmp_path: Path, server: CriServer, named: bool
) -> None:
    """Its sandbox stays, not ready, until the kubelet collects it."""
    box(server, "a", "uid-a")
    box(server, "b", "uid-b", ready=False)
    pages = {"/pods": pods("a", "b") if named else pods("a"), "/metrics": METRICS}
    with kubelet_port(pages) as (number, _):
        found = look(tmp_path, server, f"readOnlyPort: {number}\n")
    assert sorted(found.work.running or ()) == ["uid-a", "uid-b"]
    assert list(found.work.ready or ()) == ["uid-a"]
    assert found.work.has_changed is not named


@pytest.mark.parametrize("runs", [True, False])
def test_a_pod_is_not_ready_while_its_status_names_a_container_that_has_ended(
    tmp_path: Path, server: CriServer, runs: bool
) -> None:
    for name in ("a", "b"):
        box(server, name, f"uid-{name}")
    container(server, "c" * 64, "uid-a", "app", 1)
    container(server, ID, "uid-b", "app", 1, running=runs)
    listed = json.loads(pods("a", "b"))
    for pod, id in zip(listed["items"], ("c" * 64, ID), strict=True):
        row = {"name": "app", "containerID": f"containerd://{id}", "state": {"running": {}}}
        ended = {"name": "old", "containerID": "containerd://1", "state": {"terminated": {}}}
        pod["status"] |= {"containerStatuses": [row], "initContainerStatuses": [ended]}
    with kubelet_port({"/pods": json.dumps(listed).encode(), "/metrics": METRICS}) as (number, _):
        found = look(tmp_path, server, f"readOnlyPort: {number}\n")
    assert sorted(found.work.ready or ()) == ["uid-a", "uid-b"][: 1 + runs]


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\nspec: {containers: [{name: app, image: a}]}\n"


def test_static_pods_stand_where_the_kubelet_does_not_answer(
    tmp_path: Path, server: CriServer
) -> None:
    box(server, "etcd-n1", "5" * 32)
    box(server, "gone-n1", "6" * 32, ready=False)
    container(server, ID, "5" * 32, "app", 1)
    files = {"/manifests/etcd.yaml": POD, "/manifests/.hidden": "[", "/manifests/below/x": "["}
    found = look(tmp_path, server, "staticPodPath: /manifests\n", files)
    assert found.name == "N1"
    assert ids(found) == {"etcd-n1": [f"containerd://{ID}"]}
    assert note(found, "kubelet pods")[0] == "ok"
    assert found.pods is not None
    assert json.loads(found.pods[1])["items"][0]["metadata"]["uid"] == "5" * 32


def test_what_has_ended_in_a_static_pod_is_known_from_the_runtime(
    tmp_path: Path, server: CriServer
) -> None:
    """Else its sandbox could be the container that has ended, and none of the pod was compared."""
    box(server, "etcd-n1", "5" * 32)
    container(server, "b" * 64, "5" * 32, "first", 1, running=False)
    container(server, "c" * 64, "5" * 32, "first", 2, running=False)
    container(server, ID, "5" * 32, "app", 3)
    manifest = POD.replace("{containers", "{initContainers: [{name: first, image: a}], containers")
    found = look(
        tmp_path, server, "staticPodPath: /manifests\n", {"/manifests/etcd.yaml": manifest}
    )
    assert found.pods is not None
    (pod,) = json.loads(found.pods[1])["items"]
    ended = {
        "name": "first",
        "containerID": f"containerd://{'c' * 64}",
        "state": {"terminated": {}},
    }
    assert pod["status"]["initContainerStatuses"] == [ended]
    assert ids(found) == {"etcd-n1": [f"containerd://{ID}"]}


@pytest.mark.parametrize(
    ("age", "named", "is_new"),
    [(98, ("web-1",), True), (98, ("etcd-n1",), False), (700, ("web-1",), False), (5, (), True)],
)
def test_a_kubelet_that_has_not_read_its_manifests_is_new(
    tmp_path: Path, server: CriServer, age: int, named: tuple[str, ...], is_new: bool
) -> None:
    # a kubelet 1.36.2 without an API server admitted one static pod each 10 s, the last after 98 s
    with kubelet_port({"/pods": pods(*named), "/metrics": METRICS}) as (number, _):
        config = f"readOnlyPort: {number}\nstaticPodPath: /manifests\n"
        found = look(tmp_path, server, config, {"/manifests/etcd.yaml": POD}, age)
    assert found.work.is_new is is_new


def test_a_sandbox_may_be_older_than_the_kubelet(tmp_path: Path, server: CriServer) -> None:
    box(server, "a", "uid-a")
    box(server, "b", "uid-b")
    server.boxes["box-uid-a"].created_at = int((time.time() - 60) * 1e9)
    server.boxes["box-uid-b"].created_at = int((time.time() - 10) * 1e9)
    with kubelet_port({"/pods": pods("a", "b"), "/metrics": METRICS}) as (number, _):
        found = look(tmp_path, server, f"readOnlyPort: {number}\n", age=30)
    assert found.work.older == frozenset(["uid-a"])


def test_a_pod_of_the_api_server_cannot_be_guessed(tmp_path: Path, server: CriServer) -> None:
    box(server, "etcd-n1", "5" * 32)
    box(server, "web-1", "7" * 32)
    found = look(tmp_path, server, "staticPodPath: /manifests\n", {"/manifests/etcd.yaml": POD})
    assert found.pods is None
    assert note(found, "kubelet pods")[0] == "missing"


@pytest.mark.parametrize(
    "answer",
    [b"\xff\xff\xff", RuntimeError("no")],
)
def test_a_hostile_runtime_is_a_note(
    tmp_path: Path, server: CriServer, answer: bytes | Exception
) -> None:
    server.always["ListContainers"] = answer
    assert note(look(tmp_path, server, ""), "kubelet runtime")[0] == "unknown"


def test_a_runtime_that_is_away_is_a_note(tmp_path: Path) -> None:
    away = CriServer(tmp_path)
    assert note(look(tmp_path, away, ""), "kubelet runtime") == (
        "unknown",
        f"{away.endpoint} is not there",
    )


@pytest.mark.parametrize(
    ("ids", "runtime"),
    [
        (["containerd://1", "containerd://2"], "containerd"),
        (["cri-o://1"], "cri-o"),
        (["containerd://1", "cri-o://2"], None),
        (["docker://1"], None),
        (["", "1"], None),
    ],
)
def test_a_runtime_that_does_not_answer_is_the_one_of_the_containers_ids(
    tmp_path: Path, ids: list[str], runtime: str | None
) -> None:
    # beside a kubelet 1.36.2 whose containerd did not answer within 10 s: scopes were looked for as runc's
    listed = json.loads(pods("a"))
    listed["items"][0]["status"]["containerStatuses"] = [{"containerID": id} for id in ids]
    with kubelet_port({"/pods": json.dumps(listed).encode(), "/metrics": METRICS}) as (number, _):
        found = look(tmp_path, CriServer(tmp_path), f"readOnlyPort: {number}\n")
    assert found.documents[-1][1].get("runtime") == runtime


def test_a_socket_where_nobody_listens_is_a_note(tmp_path: Path) -> None:
    away = CriServer(tmp_path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{tmp_path}/cri.sock")
    listener.close()
    state, value = note(look(tmp_path, away, ""), "kubelet runtime")
    assert state == "unknown"
    assert value.startswith(f"{away.endpoint}: the container runtime does not answer")


def test_a_runtime_of_unknown_version_is_no_fault(tmp_path: Path, server: CriServer) -> None:
    server.name, server.version = "mine", "0.1"
    found = look(tmp_path, server, "")
    assert note(found, "kubelet runtime") == (
        "unknown",
        f"mine-0.1 at {server.endpoint} is not a known version",
    )
    assert "runtime" not in found.documents[-1][1]


def test_an_endpoint_that_is_no_socket_is_a_note(tmp_path: Path) -> None:
    text = f"{HEAD}port: 1\ncontainerRuntimeEndpoint: tcp://127.0.0.1:1\n"
    declare(tmp_path, "--config=/k.yaml", files={"/k.yaml": text})
    found = find_node(KubeletOptions(root=str(tmp_path)))
    assert note(found, "kubelet runtime") == ("unknown", "tcp://127.0.0.1:1 is not a unix socket")


def test_a_runtime_that_is_silent_costs_its_time_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit asks up to three times: 31 s went by while containerd was stopped."""
    monkeypatch.setattr(cri_containers, "_TIMES", AnswerTimes(3.0))
    took = []
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path := str(tmp_path / "silent.sock"))
        silent.listen()
        for _ in range(2):
            begun = time.monotonic()
            with pytest.raises(CannotDo, match="does not answer in time"):
                cri_containers.look(f"unix://{path}")
            took.append(time.monotonic() - begun)
    assert took[1] < 2.5 < took[0]


def test_a_gate_that_nobody_knows_is_not_read_from_the_files_of_a_kubelet_that_runs(
    tmp_path: Path,
) -> None:
    text = f"{HEAD}port: 1\nfeatureGates: {{AdminNetworkPolicy: true, MemoryQoS: true}}\n"
    declare(tmp_path, "--config=/k.yaml", files={"/k.yaml": text})
    found = find_node(KubeletOptions(root=str(tmp_path)))
    gates = [one["featureGates"] for _, one in found.documents if "featureGates" in one]
    assert gates == [{"MemoryQoS": True}]
