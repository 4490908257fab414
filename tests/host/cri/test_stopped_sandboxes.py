"""Sandboxes that ended and that no pod has: removed, never begun again."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import grpc
import pytest

from qoslet.host.cri import status_sync
from qoslet.host.cri.pb import cri_pb2 as pb
from tests.host.cri.server import CriServer, No
from tests.host.cri.test_runtime import PARENT, Hand, hand, server, spec_of

__all__ = ["hand", "server"]

MISSING = No(grpc.StatusCode.NOT_FOUND, "failed to remove container: not found")
"""What containerd answers to RemovePodSandbox after ``ctr containers rm``."""


def count(server: CriServer, method: str) -> int:
    return sum(name == method for name, _ in server.asked)


def stopped(hand: Hand) -> str:
    """A pod that ran and was ended, whose sandbox the runtime keeps."""
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.server.always["RemovePodSandbox"] = MISSING
    (sandbox,) = hand.server.boxes
    hand.runtime.stop("uid", 5.0)
    hand.until(lambda: all(one.ended for one in hand.runtime.list_pods().values()))
    return sandbox


def ended(hand: Hand) -> str:
    """The same, and forgotten."""
    sandbox = stopped(hand)
    hand.runtime.remove_pod("uid")
    return sandbox


def test_a_sandbox_that_the_runtime_cannot_remove_is_no_pod(hand: Hand) -> None:
    sandbox = ended(hand)
    said = f"default/web: the runtime does not remove its stopped sandbox {sandbox}: "
    hand.until(lambda: any(said in line for line in hand.runtime.notes))
    asked = count(hand.server, "ListPodSandbox")
    hand.until(lambda: count(hand.server, "ListPodSandbox") > asked + 5)
    assert not hand.runtime.list_pods()
    assert not any("adopting it" in line for line in hand.runtime.notes)
    assert sum(said in line for line in hand.runtime.notes) <= 1
    assert count(hand.server, "RemovePodSandbox") < 6, "each attempt waits longer"


def test_the_end_of_a_pod_says_what_the_runtime_keeps_of_it(hand: Hand) -> None:
    said = f"default/web: the runtime does not remove its stopped sandbox {stopped(hand)}: "
    assert any(said in line for line in hand.runtime.notes)


def test_it_goes_once_the_runtime_can_and_starts_nothing(hand: Hand) -> None:
    ended(hand)
    hand.server.end()
    hand.until(lambda: any("running containers stay" in line for line in hand.runtime.notes))
    hand.server.always.clear()
    hand.server.begin()
    hand.until(lambda: not hand.server.boxes)
    assert count(hand.server, "StartContainer") == 1
    assert not hand.runtime.list_pods()


def test_another_agent_removes_it_and_starts_nothing(hand: Hand, tmp_path: Path) -> None:
    server = hand.server
    ended(hand)
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    server.always.clear()
    again = Hand(server, tmp_path)
    again.until(lambda: not server.boxes)
    assert count(server, "StartContainer") == 1
    assert not again.runtime.list_pods()
    hand.runtime = again.runtime


def test_a_stopped_sandbox_in_which_a_container_runs_is_adopted(hand: Hand, tmp_path: Path) -> None:
    server = hand.server
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    (box,) = server.boxes.values()
    box.state = pb.SANDBOX_NOTREADY
    again = Hand(server, tmp_path)
    again.until(lambda: any("adopting it" in line for line in again.runtime.notes))
    again.running("app")
    again.ends()
    hand.runtime = again.runtime


def test_its_pod_starts_where_it_is_wanted(hand: Hand, tmp_path: Path) -> None:
    server = hand.server
    ended(hand)
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    server.always.clear()
    again = Hand(server, tmp_path)
    again.runtime.start(spec_of(), {})
    again.running("app")
    again.until(lambda: len(server.boxes) == 1)
    again.ends()
    hand.runtime = again.runtime


BUSY = No(grpc.StatusCode.FAILED_PRECONDITION, "cannot delete running task")
"""What containerd answers while a task is left of an ended container: runc failed as it was ended."""


def runs_again(hand: Hand, restarts: int) -> bool:
    state = hand.state("app")
    return state.running and state.restarts == restarts


def test_an_ended_container_that_the_runtime_keeps_holds_up_no_start(hand: Hand) -> None:
    hand.server.always["RemoveContainer"] = BUSY
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    for restarts in (1, 2):
        hand.server.exit("app", 3)
        hand.until(partial(runs_again, hand, restarts))
    assert any("it goes with its sandbox" in line for line in hand.runtime.notes)
    hand.ends()


def test_a_sandbox_that_the_runtime_keeps_loses_its_shim(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand.server.always["RemovePodSandbox"] = BUSY
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    (sandbox,) = hand.server.boxes

    def end_idle(ended: str, parent: str) -> list[int]:
        assert (ended, parent) == (sandbox, PARENT)
        hand.server.always.clear()
        return [4711]

    monkeypatch.setattr(status_sync, "end_idle", end_idle)
    hand.ends()
    assert f"default/web: killing the shim 4711 of {sandbox}" in hand.runtime.notes


@pytest.mark.parametrize("policy", ["Never", "Always"])
def test_with_its_sandbox_a_container_is_gone_whatever_the_runtime_said(
    hand: Hand, policy: str
) -> None:
    """It answers that the container was stopped, and then that it runs."""
    one = "containers: [{name: app, image: 'localhost/app:1'}]"
    hand.runtime.start(spec_of(f"{{restartPolicy: {policy}, hostNetwork: true, {one}}}"), {})
    hand.running("app")
    hand.server.once["StopContainer"] = [b""]
    (box,) = hand.server.boxes.values()
    box.state = pb.SANDBOX_NOTREADY
    if policy == "Never":
        hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
        assert hand.state("app").exit_code == 137
    else:
        hand.until(lambda: hand.state("app").restarts >= 1 and hand.state("app").running)
        assert box.id not in hand.server.boxes
    hand.ends()
