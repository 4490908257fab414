"""What a runtime keeps of containers, taken out over a real socket of the CRI."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from qoslet.app.guest.nri_run import KeptByRuntime
from qoslet.app.node.found_node import KubeletOptions
from qoslet.errors import CannotDo
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.nri import kept_values
from qoslet.host.nri.kept_values import CriKeptValues
from tests.host.cri.server import CriServer, No

BEGINS = {"memory.high": "max", "memory.low": "0"}
CHANGE = "UpdateContainerResources"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CriServer]:
    with CriServer(tmp_path) as made:
        for id in ("a", "b"):
            made.containers[id] = pb.ContainerStatus(id=id, state=pb.CONTAINER_RUNNING)
            made.resources[id] = []
        yield made


def specs(server: CriServer) -> CriKeptValues:
    return CriKeptValues(lambda: server.endpoint)


def kept(server: CriServer, info: str) -> None:
    """What the runtime tells of each container."""
    told = pb.ContainerStatusResponse(info={"info": info})
    server.always["ContainerStatus"] = told.SerializeToString()


def spec(**unified: str) -> str:
    values = {file.replace("_", "."): value for file, value in unified.items()}
    spec = {"linux": {"resources": {"unified": values, "memory": {"limit": 5}}}, "process": {}}
    return json.dumps({"pid": 5, "runtimeSpec": spec})


def test_only_what_the_spec_has_otherwise_is_sent_and_nothing_else_with_it(
    server: CriServer,
) -> None:
    kept(server, spec(memory_high="4096", memory_low="0", memory_min="7"))
    assert specs(server).give_back({"a": BEGINS}) == {}
    sent = pb.LinuxContainerResources(unified={"memory.high": "max"})
    assert server.resources["a"] == [sent]
    assert server.resources["b"] == []


@pytest.mark.parametrize(
    "info", [spec(), spec(memory_high="max"), '{"runtimeSpec": {"linux": {}}}']
)
def test_a_spec_without_them_is_left_as_it_is(server: CriServer, info: str) -> None:
    kept(server, info)
    assert specs(server).give_back({"a": BEGINS, "b": BEGINS}) == {}
    assert CHANGE not in [method for method, _ in server.asked]


@pytest.mark.parametrize("info", ["", "{", "[]", '{"runtimeSpec": null}', '{"runtimeSpec": 5}'])
def test_a_runtime_that_does_not_tell_is_sent_all(server: CriServer, info: str) -> None:
    kept(server, info)
    assert specs(server).give_back({"a": BEGINS}) == {}
    assert dict(server.resources["a"][0].unified) == BEGINS


def test_one_that_fails_stops_no_other_and_one_that_is_gone_is_no_failure(
    server: CriServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_values, "CREATION_SECONDS", 0.01)
    server.once[CHANGE] = [No(grpc.StatusCode.UNKNOWN, "runc: \x1b[31mno")]
    failed = specs(server).give_back({"a": BEGINS, "gone": BEGINS, "b": BEGINS})
    assert len(failed) == 1
    assert "runc: " in next(iter(failed.values()))
    assert "\x1b" not in next(iter(failed.values()))
    assert sum(map(len, server.resources.values())) == 1


def test_a_container_that_is_being_created_is_found_after_a_moment(server: CriServer) -> None:
    made = server.containers.pop("a")

    def create() -> None:
        until(lambda: any(method == "ContainerStatus" for method, _ in server.asked))
        server.containers["a"] = made

    thread = threading.Thread(target=create)
    thread.start()
    assert specs(server).give_back({"a": BEGINS}) == {}
    thread.join()
    assert len(server.resources["a"]) == 1


def until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_runtime_that_hangs_is_given_up(
    server: CriServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_values, "WHOLE_SECONDS", 0.3)
    server.held = "ContainerStatus"
    failed = specs(server).give_back({"a": BEGINS, "b": BEGINS})
    assert failed == dict.fromkeys("ab", f"{server.endpoint}: no answer within 0.3 s")


def test_without_a_runtime_the_reason_is_said(tmp_path: Path) -> None:
    def none() -> str:
        raise CannotDo("no kubelet runs on this machine")

    assert CriKeptValues(none).give_back({"a": BEGINS}) == {"a": "no kubelet runs on this machine"}
    away = KeptByRuntime(str(tmp_path / "none.sock"), KubeletOptions()).give_back({"a": BEGINS})
    assert "no answer" in away["a"]


def test_the_socket_is_named_with_or_without_its_scheme(server: CriServer) -> None:
    for name in (server.endpoint, server.endpoint.removeprefix("unix://")):
        assert KeptByRuntime(name, KubeletOptions()).give_back({"a": BEGINS}) == {}
    assert len(server.resources["a"]) == 2
