"""Containers that another client removes: what the runtime keeps of them afterwards, and what that ends."""

from __future__ import annotations

import grpc

from qoslet.host.cri.pb import cri_pb2 as pb
from tests.host.cri.server import CriServer, No
from tests.host.cri.test_runtime import Hand, hand, server, spec_of

__all__ = ["hand", "server"]

MISSING = No(grpc.StatusCode.NOT_FOUND, "failed to remove container: not found")
"""What containerd answers to RemovePodSandbox after ``ctr containers rm``."""


def listings(server: CriServer) -> int:
    return sum(method == "ListPodSandbox" for method, _ in server.asked)


def test_a_record_that_the_runtime_cannot_remove_holds_up_no_end(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.always["RemovePodSandbox"] = MISSING
    (sandbox,) = hand.server.boxes
    hand.runtime.stop("uid", 5.0)
    hand.until(lambda: all(one.ended for one in hand.runtime.list_pods().values()))
    said = f"default/web: the runtime keeps the record of its stopped sandbox {sandbox} until it is restarted: "
    assert sum(said in line for line in hand.runtime.notes) == 1
    hand.runtime.remove_pod("uid")
    asked = listings(hand.server)
    hand.until(lambda: listings(hand.server) > asked + 5)
    assert not hand.runtime.list_pods(), "what is left of it is no pod"
    assert not any("adopting it" in line for line in hand.runtime.notes)


def test_a_record_goes_once_the_runtime_was_restarted(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.always["RemovePodSandbox"] = MISSING
    hand.runtime.stop("uid", 5.0)
    hand.until(lambda: all(one.ended for one in hand.runtime.list_pods().values()))
    hand.runtime.remove_pod("uid")
    hand.server.end()
    hand.until(lambda: any("running containers stay" in line for line in hand.runtime.notes))
    hand.server.always.clear()
    hand.server.begin()
    hand.until(lambda: not hand.server.boxes)


def test_a_sandbox_that_still_runs_is_not_taken_for_gone(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.always["StopPodSandbox"] = hand.server.always["RemovePodSandbox"] = MISSING
    hand.runtime.stop("uid", 5.0)
    hand.until(lambda: any(str(MISSING) in line for line in hand.runtime.notes))
    assert not all(one.ended for one in hand.runtime.list_pods().values())
    assert [one.state for one in hand.server.boxes.values()] == [pb.SANDBOX_READY]
    hand.server.always.clear()
    hand.ends()
