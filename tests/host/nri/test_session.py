"""A registration with a runtime: what is answered, and that nothing wrong is ever answered with an error."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from qoslet.core.guest.nri_container import NriContainer, Unified
from qoslet.errors import CannotDo
from qoslet.host.machine.thread_priority import ThreadPriority
from qoslet.host.nri.pb import nri_pb2 as pb
from qoslet.host.nri.session import RuntimeSession
from tests.host.nri.fake_runtime import POD, ROOT, FakeRuntime, asked, container, packed, until

HIGH = {"memory.high": "1048576"}


def own_priority() -> tuple[int, int]:
    """The scheduling policy and the nice value of the thread that asks."""
    return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)


class Handler:
    """Answers what it is told to."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.wrong: Exception | None = None
        self.unified: Unified = HIGH
        self.seconds = 0.0
        self.priority: tuple[int, int] | None = None

    def _take(self, *what: object) -> None:
        self.seen += what
        self.priority = own_priority()
        time.sleep(self.seconds)
        if self.wrong is not None:
            raise self.wrong

    def synchronized(self, containers: Sequence[NriContainer]) -> None:
        self._take(*containers)

    def pod_started(self) -> None:
        self._take("pod")

    def created(self, container: NriContainer) -> Unified:
        self._take(container)
        return self.unified

    def updated(self, container: NriContainer, taken: Unified) -> Unified:
        self._take(container, taken)
        return self.unified

    def written(self, id: str) -> None:
        self._take("written", id)

    def removed(self, id: str) -> None:
        self._take(id)


class Bench:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.runtime, self.handler = FakeRuntime(theirs), Handler()
        self.log: list[str] = []
        self.ended: list[str] = []
        self.session = RuntimeSession(
            ours, ROOT, "95", self.handler, self.log.append, self.ended.append
        )


@pytest.fixture
def bench() -> Iterator[Bench]:
    before = set(threading.enumerate())
    made = Bench()
    yield made
    made.session.close()
    made.runtime.close()
    assert set(threading.enumerate()) <= before, "no thread is left"


def test_it_registers_and_takes_the_events_that_it_needs(bench: Bench) -> None:
    assert (bench.runtime.plugin.plugin_name, bench.runtime.plugin.plugin_idx) == ("qoslet", "95")
    request = pb.ConfigureRequest(runtime_name="containerd", runtime_version="1.7.24")
    answer = bench.runtime.rpc("Configure", request, pb.ConfigureResponse)
    assert answer == pb.ConfigureResponse(events=0b101_1000_1001)


def test_its_thread_has_the_cpu_before_others_as_far_as_the_kernel_allows(bench: Bench) -> None:
    seen = list[tuple[int, int]]()

    def allowed() -> None:
        ThreadPriority()(True)
        seen.append(own_priority())

    thread = threading.Thread(target=allowed)
    thread.start()
    thread.join()
    bench.runtime.created(container())
    assert [bench.handler.priority] == seen


def test_values_of_a_new_container_are_sent_as_unified(bench: Bench) -> None:
    assert bench.runtime.created(container(limit=64, cpu_weight="7")) == HIGH
    assert bench.handler.seen == [
        NriContainer(
            *("c1", "u1", "app", "d/web", "/kubepods/podu1/c1", "", 64, {"cpu.weight": "7"})
        )
    ]
    bench.handler.unified = {}
    request = pb.CreateContainerRequest(pod=POD, container=container())
    assert (
        bench.runtime.answer(bench.runtime.send("CreateContainer", request.SerializeToString()))
        == b""
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("kubepods-pod1.slice:cri-containerd:c1", None),
        ("kubepods.slice:cri-containerd:c1", None),
        ("/kubepods/podu1/c1", "/kubepods/podu1/c1"),
        ("/kubepods/../etc", None),
        ("/other/c1", None),
        ("", None),
        ("a:b", None),
        ("/kubepods", None),
    ],
)
def test_the_cgroup_of_a_container_is_below_the_root_or_not_known(
    bench: Bench, text: str, path: str | None
) -> None:
    one = container()
    one.linux.cgroups_path = text
    bench.runtime.created(one)
    [seen] = bench.handler.seen
    assert isinstance(seen, NriContainer)
    assert seen.path == path


def test_an_update_carries_the_new_limit_and_what_is_taken(bench: Bench) -> None:
    request = pb.UpdateContainerRequest(pod=POD, container=container(limit=64))
    request.linux_resources.memory.limit.value = 128
    request.linux_resources.unified["memory.low"] = "5"
    answer = bench.runtime.rpc("UpdateContainer", request, pb.UpdateContainerResponse)
    wanted = pb.ContainerUpdate(container_id="c1", ignore_failure=True)
    wanted.linux.resources.unified.update(HIGH)
    assert answer == pb.UpdateContainerResponse(update=[wanted])
    seen, taken = bench.handler.seen
    assert isinstance(seen, NriContainer)
    assert (seen.memory_limit, taken) == (128, {"memory.low": "5"})


def test_a_synchronization_in_parts_is_one(bench: Bench) -> None:
    part = pb.SynchronizeRequest(pods=[POD], containers=[container()], more=True)
    answer = bench.runtime.rpc("Synchronize", part, pb.SynchronizeResponse)
    assert answer == pb.SynchronizeResponse(more=True)
    stranger = pb.Container(id="c9", pod_sandbox_id="s9")
    bad = pb.Container(id="../c", pod_sandbox_id="s1")
    last = pb.SynchronizeRequest(containers=[container(id="c2"), stranger, bad])
    found = bench.runtime.rpc("Synchronize", last, pb.SynchronizeResponse)
    assert found == pb.SynchronizeResponse(), "the runtime is asked to change nothing"
    assert [one.id for one in bench.handler.seen if isinstance(one, NriContainer)] == ["c1", "c2"]


