"""A container runtime that goes and comes, hangs, or takes its time to stop containers."""

from __future__ import annotations

import time
from pathlib import Path

import grpc
import pytest

from qoslet.host.cri.pb import cri_pb2 as pb
from tests.host.cri.server import CriServer, No
from tests.host.cri.test_runtime import Hand, hand, server, spec_of

__all__ = ["hand", "server"]


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


def _stops(hand: Hand) -> list[int]:
    """The grace periods of the stops that were sent, in order."""
    return [request.timeout for name, request in hand.server.asked if name == "StopContainer"]


def test_a_runtime_that_hangs_takes_nobodys_grace_period(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.turning.clear()
    hand.runtime.stop("uid", 1.0)
    time.sleep(2.5)
    hand.server.turning.set()
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    assert len(_stops(hand)) == 1, "no kill beside the stop that the runtime has not heard yet"
    assert _stops(hand)[0] > 0


def test_a_runtime_ends_a_grace_period_itself(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.stubborn.set()
    hand.runtime.stop("uid", 1.0)
    time.sleep(2.5)
    assert len(_stops(hand)) == 1
    hand.server.exit("app", 137)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    assert hand.state("app").exit_code == 137


def test_a_shorter_grace_period_hurries(hand: Hand) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.stubborn.set()
    hand.runtime.stop("uid", 30.0)
    hand.until(lambda: _stops(hand) == [30])
    hand.runtime.stop("uid", 0.0)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    assert _stops(hand)[1] == 0


def test_a_stop_that_nobody_may_have_heard_is_made_again_with_its_grace_period(
    hand: Hand,
) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.once["StopContainer"] = [No(grpc.StatusCode.UNAVAILABLE, "gone")]
    hand.server.always["ListPodSandbox"] = No(grpc.StatusCode.UNAVAILABLE, "gone")
    hand.runtime.stop("uid", 1.0)
    time.sleep(1.5)
    del hand.server.always["ListPodSandbox"]
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    assert len(_stops(hand)) == 2
    assert min(_stops(hand)) > 0


@pytest.mark.parametrize("heard", [True, False])
def test_the_next_agent_kills_nothing_at_the_deadline_of_the_one_before(
    hand: Hand, tmp_path: Path, heard: bool
) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    if heard:
        hand.server.stubborn.set()
        hand.runtime.stop("uid", 1.0)
        hand.until(lambda: _stops(hand))
    else:
        hand.server.turning.clear()
        hand.runtime.stop("uid", 1.0)
        hand.until(lambda: '"ending"' in (tmp_path / "cri/uid/pod.json").read_text())
    hand.runtime.close()
    time.sleep(1.2)
    hand.server.turning.set()
    hand.runtime = Hand(hand.server, tmp_path).runtime
    hand.until(lambda: len(_stops(hand)) == 1 + heard)
    hand.server.stubborn.clear()
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    assert min(_stops(hand)) > 0


def test_a_runtime_that_hangs_is_told_of(server: CriServer, tmp_path: Path) -> None:
    hand = Hand(server, tmp_path, slow_seconds=0.3)
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.turning.clear()
    hand.until(lambda: any("no answer for 0.3 s" in line for line in hand.runtime.notes))
    hand.server.turning.set()
    hand.until(lambda: any(line.endswith("runtime answers again") for line in hand.runtime.notes))
    assert not any("no answer" in line for line in hand.runtime.notes)
    hand.ends()
    hand.runtime.close()


def test_what_was_refused_long_ago_delays_no_later_attempt(hand: Hand) -> None:
    busy = No(grpc.StatusCode.UNKNOWN, "busy")
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.once["StopPodSandbox"] = [busy] * 8
    (box,) = hand.server.boxes.values()
    box.state = pb.SANDBOX_NOTREADY
    hand.until(lambda: box.id not in hand.server.boxes)
    hand.running("app")
    hand.server.once["StopPodSandbox"] = [busy]
    hand.runtime.stop("uid", 5.0)
    # eight times refused, it would be a minute
    hand.until(lambda: all(one.ended for one in hand.runtime.list_pods().values()), 30.0)


def test_what_is_refused_at_each_attempt_is_noted_once(hand: Hand) -> None:
    """containerd names the sandbox that it could not make, another one each time."""
    hand.server.once["RunPodSandbox"] = [
        No(grpc.StatusCode.UNKNOWN, f"open /run/{digit * 64}/log.json: no such file")
        for digit in "abc"
    ]
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    noted = [line for line in hand.runtime.notes if "FailedCreatePodSandBox" in line]
    assert len(noted) == 1
    assert "no such file" in noted[0]
