"""Starts that are under way as an agent of a container runtime ends, or that another call has begun."""

from __future__ import annotations

import threading
import time

import grpc
from msgspec.structs import replace

from qoslet.host.cri.engine import LEAVE_SECONDS
from qoslet.host.cri.runtime import CriRuntime, read_facts
from tests.host.cri.server import No
from tests.host.cri.test_runtime import Hand, hand, server, spec_of

__all__ = ["hand", "server"]

NEVER = """
restartPolicy: Never
hostNetwork: true
containers:
  - {name: app, image: "localhost/app:1"}
"""


def test_an_agent_that_ends_waits_for_a_start_that_is_under_way(hand: Hand) -> None:
    hand.server.held = "StartContainer"
    hand.runtime.start(spec_of(NEVER), {})
    hand.until(lambda: "StartContainer" in hand.server.heard)
    closing = threading.Thread(target=hand.runtime.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive(), "the runtime would give the start up"
    hand.server.held, released = "", time.monotonic()
    closing.join(60)
    assert time.monotonic() - released < LEAVE_SECONDS - 2, "and no longer than that"
    hand.runtime = CriRuntime(hand.server.endpoint, read_facts(hand.server.endpoint), hand.setting)
    hand.running("app")
    assert (hand.state("app").restarts, len(hand.server.containers)) == (0, 1)
    hand.ends()


def test_an_agent_that_ends_begins_no_other_start(hand: Hand) -> None:
    spec, server = spec_of(NEVER), hand.server
    server.held = "StartContainer"
    hand.runtime.start(spec, {})
    hand.until(lambda: "StartContainer" in server.heard)
    server.held = "StartContainer CreateContainer"
    hand.runtime.start(replace(spec, uid="other", key="default/other"), {})
    hand.until(lambda: len(server.boxes) == 2)
    closing = threading.Thread(target=hand.runtime.close)
    closing.start()
    closing.join(0.2)
    server.held = "StartContainer"
    hand.until(lambda: len(server.containers) == 2)
    closing.join(0.2)
    server.held = ""
    closing.join(60)
    assert [method for method, _ in server.asked].count("StartContainer") == 1
    hand.runtime = CriRuntime(server.endpoint, read_facts(server.endpoint), hand.setting)
    hand.until(lambda: sum(one.running for one in hand.runtime.poll()) == 2)
    assert not any(one.restarts for one in hand.runtime.poll())
    hand.ends()


def test_a_start_that_another_call_has_begun_is_no_failure(hand: Hand) -> None:
    said = 'failed to set starting state for container "x": container is already in starting state'
    hand.server.once["StartContainer"] = [No(grpc.StatusCode.UNKNOWN, said)]
    hand.runtime.start(spec_of(NEVER), {})
    hand.running("app")
    assert (hand.state("app").restarts, len(hand.server.containers)) == (0, 1)
    assert any("already in starting state" in line for line in hand.runtime.notes)
    hand.ends()


def test_the_process_of_a_container_is_known_before_the_next_one_starts(hand: Hand) -> None:
    """The guard needs its cgroup, and the next start may take seconds."""
    spec = spec_of(NEVER + '  - {name: beside, image: "localhost/app:1"}\n')
    hand.runtime.start(spec, {})
    hand.until(lambda: sum(one.running for one in hand.runtime.poll()) == 2)
    verbs = ("StartContainer", "ContainerStatus")
    asked = [method for method, _ in hand.server.asked if method in verbs]
    assert asked[:3] == ["StartContainer", "ContainerStatus", "StartContainer"]
    hand.ends()


def test_a_resize_while_the_runtime_makes_a_container_is_told_to_it(hand: Hand) -> None:
    server = hand.server
    server.held = "CreateContainer"
    hand.runtime.start(spec_of(blocks={"app": {"cpu_shares": 7}}), {})
    hand.until(lambda: any(method == "ImageStatus" for method, _ in server.asked))
    time.sleep(0.2)
    hand.runtime.update(spec_of(blocks={"app": {"cpu_shares": 9}}))
    time.sleep(0.1)
    server.held = ""
    hand.running("app")
    hand.until(lambda: [one.cpu_shares for one in server.resources[server.id("app")]] == [7, 9])
    hand.ends()
