"""What becomes of a container when an agent, or the runtime, went away in the middle of a request."""

from __future__ import annotations

import shutil
from pathlib import Path

import grpc
import pytest

from qoslet.core.status.pod_events import container_events
from qoslet.host.cri.pb import cri_pb2 as pb
from tests.host.cri.server import No
from tests.host.cri.test_runtime import Hand, hand, server, spec_of

__all__ = ["hand", "server"]

NEVER = (
    "{restartPolicy: Never, hostNetwork: true, containers: [{name: app, image: 'localhost/app:1'}]}"
)


def _starts(hand: Hand) -> int:
    return sum(name == "StartContainer" for name, _ in hand.server.asked)


def test_a_start_that_was_given_up_with_its_agent_is_made_again(hand: Hand, tmp_path: Path) -> None:
    hand.server.held = "StartContainer"
    hand.runtime.start(spec_of(NEVER), {})
    hand.until(lambda: hand.state("app").starting)
    hand.runtime.close()
    # as containerd leaves it when the client of a request has gone
    first = hand.server.id("app")
    given_up = hand.server.containers[first]
    given_up.exit_code, given_up.reason = 128, "StartError"
    given_up.state = pb.CONTAINER_EXITED
    hand.server.held = ""
    again = Hand(hand.server, tmp_path)
    again.running("app")
    assert hand.server.id("app") != first
    assert first not in hand.server.containers
    assert again.state("app").restarts == 0
    again.ends()
    hand.runtime = again.runtime


def test_a_start_that_goes_on_without_its_agent_is_not_asked_for_again(
    hand: Hand, tmp_path: Path
) -> None:
    hand.server.held = "StartContainer"
    hand.runtime.start(spec_of(NEVER), {})
    hand.until(lambda: hand.state("app").starting)
    hand.runtime.close()
    # as containerd refuses while it starts a container
    hand.server.always["RemoveContainer"] = No(
        grpc.StatusCode.UNKNOWN, "container is in starting state, can't be removed"
    )
    again = Hand(hand.server, tmp_path)
    again.until(lambda: any("starting state" in line for line in again.runtime.notes))
    hand.server.containers[hand.server.id("app")].state = pb.CONTAINER_RUNNING
    again.running("app")
    assert again.state("app").restarts == 0
    del hand.server.always["RemoveContainer"]
    hand.server.held = ""
    again.ends()
    hand.runtime = again.runtime


def test_what_ended_unrecorded_does_not_run_twice(hand: Hand, tmp_path: Path) -> None:
    two = NEVER.replace("]", ", {name: side, image: 'localhost/app:1'}]")
    hand.runtime.start(spec_of(two), {})
    hand.running("app", "side")
    hand.server.exit("app", 3)
    hand.until(lambda: hand.state("app").exit_code == 3)
    hand.runtime.close()
    shutil.rmtree(hand.setting.folder)
    again = Hand(hand.server, tmp_path)
    again.running("side")
    again.until(lambda: again.state("app").exit_code == 3)
    assert not again.state("app").running
    assert _starts(hand) == 2
    again.ends()
    hand.runtime = again.runtime


def test_a_container_whose_state_the_runtime_lost_is_removed_before_the_next(hand: Hand) -> None:
    hand.runtime.start(spec_of(NEVER), {})
    hand.running("app")
    first = hand.server.id("app")
    hand.server.containers[first].state = pb.CONTAINER_UNKNOWN
    hand.until(lambda: hand.state("app").restarts == 1)
    hand.running("app")
    assert first not in hand.server.containers
    assert "the runtime lost its state" in " ".join(hand.runtime.notes)
    hand.ends()


@pytest.mark.parametrize(
    ("sandbox", "state"), [("", pb.CONTAINER_CREATED), ("gone", pb.CONTAINER_EXITED)]
)
def test_what_has_the_name_of_a_container_holds_up_no_start(
    hand: Hand, sandbox: str, state: pb.ContainerState
) -> None:
    """An earlier request made it late, or another client removed its sandbox."""
    hand.server.always["CreateContainer"] = No(grpc.StatusCode.UNKNOWN, "its name is reserved")
    hand.runtime.start(spec_of(), {})
    hand.until(lambda: hand.state("app").reason == "CreateContainerError")
    [box] = hand.server.boxes
    config = next(one.config for name, one in hand.server.asked if name == "CreateContainer")
    late = "f" * 64
    hand.server.owners[late] = sandbox or box
    hand.server.containers[late] = pb.ContainerStatus(
        id=late, metadata=config.metadata, state=state, labels=config.labels
    )
    hand.until(lambda: late not in hand.server.containers)
    del hand.server.always["CreateContainer"]
    hand.running("app")
    hand.ends()


def test_a_name_that_the_runtime_keeps_costs_an_attempt_and_no_restart(
    hand: Hand, tmp_path: Path
) -> None:
    """Another client removed a container: containerd lists it, and gives its name to no other one."""
    server = hand.server
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    kept, gone = server.id("app"), No(grpc.StatusCode.NOT_FOUND, "no such container")
    server.always.update(RemovePodSandbox=gone)
    hand.runtime.stop("uid", 0.0)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    hand.runtime.remove_pod("uid")
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    assert kept in server.containers
    assert server.containers[server.id("app")].metadata.attempt == 1
    server.exit("app", 3)
    hand.until(lambda: hand.state("app").restarts == 1)
    hand.running("app")
    assert server.containers[server.id("app")].metadata.attempt == 2
    hand.runtime.close()
    again = Hand(server, tmp_path)
    again.running("app")
    assert again.state("app").restarts == 1
    server.exit("app", 3)
    again.until(lambda: again.state("app").restarts == 2)
    again.running("app")
    server.always.clear()
    again.ends()
    hand.runtime = again.runtime


def test_records_that_were_removed_are_written_again(hand: Hand, tmp_path: Path) -> None:
    hand.runtime.start(spec_of(NEVER), {})
    hand.running("app")
    hand.server.exit("app", 3)
    hand.until(lambda: hand.runtime.list_pods()["uid"].ended)
    shutil.rmtree(hand.setting.folder, ignore_errors=True)
    hand.until(lambda: Path(hand.setting.folder, "uid", "pod.json").exists())
    hand.runtime.close()
    again = Hand(hand.server, tmp_path)
    assert again.state("app").exit_code == 3
    hand.runtime = again.runtime


def test_a_start_that_the_runtime_refuses_is_told_of_by_its_container_alone(hand: Hand) -> None:
    """The event of a container that could not start has the runtime's words; a note would say them twice."""
    hand.server.always["StartContainer"] = No(grpc.StatusCode.UNKNOWN, "exec: no such file")
    hand.server.held = "StartContainer"
    hand.runtime.start(spec_of(NEVER), {})
    hand.until(lambda: hand.state("app").starting)
    # as containerd leaves it
    refused = hand.server.containers[hand.server.id("app")]
    refused.state, refused.exit_code, refused.reason = pb.CONTAINER_EXITED, 128, "StartError"
    hand.server.held = ""
    hand.until(lambda: hand.state("app").exit_code == 128)
    state = hand.state("app")
    (told,) = container_events("default/web", None, state)
    assert (told.event, told.reason) == ("ContainerStartFailed", "StartError")
    assert "exec: no such file" in told.line
    assert not [line for line in hand.runtime.notes if "no such file" in line]
