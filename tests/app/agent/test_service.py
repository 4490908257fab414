"""A run as a service: what the log, the service manager and those who ask get."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.agent.snapshots import SyncResult
from qoslet.app.agent.pages import AgentSockets, Questions, pages_of
from qoslet.app.agent.service import Log, LogFormat, Service, log_on_stderr
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.core.status.pod_events import PodEvent
from qoslet.core.status.snapshot import Snapshot
from qoslet.errors import CannotDo
from qoslet.host.files.node import load_node
from qoslet.host.questions.http_client import ask
from qoslet.host.questions.http_server import listen
from qoslet.host.systemd.sd_notify import Notifier

SNAPSHOT = Snapshot(cycle=1, at=0.0, cores=1.0, memory=1, groups=(), summary="1 pod")


def node_of() -> Node:
    return load_node([], Flags(hierarchy="v2", cgroup_driver="systemd", pod_max_pids="77"))[0]


def turn(cycle: int, done: int = 0, errors: tuple[str, ...] = (), failed: int = 0) -> SyncResult:
    return SyncResult(cycle, 0.0, 1, done, done, failed, (), (), errors, (), f"turn {cycle}")


def service(out: io.StringIO, form: LogFormat, notifier: Notifier) -> Service:
    log = Log(out, form, clock=lambda: 0.0)
    return Service(log, notifier, Questions(), lambda: SNAPSHOT, lambda: SNAPSHOT)


def test_the_log_says_what_happened_and_no_more() -> None:
    out = io.StringIO()
    surface = service(out, "text", Notifier({}))
    surface.synced(turn(1))
    surface.synced(turn(2))
    surface.synced(turn(3, done=2, errors=("starting a/b: no\nway",), failed=1))
    surface.log("ending")
    assert out.getvalue().splitlines() == [
        "1970-01-01T00:00:00.000Z turn 1",
        "1970-01-01T00:00:00.000Z warning: turn 3",
        "1970-01-01T00:00:00.000Z error: starting a/b: no\\nway",
        "1970-01-01T00:00:00.000Z ending",
    ]


@pytest.mark.parametrize(("form", "verbose"), [("text", False), ("text", True), ("json", False)])
def test_exits_that_nobody_saw_are_one_line(form: LogFormat, verbose: bool) -> None:
    found = [
        PodEvent("ContainerExited", f"d/p{number}", "exited", "warning", "app", unseen=True)
        for number in range(5)
    ]
    failed = PodEvent("ContainerExited", "d/never", "exited for good", "warning", container="app")
    out = io.StringIO()
    surface = Service(
        *(Log(out, form, clock=lambda: 0.0), Notifier({}), Questions()),
        *(lambda: SNAPSHOT, lambda: SNAPSHOT),
        verbose=verbose,
    )
    surface.synced(replace(turn(1), events=(*found, failed)))
    lines = out.getvalue().splitlines()
    if verbose or form == "json":
        assert sum("d/p" in line for line in lines) == 5
    else:
        text = "5 containers exited before this agent began and run again, their exit codes are unknown"
        named = "d/p0/app, d/p1/app, d/p2/app, ..."
        assert lines[0] == f"1970-01-01T00:00:00.000Z warning: {text}: {named}"
        assert sum("d/p" in line for line in lines) == 1
    assert any("d/never" in line for line in lines)


def test_problems_are_said_when_they_come_up() -> None:
    out = io.StringIO()
    row = Problem("error", "bad.yaml", "is no YAML", "mend it")
    problems: list[tuple[Problem, ...]] = [(row,)]
    log = Log(out, "journal")
    surface = Service(
        log, Notifier({}), Questions(), lambda: SNAPSHOT, lambda: SNAPSHOT, lambda: problems[-1]
    )
    surface.synced(turn(2))
    surface.synced(turn(3))
    problems.append(())
    surface.synced(turn(4))
    problems.append((row,))
    surface.synced(turn(5))
    assert out.getvalue().splitlines() == ["<3>bad.yaml: is no YAML (mend it)"] * 2


def test_the_log_for_programs() -> None:
    out = io.StringIO()
    service(out, "json", Notifier({})).synced(turn(1, done=3))
    row = json.loads(out.getvalue())
    assert row["level"] == "info"
    assert row["message"] == "turn 1"
    assert (row["done"], row["cycle"]) == (3, 1)


def test_events_are_told_with_their_fields() -> None:
    event = PodEvent(
        "ContainerExited", "d/web", "exited with 7", "warning", container="app", exit_code=7
    )
    for form in ("text", "json", "journal"):
        out = io.StringIO()
        service(out, form, Notifier({})).synced(replace(turn(2), events=(event,)))
        [line] = out.getvalue().splitlines()
        assert "d/web/app: exited with 7" in line
        if form == "json":
            row = json.loads(line)
            assert (row["event"], row["namespace"], row["pod"]) == ("ContainerExited", "d", "web")
            assert (row["container"], row["exitCode"], row["level"]) == ("app", 7, "warning")
            assert row["time"] == "1970-01-01T00:00:00.000Z"


def test_the_sentence_is_told_again_when_other_containers_run() -> None:
    out = io.StringIO()
    surface = service(out, "journal", Notifier({}))
    surface.synced(replace(turn(1, done=3), containers=(0, 2)))
    surface.synced(replace(turn(2), containers=(2, 2)))
    surface.synced(replace(turn(3), containers=(2, 2)))
    surface.synced(replace(turn(4), containers=(1, 2)))
    assert out.getvalue().splitlines() == ["<6>turn 1", "<6>turn 2", "<6>turn 4"]


def test_a_note_that_is_an_event_is_told_once() -> None:
    out = io.StringIO()
    event = PodEvent("PodResize", "d/web", "resize Infeasible", "warning")
    again = replace(turn(2), events=(event,), notes=(event.line, "another"))
    service(out, "text", Notifier({})).synced(again)
    assert out.getvalue().count("resize Infeasible") == 1
    assert "warning: another" in out.getvalue()


def test_notes_are_told_at_once_and_once_per_change() -> None:
    out = io.StringIO()
    notes = ["d/web/app: nosuch: No such file"]
    log = Log(out, "json", clock=lambda: 0.0)
    surface = Service(
        log,
        Notifier({}),
        Questions(),
        lambda: SNAPSHOT,
        lambda: SNAPSHOT,
        notes=lambda: list(notes),
    )

    def told() -> list[str]:
        before = len(out.getvalue().splitlines())
        surface.synced(turn(2))
        rows = [json.loads(line) for line in out.getvalue().splitlines()[before:]]
        assert all(row["time"] and row["level"] == "warning" for row in rows)
        return [row["message"] for row in rows]

    assert told() == ["d/web/app: nosuch: No such file"]
    assert told() == []
    notes.append("sock: no answer")
    assert told() == ["sock: no answer"]
    notes[-1] = "sock: answers again"
    assert told() == ["sock: answers again"]
    notes[-1] = "sock: no answer"
    assert told() == ["sock: no answer"]
    assert told() == []


def test_a_failure_that_repeats_itself_is_told_once() -> None:
    out = io.StringIO()
    surface = service(out, "text", Notifier({}))
    for cycle in range(2, 6):
        surface.synced(turn(cycle, errors=("/x is reserved and does not exist",)))
    assert out.getvalue().count("does not exist") == 1
    surface.synced(turn(6, done=1))
    surface.synced(turn(7, errors=("/x is reserved and does not exist",)))
    assert out.getvalue().count("does not exist") == 2


def test_failures_that_are_retried_in_turn_are_told_once_each() -> None:
    out = io.StringIO()
    surface = service(out, "text", Notifier({}))
    for cycle in range(2, 10):
        surface.synced(turn(cycle, errors=("create a: frozen" if cycle % 2 else "set b: frozen",)))
    assert [out.getvalue().count(one) for one in ("create a", "set b")] == [1, 1]
    surface.synced(turn(10, done=1))
    surface.synced(turn(11, errors=("create a: frozen",)))
    assert out.getvalue().count("create a") == 2


def test_the_log_for_a_journal() -> None:
    out = io.StringIO()
    service(out, "journal", Notifier({})).synced(turn(2, errors=("no",)))
    assert out.getvalue().splitlines() == ["<6>turn 2", "<3>no"]


def test_a_closed_log_ends_nothing() -> None:
    out = io.StringIO()
    out.close()
    service(out, "text", Notifier({})).synced(turn(1))


def test_the_service_manager_hears_of_each_turn(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "4000000"})
        surface = service(io.StringIO(), "text", notifier)
        surface.synced(turn(1))
        surface.synced(turn(2))
        heard = [manager.recv(1000).decode() for _ in range(3)]
        with pytest.raises(BlockingIOError):
            manager.recv(1000)
        notifier.close()
    assert heard == ["WATCHDOG=1", "READY=1\nSTATUS=turn 1", "STATUS=turn 2"]


def test_whoever_asks_is_answered_by_the_next_turn(tmp_path: Path) -> None:
    questions = Questions()
    log = Log(io.StringIO(), "text")
    surface = Service(log, Notifier({}), questions, lambda: SNAPSHOT, lambda: SNAPSHOT)
    answers: list[bytes] = []
    paths = ["/healthz", "/v1/pods", "/metrics", "/v1/node"]
    with AgentSockets(
        str(tmp_path), pages_of(questions, "/qoslet", node_of), listen("127.0.0.1:0")
    ) as asked:
        assert "127.0.0.1" in asked.address
        asking = threading.Thread(
            target=lambda: answers.extend(ask(str(tmp_path), p) for p in paths)
        )
        asking.start()
        cycle = 0
        while asking.is_alive():
            cycle += 1
            surface.synced(turn(cycle))
    health, pods, metrics, described = answers
    assert health == b"ok\n"
    assert json.loads(pods)["summary"] == "1 pod"
    assert json.loads(pods)["driver"] == "systemd"
    texts = [("agent", json.dumps(one).encode()) for one in json.loads(described)["items"]]
    node, again = node_of(), load_node([], Flags(), texts=texts)[0]
    assert (again.kubelet.pod_pids_limit, again.driver) == (77, "systemd")
    assert (again.capacity, again.host) == (node.capacity, node.host)
    assert b"qoslet_cycles_total 1.0" in metrics
    questions.close()


def test_a_sign_of_life_and_metrics_look_at_no_more_than_they_show(tmp_path: Path) -> None:
    looked: list[str] = []

    def look(what: str) -> Snapshot:
        looked.append(what)
        return SNAPSHOT

    questions = Questions()
    log = Log(io.StringIO(), "text")
    surface = Service(log, Notifier({}), questions, lambda: look("pods"), lambda: look("metrics"))
    seen = []
    with AgentSockets(str(tmp_path), pages_of(questions, "/qoslet", node_of), None):
        for path in ("/healthz", "/metrics", "/v1/pods"):
            asking = threading.Thread(target=ask, args=(str(tmp_path), path))
            asking.start()
            while asking.is_alive():
                surface.synced(turn(2))
            seen.append((path, tuple(looked)))
            looked.clear()
    questions.close()
    assert seen == [("/healthz", ()), ("/metrics", ("metrics",)), ("/v1/pods", ("pods",))]


def test_who_asks_for_pods_is_answered_in_the_middle_of_a_turn_that_waits(tmp_path: Path) -> None:
    """No turn is over: the loop is said to be busy, and metrics are left out."""
    questions = Questions(patience=0.2)
    waits = replace(SNAPSHOT, last_sync_seconds=9.0)
    answers: list[bytes] = []
    with AgentSockets(str(tmp_path), pages_of(questions, "/qoslet", node_of), None):
        asking = threading.Thread(target=lambda: answers.append(ask(str(tmp_path), "/v1/pods")))
        asking.start()
        while asking.is_alive():
            questions.answer_meanwhile(lambda: waits)
        for path in ("/healthz", "/metrics"):
            with pytest.raises(CannotDo, match="busy"):
                ask(str(tmp_path), path)
    questions.close()
    assert json.loads(answers[0])["lastSyncSeconds"] == 9.0


def test_a_loop_that_hangs_is_told_to_who_asks(tmp_path: Path) -> None:
    questions = Questions(patience=0.01)
    with (
        AgentSockets(str(tmp_path), pages_of(questions, "/qoslet", node_of), None),
        pytest.raises(CannotDo, match=r"503 .*: its loop has been busy for 0.01 s"),
    ):
        ask(str(tmp_path), "/healthz")
    questions.close()


def test_a_log_that_nobody_reads_holds_up_nothing() -> None:
    reader, writer = os.pipe()
    text: list[bytes] = []
    reading = threading.Thread(
        target=lambda: text.extend(iter(lambda: os.read(reader, 1 << 16), b""))
    )
    with open(writer, "w") as err, redirect_stderr(err), log_on_stderr("json") as log:
        for _ in range(20_000):
            log.line("info", "x" * 100)
        reading.start()
        deadline = time.monotonic() + 30
        while (
            b"log lines: the reader of the log is too slow" not in b"".join(text)
            and time.monotonic() < deadline
        ):
            log.line("info", "last")
            time.sleep(0.01)
    reading.join(30)
    rows = [json.loads(line) for line in b"".join(text).splitlines()]
    notes = [row for row in rows if "dropped" in row["message"]]
    assert {row["level"] for row in notes} == {"warning"}
    written = sum(row["message"] == "x" * 100 for row in rows)
    left_out = sum(int(row["message"].split()[1]) for row in notes)
    assert written < 20_000 <= written + left_out
    os.close(reader)
