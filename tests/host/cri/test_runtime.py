"""The CRI runtime against a server of the tests' own: what is asked, what is believed, what comes
of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.workload.container_spec import PodMessages
from qoslet.core.workload.lifecycle import Backoff, ContainerState
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo
from qoslet.host.containers.log_files import LogLimits
from qoslet.host.cri import validation
from qoslet.host.cri.engine import CriSettings
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.requests import (
    DIGEST,
    OLD_DIGEST,
    OLD_ROOT,
    OLD_SPEC,
    ROOT,
    SPEC,
    resources_change,
)
from qoslet.host.cri.runtime import CriRuntime, read_facts
from qoslet.host.cri.validation import BadMessage, parsed
from qoslet.host.systemd.select_driver import fits_runtime
from tests.core.workload.test_process_spec import pod_of
from tests.host.cri.server import MIB, CriServer, No
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
        self.until(lambda: all(self.state(name).running for name in names))

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


SHOP = """
  hostNetwork: true
  initContainers:
    - {name: one, image: 'localhost/app:1'}
    - {name: side, image: 'localhost/app:1', restartPolicy: Always}
    - {name: two, image: 'localhost/app:1'}
  containers:
    - {name: app, image: 'localhost/app:1', command: [run, $(X)], env: [{name: X, value: y}]}
    - {name: more, image: 'localhost/app:1'}