def test_events_come_as_state_changes_or_as_calls(bench: Bench) -> None:
    empty = pb.UpdateContainerResponse
    for event in (pb.RUN_POD_SANDBOX, pb.REMOVE_CONTAINER):
        told = pb.StateChangeEvent(event=event, pod=POD, container=container())
        bench.runtime.rpc("StateChange", told, empty)
    told = pb.StateChangeEvent(event=pb.POST_UPDATE_CONTAINER, pod=POD, container=container())
    bench.runtime.rpc("StateChange", told, empty)
    bench.runtime.rpc("RunPodSandbox", pb.UpdateContainerRequest(), empty)
    changed = pb.PostUpdateContainerRequest(pod=POD, container=container(id="c2"))
    bench.runtime.rpc("PostUpdateContainer", changed, empty)
    removed = pb.RemoveContainerRequest(pod=POD, container=container(id="c2"))
    bench.runtime.rpc("RemoveContainer", removed, empty)
    for method in ("Shutdown", "PostCreateContainer", "ValidateContainerAdjustment", "Later"):
        assert bench.runtime.answer(bench.runtime.send(method, b"")) == b""
    seen = ["pod", "c1", "written", "c1", "pod", "written", "c2", "c2"]
    assert bench.handler.seen == seen


@pytest.mark.parametrize("wrong", [CannotDo("no plan"), OSError(28, "no room"), KeyError("x")])
def test_whatever_goes_wrong_the_container_is_created(bench: Bench, wrong: Exception) -> None:
    bench.handler.wrong = wrong
    assert bench.runtime.created(container()) == {}
    assert len(bench.log) == 1
    assert bench.log[0].startswith("CreateContainer: nothing is set")
    bench.handler.wrong = None
    assert bench.runtime.created(container()) == HIGH


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff" * 40,
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x12\x04\x0a\x02\xc3\x28",
        pb.CreateContainerRequest(container=pb.Container(id="a/b")).SerializeToString(),
        pb.CreateContainerRequest().SerializeToString(),
    ],
)
def test_a_message_that_is_none_is_answered_and_said(bench: Bench, payload: bytes) -> None:
    assert bench.runtime.answer(bench.runtime.send("CreateContainer", payload)) == b""
    assert bench.handler.seen == []
    assert len(bench.log) == 1
    assert bench.runtime.created(container()) == HIGH


def test_fields_of_a_newer_runtime_are_left_out(bench: Bench) -> None:
    newer = b"\xf2\x3f\x05hello" + b"\xc8\x3e\x07"
    request = pb.CreateContainerRequest(pod=POD, container=container()).SerializeToString()
    data = bench.runtime.answer(bench.runtime.send("CreateContainer", request + newer))
    answer = pb.CreateContainerResponse.FromString(data)
    assert dict(answer.adjust.linux.resources.unified) == HIGH
    assert bench.log == []


def test_calls_that_are_none_are_answered_with_nothing(bench: Bench) -> None:
    runtime = bench.runtime
    runtime.socket.sendall(packed(1, 1001, 1, b"\xff\xff"))
    assert runtime.answer(1001) == b""
    runtime.socket.sendall(packed(1, 1003, 1, asked("CreateContainer", b"", service="other")))
    assert runtime.answer(1003) == b""
    # an answer nobody waits for, a request to the runtime, data of a stream
    runtime.socket.sendall(packed(2, 77, 2, b"") + packed(2, 1, 1, b"") + packed(1, 1, 3, b""))
    assert runtime.created(container()) == HIGH


def test_a_frame_that_is_none_ends_the_connection_with_its_reason(bench: Bench) -> None:
    bench.runtime.socket.sendall(struct.pack(">II", 1, 0xFFFFFFF0))
    until(lambda: bool(bench.ended))
    assert bench.ended[0].startswith("a frame of 4294967280 bytes")
    assert bench.runtime.is_over.wait(5)


def test_a_late_answer_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qoslet.host.nri.session.LATE_SECONDS", 0.02)
    bench.handler.seconds = 0.05
    assert bench.runtime.created(container()) == HIGH
    assert "CreateContainer took 0." in bench.log[0]


def test_a_runtime_that_refuses_or_is_silent_is_said_and_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, lines = threading.active_count(), list[str]()
    for silent, message in ((False, "invalid plugin index"), (True, "no answer within")):
        ours, theirs = socket.socketpair()
        runtime = FakeRuntime(theirs, refuse="" if silent else "invalid plugin index")
        runtime.silent = silent
        monkeypatch.setattr("qoslet.host.nri.session.REGISTER_SECONDS", 0.1)
        with pytest.raises(CannotDo, match=message):
            RuntimeSession(ours, ROOT, "95", Handler(), lines.append, lines.append)
        runtime.close()
    assert threading.active_count() == before


def test_a_connection_without_a_thread_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_thread: threading.Thread) -> None:
        raise OSError(11, "no thread")

    monkeypatch.setattr("qoslet.host.nri.connection.start_thread", none_left)
    ours, theirs = socket.socketpair()
    with pytest.raises(OSError, match="no thread"):
        RuntimeSession(ours, ROOT, "99", Handler(), print, print)
    assert ours.fileno() == -1
    theirs.close()


def test_a_runtime_that_goes_is_said(bench: Bench) -> None:
    bench.runtime.socket.shutdown(socket.SHUT_RDWR)
    until(lambda: bool(bench.ended))
    assert bench.ended == ["the runtime closed the connection"]
