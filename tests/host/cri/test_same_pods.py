"""A pod whose name another root has in the runtime, and containers that a runtime lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.requests import OLD_ROOT
from qoslet.host.cri.shims import survivors
from tests.host.cri.test_runtime import Hand, hand, server, spec_of

__all__ = ["hand", "server"]


def test_a_pod_that_another_root_runs_waits_for_its_end(hand: Hand) -> None:
    spec = spec_of()
    namespace, _, name = spec.key.partition("/")
    hand.server.boxes["theirs"] = pb.PodSandbox(
        id="theirs",
        metadata=pb.PodSandboxMetadata(name=name, namespace=namespace, uid="uid"),
        state=pb.SANDBOX_READY,
        labels={OLD_ROOT: "/other", "io.kubernetes.pod.uid": "uid"},
    )
    hand.runtime.start(spec, {})
    hand.until(lambda: hand.state("app").reason == "FailedCreatePodSandBox")
    assert hand.state("app").message.startswith(
        "the agent of /other runs a pod of this name and UID"
    )
    assert set(hand.server.boxes) == {"theirs"}
    del hand.server.boxes["theirs"]
    hand.running("app")
    hand.ends()


def test_a_pod_that_the_runtime_has_without_a_record_gets_what_is_wanted_now(
    hand: Hand, tmp_path: Path
) -> None:
    """As after a reboot, where a resize comes before the runtime has told what it has."""
    server = hand.server
    hand.runtime.start(spec_of(blocks={"app": {"memory_limit_in_bytes": 9}}), {})
    hand.running("app")
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    again = hand.runtime = Hand(server, tmp_path).runtime
    again.start(spec_of(blocks={"app": {"memory_limit_in_bytes": 10}}), {})
    hand.until(lambda: any("adopting it" in line for line in again.notes))
    id = server.id("app")
    hand.until(lambda: server.resources[id][-1].memory_limit_in_bytes == 10)
    hand.until(lambda: hand.state("app").not_updated == "")
    assert [one.id for one in server.containers.values()] == [id]
    hand.ends()


def test_processes_of_containers_that_a_runtime_lost_are_found_by_their_id() -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        scopes = {child.pid: f"/q.slice/cri-containerd-{'a' * 64}.scope"}

        def group(pid: int, below: str) -> str:
            return scopes.get(pid, "") if below == "/q.slice" else ""

        assert [one.pid for one in survivors("/q.slice", {"a" * 64, "b" * 64}, group)] == [
            child.pid
        ]
        assert survivors("/q.slice", {"b" * 64}, group) == []
        child.kill()