"""


def test_init_containers_sidecars_and_the_rest_in_order(hand: Hand) -> None:
    hand.runtime.start(spec_of("\n" + SHOP), {})
    hand.running("one")
    assert not hand.state("side").running
    hand.server.exit("one")
    hand.running("side", "two")
    assert not hand.state("app").running
    hand.server.exit("two")
    hand.running("app", "more", "side")
    config = hand.server.configs[hand.server.id("app")]
    assert list(config.command) == ["run", "y"]
    assert config.log_path == "app/0.log"
    hand.ends()
    stops = [r.container_id for m, r in hand.server.asked if m == "StopContainer"]
    side = next(id for id, one in hand.server.configs.items() if one.metadata.name == "side")
    assert stops[-1] == side, "sidecars end last"
    hand.runtime.remove_pod("uid")
    assert not hand.runtime.list_pods()


def test_what_is_planned_is_what_is_sent(hand: Hand) -> None:
    block = {
        "cpu_shares": 102,
        "cpu_quota": 20000,
        "cpu_period": 100000,
        "memory_limit_in_bytes": 64 * MIB,
        "hugepage_limits": [{"page_size": "2MB", "limit": 4}],
        "unified": {"memory.high": "5"},
    }
    spec = spec_of(blocks={"app": block}, resources={"cpu_shares": 102}, overhead={"cpu_shares": 5})
    hand.runtime.start(spec.scored({"app": 999}), {})
    hand.running("app")
    sent = hand.server.resources[hand.server.id("app")][0]
    assert (sent.cpu_shares, sent.oom_score_adj, dict(sent.unified)) == (
        102,
        999,
        {"memory.high": "5"},
    )
    assert sent.hugepage_limits[0].page_size == "2MB"
    box = next(r.config for m, r in hand.server.asked if m == "RunPodSandbox")
    assert box.linux.cgroup_parent == PARENT
    assert (box.linux.resources.cpu_shares, box.linux.overhead.cpu_shares) == (102, 5)
    assert box.labels[ROOT] == "/qoslet"
    hand.ends()


@pytest.mark.parametrize("events", [True, False])
def test_an_end_is_seen_by_events_and_without(hand: Hand, events: bool, tmp_path: Path) -> None:
    hand.server.events = events
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.exit("app", 3)
    hand.until(lambda: hand.state("app").restarts >= 1)
    assert hand.state("app").exit_code == 3
    hand.ends()


def test_a_pod_that_is_done_leaves_nothing_and_keeps_its_codes(hand: Hand) -> None:
    hand.runtime.start(
        spec_of("{restartPolicy: Never, hostNetwork: true, containers: [{name: app, image: 'localhost/app:1'}]}"), {}
    )  # fmt: skip
    hand.running("app")
    hand.server.exit("app", 137, "OOMKilled")
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    state = hand.state("app")
    assert (state.exit_code, state.reason, state.oom_killed) == (137, "OOMKilled", True)
    assert not hand.server.boxes


def test_other_resources_are_told_to_what_runs(hand: Hand) -> None:
    had = {"cpu_quota": 100, "memory_limit_in_bytes": 9, "unified": {"memory.high": "5"}}
    hand.runtime.start(spec_of(blocks={"app": had}), {})
    hand.running("app")
    hand.runtime.update(spec_of(blocks={"app": {"cpu_shares": 7, "memory_limit_in_bytes": 10}}))
    id = hand.server.id("app")
    hand.until(lambda: len(hand.server.resources[id]) == 2)
    sent = hand.server.resources[id][1]
    assert (sent.cpu_shares, sent.cpu_quota, sent.memory_limit_in_bytes) == (7, -1, 10)
    assert dict(sent.unified) == {"memory.high": "max"}
    hand.ends()


def test_an_update_that_is_refused_is_tried_again(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.once["UpdateContainerResources"] = [No(grpc.StatusCode.INTERNAL, "busy")]
    hand.runtime.update(spec_of(blocks={"app": {"cpu_shares": 7}}))
    id = hand.server.id("app")
    hand.until(lambda: hand.server.resources[id][-1].cpu_shares == 7)
    assert any("busy" in line for line in hand.runtime.notes)
    hand.ends()


def test_what_changes_of_a_block() -> None:
    assert (
        resources_change(
            {"oom_score_adj": 1, "cpu_shares": 2}, {"oom_score_adj": 5, "cpu_shares": 2}
        )
        == {}
    )
    assert resources_change({}, {"cpu_shares": 2}) == {"cpu_shares": 2}
    assert resources_change({"memory_limit_in_bytes": 5}, {}) == {"memory_limit_in_bytes": -1}
    assert resources_change({"unified": {"memory.min": "5", "io.x": "y"}}, {"unified": {}}) == {
        "unified": {"memory.min": "0"}
    }


def test_pods_are_recognised_by_the_next_one(hand: Hand, tmp_path: Path) -> None:
    spec = replace(spec_of(), memo="m")
    hand.runtime.start(spec, {})
    hand.running("app")
    id = hand.server.id("app")
    hand.runtime.close()
    hand.server.containers[id].state = pb.CONTAINER_RUNNING
    again = Hand(hand.server, tmp_path)
    held = again.runtime.list_pods()["uid"]
    assert (held.spec_digest, held.allocation, held.top_cgroups) == (spec.digest(), "m", (PARENT,))
    again.running("app")
    assert hand.server.id("app") == id
    assert again.state("app").restarts == 0
    hand.server.exit("app", 5)
    again.until(lambda: again.state("app").restarts == 1)
    again.ends()
    again.runtime.close()
    hand.runtime = Hand(hand.server, tmp_path).runtime


def test_a_sandbox_with_the_labels_of_0_1_0_is_adopted(hand: Hand, tmp_path: Path) -> None:
    server = hand.server
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    id = server.id("app")
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    for box in server.boxes.values():
        assert box.labels.pop(ROOT) == box.labels[OLD_ROOT] == "/qoslet"
        for old, new in ((OLD_SPEC, SPEC), (OLD_DIGEST, DIGEST)):
            box.annotations[old] = box.annotations.pop(new)
    for one in server.containers.values():
        del one.labels[ROOT]
    again = Hand(server, tmp_path)
    again.until(lambda: any("adopting it" in line for line in again.runtime.notes))
    again.running("app")
    assert server.id("app") == id
    again.ends()
    again.runtime.close()
    hand.runtime = Hand(server, tmp_path).runtime


def test_nothing_is_begun_before_the_runtime_told_what_it_has(hand: Hand, tmp_path: Path) -> None:
    server = hand.server
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    id = server.id("app")
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    server.always["ListPodSandbox"] = No(grpc.StatusCode.INTERNAL, "not yet")
    again = Hand(server, tmp_path)
    again.runtime.start(spec_of(), {})
    again.runtime.start(replace(spec_of(), uid="other", key="default/other"), {})
    again.runtime.stop("other", 1.0)
    again.until(lambda: again.runtime.list_pods()["other"].ended)
    again.until(lambda: any("not yet" in line for line in again.runtime.notes))
    assert not again.state("app").running
    del server.always["ListPodSandbox"]
    again.running("app")
    assert server.id("app") == id
    assert [method for method, _ in server.asked].count("RunPodSandbox") == 1
    again.runtime.remove_pod("other")
    again.ends()
    again.runtime.close()
    hand.runtime = Hand(server, tmp_path).runtime


def test_what_is_met_with_other_containers_is_ended(hand: Hand, tmp_path: Path) -> None:
    server = hand.server
    server.images.add("localhost/app:2")
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    server.always["ListPodSandbox"] = No(grpc.StatusCode.INTERNAL, "not yet")
    edited = spec_of("{containers: [{name: app, image: 'localhost/app:2'}], hostNetwork: true}")
    again = Hand(server, tmp_path)
    again.runtime.start(edited, {})
    del server.always["ListPodSandbox"]
    again.until(lambda: again.runtime.list_pods()["uid"].ended)
    held = again.runtime.list_pods()["uid"]
    assert (held.spec_digest, held.terminating) == (spec_of().digest(), True)
    assert not server.boxes
    again.runtime.remove_pod("uid")
    again.runtime.start(edited, {})
    again.running("app")
    assert server.configs[server.id("app")].image.image == "sha256:localhost/app:2"
    again.ends()
    again.runtime.close()
    hand.runtime = Hand(server, tmp_path).runtime


def test_what_is_forgotten_is_told_no_more(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.ends()
    # its thread may be about to tell something of it
    pod = hand.runtime._views["uid"].pod
    hand.runtime.remove_pod("uid")
    hand.runtime._update_view(pod)
    assert hand.runtime.list_pods() == {}
    assert hand.runtime.poll() == ()
    hand.runtime.start(spec_of(), {})
    hand.running("app")


def test_an_end_while_nobody_looked_is_seen(hand: Hand, tmp_path: Path) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.runtime.close()
    hand.server.exit("app", 5)
    again = Hand(hand.server, tmp_path)
    again.until(lambda: again.state("app").restarts == 1)
    assert again.state("app").exit_code == 5
    again.ends()
    again.runtime.close()
    hand.runtime = Hand(hand.server, tmp_path).runtime


def test_sandboxes_of_others_are_left_alone(hand: Hand) -> None:
    hand.server.boxes["theirs"] = pb.PodSandbox(
        id="theirs", labels={OLD_ROOT: "/other", ROOT: "/other"}
    )
    hand.server.boxes["bare"] = pb.PodSandbox(id="bare")
    hand.server.boxes["odd"] = pb.PodSandbox(
        id="odd", labels={OLD_ROOT: "/qoslet", "io.kubernetes.pod.uid": "x"}
    )
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.until(lambda: any("odd has the qoslet label" in line for line in hand.runtime.notes))
    hand.runtime.stop("uid", 1.0)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    assert set(hand.server.boxes) == {"theirs", "bare", "odd"}


def test_a_runtime_that_goes_and_comes_changes_nothing(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.end()
    hand.runtime.stop("none", 1.0)
    hand.until(lambda: any("no answer" in line for line in hand.runtime.notes))
    assert hand.state("app").running
    hand.server.begin()
    hand.server.exit("app", 4)
    hand.until(lambda: hand.state("app").restarts == 1)
    hand.ends()


ANSWERED = ("RunPodSandbox", "CreateContainer", "StartContainer", "ImageStatus", "ContainerStatus",
            "ListContainers", "ListPodSandbox", "PodSandboxStatus")  # fmt: skip


@pytest.mark.parametrize("method", ANSWERED)
@pytest.mark.parametrize("answer", [b"\xff\xff", text(1, b"\xff"), field(1, 0, b"\x01")])
def test_a_bad_answer_is_said_and_got_over(hand: Hand, method: str, answer: bytes) -> None:
    hand.server.once[method] = [answer]
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.until(lambda: not hand.server.once[method] or method == "ContainerStatus")
    hand.ends()


def test_an_id_that_is_a_path_is_refused(hand: Hand) -> None:
    hand.server.once["RunPodSandbox"] = [text(1, b"../../x")]
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    said = "RunPodSandboxResponse.pod_sandbox_id: '../../x' is not an ID"
    assert any(said in line for line in hand.runtime.notes)
    hand.ends()


def test_a_large_log_is_put_aside_and_begun_anew(server: CriServer, tmp_path: Path) -> None:
    hand = Hand(server, tmp_path, limits=LogLimits(size=100, files=2))
    server.events = False
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    log = Path(hand.state("app").log)
    server.once["ReopenContainerLog"] = [No(grpc.StatusCode.INTERNAL, "busy")]
    for _ in range(3):
        log.write_text("x" * 101)
        hand.until(lambda: not log.exists())
    assert any("busy" in line for line in hand.runtime.notes)
    assert len(list(log.parent.iterdir())) == 1, "the oldest went"
    hand.ends()
    hand.runtime.close()


def test_an_image_that_is_not_there(hand: Hand) -> None:
    text_ = "{hostNetwork: true, containers: [{name: app, image: 'localhost/none:1'}]}"
    hand.runtime.start(spec_of(text_), {})
    hand.until(lambda: hand.state("app").reason == "ErrImagePull")
    assert "not found" in hand.state("app").message
    hand.server.images.add("localhost/none:1")
    hand.running("app")
    hand.ends()


def test_a_container_that_must_not_be_root(hand: Hand) -> None:
    text_ = (
        "{hostNetwork: true, securityContext: {runAsNonRoot: true}, "
        "containers: [{name: app, image: 'localhost/app:1'}]}"
    )
    hand.runtime.start(spec_of(text_), {})
    hand.until(lambda: hand.state("app").reason == "CreateContainerConfigError")
    hand.ends()


def test_a_network_that_is_not_ready_is_waited_for(hand: Hand) -> None:
    hand.server.network = False
    hand.runtime.start(spec_of("{containers: [{name: app, image: 'localhost/app:1'}]}"), {})
    hand.until(lambda: hand.state("app").reason == "NetworkNotReady")
    assert "NoCni: no network plugin" in hand.state("app").message
    hand.server.network = True
    hand.running("app")
    hand.ends()


def test_cri_o_refuses_the_other_driver_and_so_do_we(crio: CriServer, tmp_path: Path) -> None:
    facts = read_facts(crio.endpoint)
    assert (facts.name, facts.driver, facts.runtime) == ("cri-o", "cgroupfs", "cri-o-1.34.1")
    with pytest.raises(CannotDo) as error:
        fits_runtime("systemd", facts.name, facts.driver)
    assert 'cgroup_manager = "systemd" in crio.conf' in str(error.value)
    crio.driver = pb.SYSTEMD
    hand = Hand(crio, tmp_path)
    hand.runtime.start(spec_of(), {})
    hand.until(lambda: hand.state("app").reason == "FailedCreatePodSandBox")
    said = "cri-o configured with systemd cgroup manager, but did not receive slice as parent"
    assert said in hand.state("app").message
    hand.runtime.stop("uid", 1.0)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    hand.runtime.close()


def test_cri_o_has_a_least_memory_limit(crio: CriServer, tmp_path: Path) -> None:
    hand = Hand(crio, tmp_path)
    hand.runtime.start(spec_of(blocks={"app": {"memory_limit_in_bytes": MIB}}), {})
    hand.until(lambda: hand.state("app").reason == "CreateContainerError")
    assert "should be at least 12582912 bytes" in hand.state("app").message
    hand.runtime.update(spec_of(blocks={"app": {"memory_limit_in_bytes": 16 * MIB}}))
    hand.running("app")
    hand.ends()
    hand.runtime.close()
