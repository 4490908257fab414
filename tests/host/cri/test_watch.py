"""What an agent meets while it watches a runtime: a container that is listed twice, a pod that no record
names, one that goes while its log is begun anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import grpc

from qoslet.host.containers.log_files import LogLimits
from qoslet.host.cri.pb import cri_pb2 as pb
from tests.host.cri.server import CriServer, No
from tests.host.cri.test_runtime import Hand, hand, server, spec_of

__all__ = ["hand", "server"]


def test_a_container_that_is_listed_twice_is_one(hand: Hand, tmp_path: Path) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    (id,) = hand.server.containers
    once = hand.server._list_containers(pb.ListContainersRequest()).SerializeToString()
    hand.server.always["ListContainers"] = once + once
    hand.runtime.close()
    hand.runtime = Hand(hand.server, tmp_path).runtime
    looked = len(hand.server.asked)
    hand.until(lambda: [one for one, _ in hand.server.asked[looked:]].count("ListContainers") > 3)
    assert [*hand.server.containers] == [id]
    hand.server.always.clear()
    hand.ends()


def test_a_pod_whose_record_is_lost_is_told_by_the_runtime(hand: Hand, tmp_path: Path) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.runtime.close()
    shutil.rmtree(tmp_path / "cri")
    hand.server.held = "ListPodSandbox"
    hand.runtime = Hand(hand.server, tmp_path).runtime
    assert (hand.runtime.list_pods(), hand.runtime.has_told()) == ({}, False)
    hand.server.held = ""
    hand.until(hand.runtime.has_told)
    assert [*hand.runtime.list_pods()] == ["uid"]
    hand.ends()


def test_a_pod_that_goes_meanwhile_does_not_end_the_watch(
    server: CriServer, tmp_path: Path
) -> None:
    hand = Hand(server, tmp_path, limits=LogLimits(size=100, files=2))
    server.events = False
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    server.once["ReopenContainerLog"] = [No(grpc.StatusCode.NOT_FOUND, "gone")]
    server.held = "ReopenContainerLog"
    log = Path(hand.state("app").log)
    log.write_text("x" * 101)
    hand.until(lambda: not log.exists())
    hand.runtime.stop("uid", 1.0)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    hand.runtime.remove_pod("uid")
    hand.until(lambda: not log.parent.exists())
    looked, server.held = len(server.asked), ""
    hand.until(lambda: "ListContainers" in [one for one, _ in server.asked[looked:]])
    assert hand.runtime.notes[-1].endswith(": gone")
    hand.runtime.close()
