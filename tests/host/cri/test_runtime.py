"""The CRI runtime against a server of the tests' own: what is asked, what is believed, what comes
of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.workload.container_spec import PodMessages
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo
from qoslet.host.cri import validation
from qoslet.host.cri.engine import CriSettings
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.runtime import CriRuntime, read_facts
from qoslet.host.cri.validation import BadMessage, parsed
from tests.core.workload.test_process_spec import pod_of
from tests.host.cri.server import CriServer
from tests.paths import REPO

PARENT = "/qoslet/kubepods/poduid"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CriServer]:
    with CriServer(tmp_path) as made:
        yield made


@pytest.fixture
def crio(tmp_path: Path) -> Iterator[CriServer]:
    made = CriServer(tmp_path, "cri-o", "1.34.1")
    made.driver = pb.CGROUPFS
    with made:
        yield made


class Hand:
    """A runtime in a test's hand."""

    def __init__(self, server: CriServer, folder: Path, **more: Any) -> None:
        self.server = server
        self.setting = CriSettings(
            "/qoslet",
            str(folder / "cri"),
            str(folder / "logs"),
            backoff=Backoff(0.01, 0.05),
            poll_seconds=0.1,
            **more,
        )
        self.runtime = CriRuntime(server.endpoint, read_facts(server.endpoint), self.setting)

    def state(self, name: str) -> ContainerState:
        return next(one for one in self.runtime.poll() if one.name == name)

    def until(self, ready: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, (self.runtime.poll(), self.runtime.notes)
            time.sleep(0.005)

    def running(self, *names: str) -> None:
        wanted = {*names}
        self.until(lambda: wanted <= {one.name for one in self.runtime.poll() if one.running})

    def ends(self) -> None:
        for uid in self.runtime.list_pods():
            self.runtime.stop(uid, 5.0)
        self.until(lambda: all(one.ended for one in self.runtime.list_pods().values()))
        assert not self.server.boxes
        assert not self.server.containers


@pytest.fixture
def hand(server: CriServer, tmp_path: Path) -> Iterator[Hand]:
    made = Hand(server, tmp_path)
    try:
        yield made
    finally:
        made.runtime.close()


def spec_of(
    text: str = "", blocks: dict[str, dict[str, Any]] | None = None, **sent: Any
) -> PodSpec:
    """The containers of a pod document (one container ``app`` by default)."""
    text = text or "{containers: [{name: app, image: 'localhost/app:1'}], hostNetwork: true}"
    document = {"metadata": {"name": "web"}, "spec": yaml.safe_load(text)}
    spec = read_images(replace(pod_of(document), uid="uid"), document)
    assert spec.runnable, spec.problems
    names = [one.name for one in spec.launches]
    messages = PodMessages(PARENT, blocks or {name: {"cpu_shares": 2} for name in names}, **sent)
    return replace(spec, messages=messages)


def field(number: int, wire: int, data: bytes) -> bytes:
    """A field of a message as it stands on the wire."""
    return bytes([number << 3 | wire]) + data


def text(number: int, data: bytes) -> bytes:
    return field(number, 2, bytes([len(data)]) + data)


BAD = [
    (pb.VersionResponse, field(2, 0, b"\x05"), "VersionResponse.runtime_name: is a number"),
    (pb.VersionResponse, text(2, b"\xff\xfe"), "VersionResponse.runtime_name: is not UTF-8"),
    (pb.VersionResponse, field(2, 2, b"\x09ab"), "VersionResponse.runtime_name: 9 bytes announced"),
    (pb.VersionResponse, field(2, 1, b"\0" * 8), "VersionResponse.runtime_name: is 8 bytes"),
    (pb.VersionResponse, field(2, 5, b"\0" * 4), "VersionResponse.runtime_name: is 4 bytes"),
    (pb.VersionResponse, field(2, 3, b""), "VersionResponse.runtime_name: has wire type 3"),
    (pb.VersionResponse, b"\x12", "VersionResponse.runtime_name: the message ends"),
    (pb.VersionResponse, b"\x02\x00", "VersionResponse: a field has the number 0"),
    (pb.VersionResponse, b"\xff" * 11, "VersionResponse: a number beyond 64 bits"),
    (
        pb.RuntimeConfigResponse,
        text(1, field(1, 0, b"\x07")),
        "RuntimeConfigResponse.linux.cgroup_driver: 7 is not a CgroupDriver",
    ),
    (
        pb.ContainerStatusResponse,
        text(1, field(3, 0, b"\x09")),
        "ContainerStatusResponse.status.state: 9 is not a ContainerState",
    ),
    (
        pb.ContainerStatusResponse,
        text(1, field(7, 0, b"\xff\xff\xff\xff\xff\x01")),
        "ContainerStatusResponse.status.exit_code: 68719476735 is beyond 32 bits",
    ),
    (
        pb.ListPodSandboxResponse,
        text(1, text(2, field(4, 0, b"\xff\xff\xff\xff\x7f"))),
        "ListPodSandboxResponse.items.metadata.attempt: 34359738367 is beyond 32 bits",
    ),
    (
        pb.StatusResponse,
        text(1, text(1, field(2, 0, b"\x02"))),
        "StatusResponse.status.conditions.status: 2 is neither true nor false",
    ),
    (
        pb.ListPodSandboxResponse,
        text(1, text(5, text(1, b"\xff"))),
        "items.labels.key: is not UTF-8",
    ),
    (pb.StatusResponse, text(1, b"\x0a"), "StatusResponse.status.conditions: the message ends"),
]


@pytest.mark.parametrize(("kind", "data", "said"), BAD)
def test_a_bad_message_is_an_error_that_names_the_field(kind, data: bytes, said: str) -> None:
    with pytest.raises(BadMessage) as error:
        parsed(kind, data)
    assert said in str(error.value)


def test_a_message_that_is_too_long_names_what_fills_it() -> None:
    answer = pb.ListContainersResponse()
    for _ in range(3):
        answer.containers.add(id="x" * (validation.LONGEST // 2))
    with pytest.raises(BadMessage, match=r"ListContainersResponse\.containers: \d+ bytes, more"):
        parsed(pb.ListContainersResponse, answer.SerializeToString())


def test_what_a_newer_runtime_adds_is_left_out() -> None:
    known = pb.VersionResponse(runtime_name="containerd").SerializeToString()
    assert parsed(pb.VersionResponse, known + text(15, b"new")).runtime_name == "containerd"


@given(st.binary(max_size=200), st.sampled_from(BAD))
def test_any_bytes_are_read_as_protobuf_reads_them_or_refused(data: bytes, case) -> None:
    kind = case[0]
    try:
        made = parsed(kind, data)
    except BadMessage as error:
        said = str(error)
    else:
        said = kind.DESCRIPTOR.name
        assert made == kind.FromString(data)
    assert said.startswith(kind.DESCRIPTOR.name)


@given(st.text(max_size=20), st.integers(0, 2**32 - 1), st.dictionaries(st.text(), st.text()))
def test_every_good_message_is_taken(name: str, attempt: int, labels: dict[str, str]) -> None:
    box = pb.PodSandbox(id=name, created_at=-1, state=pb.SANDBOX_NOTREADY, labels=labels)
    box.metadata.attempt = attempt
    whole = pb.ListPodSandboxResponse(items=[box, box])
    assert parsed(pb.ListPodSandboxResponse, whole.SerializeToString()) == whole


def test_generated_messages_are_those_of_the_proto(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    place = "qoslet/host/cri/pb"
    words = ["-m", "grpc_tools.protoc", "-I", str(REPO / "src"), f"--python_out={tmp_path}"]
    words += [f"--pyi_out={tmp_path}", str(REPO / "src" / place / "cri.proto")]
    subprocess.run([sys.executable, *words], check=True)
    for name in ("cri_pb2.py", "cri_pb2.pyi"):
        assert (tmp_path / place / name).read_text() == (REPO / "src" / place / name).read_text()


CONTAINERD = {
    "containerd": {
        "defaultRuntimeName": "runc",
        "runtimes": {
            "runc": {
                "runtimeType": "io.containerd.runc.v2",
                "options": {"SystemdCgroup": True, "BinaryName": "/none/such"},
            }
        },
    }
}


def test_the_driver_is_told_by_runtime_config(server: CriServer) -> None:
    for driver, kind in ((pb.SYSTEMD, "systemd"), (pb.CGROUPFS, "cgroupfs")):
        server.driver = driver
        facts = read_facts(server.endpoint)
        assert (facts.driver, facts.told) == (kind, "RuntimeConfig")


def test_the_driver_is_told_by_the_configuration(server: CriServer) -> None:
    server.config = json.dumps(CONTAINERD)
    facts = read_facts(server.endpoint)
    assert (facts.driver, facts.told) == ("systemd", "SystemdCgroup")
    assert facts.runtime == "containerd-1.7.24"


@pytest.mark.parametrize("config", ["", "{", "[]", "7", '{"containerd": 5}', "[" * 9999])
def test_a_driver_that_is_not_told_is_not_known(server: CriServer, config: str) -> None:
    server.config = config
    assert read_facts(server.endpoint).driver is None


def test_an_unknown_driver_is_an_error(server: CriServer) -> None:
    server.driver = pb.CGROUPFS
    server.always["RuntimeConfig"] = text(1, field(1, 0, b"\x07"))
    with pytest.raises(
        BadMessage, match=r"RuntimeConfig: .*cgroup_driver: 7 is not a CgroupDriver"
    ):
        read_facts(server.endpoint)


def test_a_runtime_that_knows_only_v1alpha2_is_spoken_to(server: CriServer, tmp_path: Path) -> None:
    server.versions = {"v1alpha2"}
    server.events = False
    hand = Hand(server, tmp_path)
    assert hand.runtime.facts.api == "v1alpha2"
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.ends()
    hand.runtime.close()


def test_nobody_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotDo, match="the container runtime does not answer"):
        read_facts(f"unix://{tmp_path}/none.sock")
