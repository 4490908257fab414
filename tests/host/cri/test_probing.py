"""Probes of containers in a container runtime, against a server of the tests' own."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec.structs import replace

from qoslet.core.workload.container_spec import PodMessages
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.probe_spec import Probe, TcpSocket
from qoslet.core.workload.process_spec import PodSpec
from tests.core.workload.test_process_spec import document_of, pod_of
from tests.host.cri.server import CriServer, No
from tests.host.cri.test_runtime import PARENT, Hand

QUICK: dict[str, Any] = {"period": 0.1, "timeout": 2.0}


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    with CriServer(tmp_path) as server:
        made = Hand(server, tmp_path)
        try:
            yield made
        finally:
            made.runtime.close()


def spec_of(*probes: Probe, **spec: Any) -> PodSpec:
    document = document_of({"image": "localhost/app:1"}, **spec)
    read = read_images(replace(pod_of(document), uid="uid"), document)
    launches = tuple(replace(one, probes=probes) for one in read.launches)
    messages = PodMessages(PARENT, {one.name: {"cpu_shares": 2} for one in launches})
    return replace(read, launches=launches, messages=messages)


def probe(kind: str, word: str, **fields: Any) -> Probe:
    return Probe(kind, command=(word, "x"), **{**QUICK, **fields})  # type: ignore[arg-type]


def asked(hand: Hand, method: str) -> list[Any]:
    return [request for name, request in list(hand.server.asked) if name == method]


def test_a_command_is_executed_by_the_runtime(hand: Hand) -> None:
    hand.server.commands["check"] = (0, b"")
    hand.runtime.start(spec_of(probe("readiness", "check"), hostNetwork=True), {})
    hand.until(lambda: hand.state("app").ready)
    request = asked(hand, "ExecSync")[0]
    assert (list(request.cmd), request.timeout) == (["check", "x"], 2)
    assert request.container_id == hand.server.id("app")
    hand.server.commands["check"] = (3, b"no\n")
    hand.until(lambda: hand.state("app").ready is False)
    assert hand.state("app").unhealthy == ("Readiness probe failed: no",)
    assert not asked(hand, "StopContainer")


def test_a_failed_liveness_probe_stops_the_container_with_its_own_grace(hand: Hand) -> None:
    hand.server.commands["check"] = (1, b"bad")
    liveness = probe("liveness", "check", failure=2, grace=7.0)
    hand.runtime.start(spec_of(liveness, hostNetwork=True, terminationGracePeriodSeconds=60), {})
    hand.until(lambda: hand.state("app").restarts >= 1)
    assert hand.state("app").killing == "Container app failed liveness probe, will be restarted"
    assert asked(hand, "StopContainer")[0].timeout in (7, 8)
    hand.server.commands["check"] = (0, b"")


def test_a_command_that_takes_too_long_fails(hand: Hand) -> None:
    hand.server.always["ExecSync"] = No(grpc.StatusCode.DEADLINE_EXCEEDED, "timeout 2s exceeded")
    hand.runtime.start(spec_of(probe("liveness", "check", failure=1000), hostNetwork=True), {})
    said = 'Liveness probe failed: command timed out: "check x" timed out after 2s'
    hand.until(lambda: hand.state("app").unhealthy == (said,))


def test_what_the_runtime_cannot_execute_counts_nothing(hand: Hand) -> None:
    hand.runtime.start(spec_of(probe("liveness", "none", failure=1), hostNetwork=True), {})
    hand.until(lambda: bool(hand.state("app").unhealthy))
    assert "errored and resulted in unknown state" in hand.state("app").unhealthy[0]
    time.sleep(0.4)
    assert hand.state("app").probe_kills == 0


@pytest.mark.parametrize(("host", "address"), [(True, "127.0.0.1"), (False, "127.0.0.2")])
def test_ports_are_those_of_the_pods_address(hand: Hand, host: bool, address: str) -> None:
    with socket.create_server((address, 0)) as listener:
        port = listener.getsockname()[1]
        tcp = Probe("readiness", tcp=TcpSocket(port), **QUICK)
        hand.runtime.start(spec_of(tcp, hostNetwork=host), {})
        hand.until(lambda: hand.state("app").ready)
    hand.until(lambda: hand.state("app").ready is False)
    assert f"dial tcp {address}:{port}" in hand.state("app").unhealthy[0]


def test_a_startup_probe_holds_back_the_container_after_a_sidecar(hand: Hand) -> None:
    hand.server.commands["up"] = (1, b"")
    spec = spec_of(hostNetwork=True)
    (app,) = spec.launches
    startup = probe("startup", "up", failure=1000)
    side = replace(app, name="side", role="sidecar", restart="Always", probes=(startup,))
    messages = PodMessages(PARENT, {name: {"cpu_shares": 2} for name in ("side", "app")})
    hand.runtime.start(replace(spec, launches=(side, app), messages=messages), {})
    hand.until(lambda: bool(hand.state("side").unhealthy))
    assert not hand.state("app").running
    hand.server.commands["up"] = (0, b"")
    hand.running("app")
