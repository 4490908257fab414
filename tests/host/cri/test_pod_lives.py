"""Pods of a container runtime from start to end."""

from __future__ import annotations

import shutil
from pathlib import Path

import grpc
import pytest
from msgspec.structs import replace

from qoslet.core.status.pod_reason import exit_reason
from qoslet.errors import CannotDo
from qoslet.host.containers.log_files import LogLimits
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.requests import (
    DIGEST,
    OLD_DIGEST,
    OLD_ROOT,
    OLD_SPEC,
    ROOT,
    SPEC,
)
from qoslet.host.cri.runtime import read_facts
from qoslet.host.systemd.select_driver import fits_runtime
from tests.host.cri.server import MIB, CriServer, No
from tests.host.cri.test_runtime import PARENT, Hand, crio, field, hand, server, spec_of, text

__all__ = ["crio", "hand", "server"]

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
    hand.runtime = again.runtime


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
    hand.runtime = again.runtime


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
    hand.runtime = again.runtime


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
    hand.runtime = again.runtime


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
    hand.runtime = again.runtime


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


def test_a_container_that_is_being_started_again_has_not_ended(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.held = "StartContainer"
    hand.server.exit("app", 137)
    hand.until(lambda: hand.state("app").restarts == 1)
    hand.until(lambda: hand.state("app").starting)
    assert exit_reason(hand.state("app")) == ""
    hand.server.held = ""
    hand.running("app")
    assert not hand.state("app").starting
    hand.ends()


def test_resources_that_the_runtime_has_not_written_are_told(hand: Hand) -> None:
    hand.runtime.start(spec_of(blocks={"app": {"memory_limit_in_bytes": 9 * MIB}}), {})
    hand.running("app")
    hand.server.always["UpdateContainerResources"] = No(grpc.StatusCode.UNKNOWN, "busy")
    hand.server.turning.clear()
    more = spec_of(blocks={"app": {"memory_limit_in_bytes": 99 * MIB}})
    hand.runtime.update(more)
    assert hand.state("app").not_updated == "app: waiting for the runtime to update it"
    hand.server.turning.set()
    hand.until(lambda: hand.state("app").not_updated == "app: cannot update resources: busy")
    del hand.server.always["UpdateContainerResources"]
    hand.until(lambda: hand.state("app").not_updated == "")
    assert hand.server.resources[hand.server.id("app")][-1].memory_limit_in_bytes == 99 * MIB
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
