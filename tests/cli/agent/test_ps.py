"""What an agent tells: its document, its table, its metrics; and ``ps``, which asks."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from qoslet import schema
from qoslet.app.node.found_node import KubeletOptions, chosen_kubelet
from qoslet.core.memory.rows import MemoryRow
from qoslet.core.status.memory_view import MemoryView
from qoslet.core.status.meter import Meter
from qoslet.core.status.series import MetricsOptions
from qoslet.core.status.snapshot import GroupRow, Snapshot
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import PodRow, PodUsage
from qoslet.errors import CannotDo
from qoslet.host.questions.http_server import Page, private
from qoslet.host.questions.request_queue import RequestQueue
from qoslet.host.state.agents import running_roots, where_else
from qoslet.host.state.folder import escaped
from qoslet.render.documents import encode
from qoslet.render.documents.agent.pod_filter import only
from qoslet.render.documents.agent.pods import pods_document
from qoslet.render.metrics import exposition
from qoslet.render.terminal import Terminal
from qoslet.render.text.pods import age, stale_line, table
from tests.cli.fixtures import golden, run

STATE = ContainerState("u1", "app", "/qoslet/a", True, pid=7, restarts=2, started_at=1000.5,
                       exit_code=137, end_reason="OOMKilled", finished_at=990.5)  # fmt: skip
LOOPS = ContainerState("u3", "loop", "/qoslet/b", False, exit_code=7, reason="Error", restarts=3,
                       finished_at=1030.0, backoff=40.0)  # fmt: skip
USED = PodUsage(2.0, 0.19, 0.2, 0.95, 12.34, 12 << 20, 32 << 20, 0.375)
SNAPSHOT = Snapshot(
    cycle=3,
    at=1.0,
    cores=2.0,
    memory=1 << 30,
    groups=(
        GroupRow("/qoslet", "/qoslet", "node", "qoslet", exists=True, memory=4096, cpu_seconds=1.5),
        GroupRow("/qoslet/gone", "/qoslet/gone", "pod", "gone", memory=1),
    ),
    summary="2 pods, 1 of 2 containers running",
    pods=(
        PodRow("u1", "shop", "web", "Burstable", "Running", since=1000.0, containers=(STATE,)),
        PodRow(
            "u2", "default", "bad\x1b[31m", "BestEffort", "Pending", "CreateError",
            "/qoslet/x: EPERM", 1.0, 3, 4.25, "Deferred", "memory is in use", "/m/bad.yaml",
        ),
        PodRow(
            "u3", "shop", "crash", "BestEffort", "Running", since=1060.0, containers=(LOOPS,),
            status="CrashLoopBackOff", created=900.0, edit_rejected="m.yaml: 32Mib is no quantity",
            roles={"loop": "regular"}, usage={"": USED, "loop": USED},
            controller=("ReplicaSet", "loops-5d9c7b8f6d"),
        ),
    ),
    memory_view=MemoryView(
        groups=(
            MemoryRow("/qoslet/a", "container", "shop/web/app", "u1", "shop/web", "app"),
            MemoryRow("/qoslet/b", "container", "shop/crash/app", "u3", "shop/crash", "app"),
            MemoryRow("/qoslet", "node", "qoslet"),
        ),
    ),
    meters={"create": Meter().add(0.0004).add(0.02).add(9.0, failed=True)},
)  # fmt: skip


def document() -> dict[str, object]:
    found: dict[str, object] = json.loads(encode(pods_document(SNAPSHOT, "/qoslet", "cgroupfs")))
    return found


def test_the_document_conforms() -> None:
    jsonschema.validate(document(), json.loads(schema.text("podstates")))


def test_metrics_are_read_by_prometheus() -> None:
    families = text_string_to_metric_families(exposition(SNAPSHOT).decode())
    samples = {
        (one.name, *sorted(one.labels.items())): one.value for f in families for one in f.samples
    }
    assert samples["qoslet_pods", ("phase", "Running")] == 2
    assert samples["qoslet_pods", ("phase", "Failed")] == 0
    assert samples["qoslet_cycles_total",] == 3
    bucket = "qoslet_cgroup_manager_duration_seconds_bucket"
    kind = ("operation_type", "create")
    assert samples[bucket, ("le", "0.001"), kind] == 1
    assert samples[bucket, ("le", "0.05"), kind] == 2
    assert samples[bucket, ("le", "5.0"), kind] == 2
    assert samples[bucket, ("le", "+Inf"), kind] == 3
    assert samples["qoslet_cgroup_manager_failures_total", kind] == 1
    assert not any(("cgroup", "/qoslet/gone") in key for key in samples)


def test_metrics_have_the_names_of_a_kubelet_where_asked() -> None:
    plain = exposition(SNAPSHOT).decode()
    assert "container_memory_usage_bytes" not in plain
    text = exposition(SNAPSHOT, MetricsOptions(kubelet_names=True)).decode()
    samples = [one for f in text_string_to_metric_families(text) for one in f.samples]
    ours = {
        one.labels["cgroup"]: one.value
        for one in samples
        if one.name == "qoslet_memory_usage_bytes"
    }
    named = {
        one.labels["id"]: one.value for one in samples if one.name == "container_memory_usage_bytes"
    }
    assert named == ours != {}


def test_metrics_say_what_they_leave_out() -> None:
    every, few = (exposition(SNAPSHOT, MetricsOptions(most)).decode() for most in (1000, 1))
    assert 'qoslet_series_left_out{level="container"} 0.0' in every
    assert 'qoslet_series_left_out{level="container"} 0.0' not in few
    assert 'container="app"' in every
    assert 'container="app"' not in few
    assert "qoslet_cycles_total" in few


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """A state directory with an agent that tells ``SNAPSHOT``."""
    state = "/run/qoslet" if os.geteuid() == 0 else str(tmp_path / "qoslet")
    root = f"/qoslet-test-{os.getpid()}"
    folder = Path(state) / escaped(root)
    folder.mkdir(parents=True, mode=0o700)
    pages = {
        "/v1/pods": lambda: Page(
            "application/json", encode(pods_document(SNAPSHOT, root, "cgroupfs"))
        )
    }
    server = private(str(folder), pages)
    yield Path(root)
    server.close()
    (folder / "agent.sock").unlink()
    folder.rmdir()


def test_ps(agent: Path, tmp_path: Path) -> None:
    def ps(*arguments: str) -> tuple[int, str, str]:
        done = run("ps", "--cgroup-root", str(agent), *arguments, XDG_RUNTIME_DIR=str(tmp_path))
        return done.returncode, done.stdout, done.stderr

    code, out, err = ps()
    assert (code, err) == (0, "")
    head, web, bad, why, resize, crash, exited, edit = out.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "QOS"]
    assert web.split()[:5] == ["shop", "web", "1/1", "Running", "2"]
    assert "\x1b" not in out
    assert "Pending (CreateError)" in bad
    assert why.strip() == "/qoslet/x: EPERM; retry in 4s"
    assert resize.strip() == "resize Deferred: memory is in use"
    assert crash.split()[2:5] == ["0/1", "CrashLoopBackOff", "3"]
    assert exited.strip().startswith("loop: Error, exit code 7; restart in ")
    assert edit.strip() == "edit rejected, the pod is unchanged: m.yaml: 32Mib is no quantity"
    code, out, _ = ps("-n", "shop", "-o", "json")
    assert [item["name"] for item in json.loads(out)["items"]] == ["web", "crash"]
    code, out, _ = ps("web", "-o", "json")
    found = json.loads(out)
    assert [row["cgroup"] for row in found["memory"]["groups"]] == ["/qoslet/a"]
    jsonschema.validate(found, json.loads(schema.text("podstates")))
    assert ps("pod/web", "-o", "json")[1] == ps("po/web", "-o", "json")[1] != ps("-o", "json")[1]
    assert ps("shop/web", "-o", "json")[1] == ps("pod/web", "-o", "json")[1]
    assert ps("default/web")[0] == 3
    crashing = ps("crash", "-o", "json")[1]
    for target in ("deployment/loops", "deploy/loops", "rs/loops-5d9c7b8f6d"):
        assert ps(target, "-o", "json")[1] == crashing
    assert ps("sts/loops")[0] == 3
    code, out, err = ps("nobody")
    assert (code, out) == (3, "")
    assert "pod nobody does not exist" in err
    assert ps("-n", "empty")[1] == "no pods: the agent has none in namespace empty\n"
    assert ps("--schema") == (0, schema.text("podstates"), "")
    assert ps("--schema", "-o", "stats") == (0, schema.text("podstats"), "")


@pytest.mark.parametrize("wide", [False, True])
def test_the_table_of_ps_is_drawn_as_recorded(wide: bool) -> None:
    found = document()
    items = found["items"]
    assert isinstance(items, list)
    drawn = table(items, 1060.0, Terminal(), wide, spaces=True)
    golden("ps.wide.txt" if wide else "ps.txt", "\n".join(drawn) + "\n")


def test_an_answer_from_the_middle_of_a_sync_says_how_old_it_is() -> None:
    assert stale_line(document()["lastSyncSeconds"], Terminal()) == []
    told = pods_document(replace(SNAPSHOT, last_sync_seconds=17.2), "/qoslet", "systemd")
    jsonschema.validate(json.loads(encode(told)), json.loads(schema.text("podstates")))
    assert stale_line(told["lastSyncSeconds"], Terminal()) == [
        "the agent waits for systemd: its last sync ended 17s ago; usage is left out"
    ]


def test_ready_counts_no_init_container_that_ends() -> None:
    """As kubectl: containers and sidecars."""
    roles = (("prepare", "init", False), ("mesh", "sidecar", True), ("app", "regular", True))
    containers = [{"name": name, "role": role, "running": up} for name, role, up in roles]
    item = {"name": "web", "phase": "Running", "status": "Running", "containers": containers}
    assert table([item], 0.0, Terminal(), False, False)[1].split()[1] == "2/2"


def test_ready_counts_to_the_containers_that_are_not_made_yet() -> None:
    roles = {"setup": "init", "proxy": "sidecar", "app": "regular", "debug": "ephemeral"}
    row = PodRow("u1", "shop", "web", "Burstable", "Pending", roles=roles)
    told = replace(SNAPSHOT, pods=(row,))
    items = pods_document(told, "/qoslet", "cgroupfs")["items"]
    assert isinstance(items, list)
    (item,) = items
    assert item["containersWanted"] == 2
    assert table([item], 0.0, Terminal(), False, False)[1].split()[1] == "0/2"


def test_a_clock_that_was_set_back_puts_off_no_restart() -> None:
    items = document()["items"]
    assert isinstance(items, list)
    ended = max(one.finished_at or 0.0 for pod in SNAPSHOT.pods for one in pod.containers)
    for now in (ended, ended - 50 * 365 * 86400):
        drawn = "\n".join(table(items, now, Terminal(), True, spaces=True))
        assert "loop: Error, exit code 7; restart in 40s" in drawn


@pytest.mark.parametrize(
    ("state", "now", "remark"),
    [
        ({"exit_code": 137, "end_reason": "Error"}, 1004.0, "Error, exit code 137"),
        ({"exit_code": 137, "end_reason": "OOMKilled"}, 1004.0, "OOMKilled, exit code 137"),
        (
            {"exit_code": 143, "end_reason": "Error", "probe_ended": True},
            1004.0,
            "Error, exit code 143, after a failed probe",
        ),
        ({"exit_code": 137, "end_reason": "Error"}, 1000.0 + 3601, None),
        ({}, 1004.0, None),
    ],
)
def test_why_a_container_that_runs_again_was_restarted(
    state: dict[str, object], now: float, remark: str | None
) -> None:
    one = ContainerState("u", "app", "/q", True, restarts=1, started_at=1000.0, **state)  # type: ignore[arg-type]
    pod = PodRow("u", "shop", "web", "Burstable", "Running", containers=(one,))
    shown = pods_document(replace(SNAPSHOT, pods=(pod,)), "/qoslet", "cgroupfs")
    jsonschema.validate(json.loads(encode(shown)), json.loads(schema.text("podstates")))
    items = json.loads(encode(shown))["items"]
    drawn = table(items, now, Terminal(), False, spaces=True)[2:]
    assert drawn == ([] if remark is None else [f"  app: restarted 4s ago: {remark}"])


def test_an_end_is_no_remark_while_the_container_starts_again() -> None:
    items = document()["items"]
    assert isinstance(items, list)
    ended = [one for item in items for one in item["containers"] if one["exitReason"]]
    assert ended
    for container in ended:
        container["exitReason"] = None
    assert "loop: " not in "\n".join(table(items, 1060.0, Terminal(), False, spaces=True))


def test_a_sentence_is_a_remark_and_no_status() -> None:
    items = document()["items"]
    assert isinstance(items, list)
    why = "no process can be made: cgroup /unit has 5 processes, its pids.max"
    first = items[0]["containers"][0]
    first |= {"status": "RunContainerError", "exitReason": None, "exitCode": None, "reason": why}
    drawn = "\n".join(table(items, 1060.0, Terminal(), False, spaces=True))
    assert f"  {first['name']}: {why}" in drawn


def test_only_what_is_about_the_chosen_pods_is_left() -> None:
    path = "/qoslet/kubepods/podu1/app"
    rows = [
        {"cgroup": path, "uid": "u1", "pod": "d/a"},
        {"cgroup": "/x", "uid": "u2", "pod": "d/b"},
    ]
    whole = {
        "summary": "2 pods",
        "items": [
            {"namespace": "d", "name": name, "uid": uid, "containers": [{"cgroup": cgroup}]}
            for name, uid, cgroup in (("a", "u1", path), ("b", "u2", "/x"))
        ],
        "pending": [f"{path}: memory.max", "/x: memory.max"],
        "waiting": [],
        "errors": ["d/b: no", "updating d/a: no"],
        "problems": [{"where": "f: Pod d/a: spec"}, {"where": "f: Pod d/ab"}, {"where": "node"}],
        "memory": {
            "groups": rows,
            "events": [{"cgroup": "/x", "pod": "d/b"}, {"cgroup": path, "pod": "d/a"}],
            "watched": [{"cgroup": path}, {"cgroup": "/qoslet"}],
            "guard": {
                "decisions": [{"cgroup": "/x", "pod": None}],
                "overrides": [{"cgroup": path}],
            },
            "pressure": {"decisions": [{"cgroup": None, "pod": "d/a"}]},
            "pageSize": 4096,
        },
    }
    left = only(whole, whole["items"][:1])  # type: ignore[index]
    assert left["pending"] == [f"{path}: memory.max"]
    assert left["errors"] == ["updating d/a: no"]
    assert [row["where"] for row in left["problems"]] == ["f: Pod d/a: spec"]
    assert left["memory"] == {
        "groups": rows[:1],
        "events": [{"cgroup": path, "pod": "d/a"}],
        "watched": [{"cgroup": path}],
        "guard": {"decisions": [], "overrides": [{"cgroup": path}]},
        "pressure": {"decisions": [{"cgroup": None, "pod": "d/a"}]},
        "pageSize": 4096,
    }
    assert only(whole, whole["items"]) == whole  # type: ignore[arg-type]


def test_other_agents_are_named(agent: Path, tmp_path: Path) -> None:
    """Of root, and of a user who may ask his own only."""
    state = "/run/qoslet" if os.geteuid() == 0 else str(tmp_path / "qoslet")
    assert str(agent) in running_roots(state)
    done = run("ps", "--cgroup-root", "/qoslet-test-none", XDG_RUNTIME_DIR=str(tmp_path))
    assert "running agents have --cgroup-root " in done.stderr or os.geteuid() != 0
    assert str(agent) in done.stderr or os.geteuid() != 0, "others may run here, too"
    done = run("logs", "web", "--cgroup-root", "/qoslet-test-none", XDG_RUNTIME_DIR=str(tmp_path))
    assert str(agent) in done.stderr or os.geteuid() != 0
    assert where_else(1000, str(tmp_path)) == (
        f"root's agent may run, its state is in {tmp_path}: use sudo"
    )
    with pytest.raises(CannotDo) as none:
        chosen_kubelet(KubeletOptions(root=str(tmp_path)))
    assert none.value.message.startswith("no kubelet runs on this machine")
    assert str(agent) in none.value.hint or os.geteuid() != 0


def test_nobody_answers(tmp_path: Path) -> None:
    done = run("ps", "--cgroup-root", "/qoslet-test-none", XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert "no agent is running" in done.stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (119, "119s"), (125, "2m5s"), (600, "10m"), (3600 * 3, "3h"), (3600 * 5 + 60, "5h1m"),
     (3600 * 30, "30h"), (86400 * 9, "9d")],
)  # fmt: skip
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_questions_are_answered_between_turns() -> None:
    questions: RequestQueue[int] = RequestQueue()
    questions.answer(lambda: pytest.fail("nobody asked"))
    answers: list[int] = []
    asking = [threading.Thread(target=lambda: answers.append(questions.ask())) for _ in range(3)]
    for one in asking:
        one.start()
    numbers = count()
    while any(one.is_alive() for one in asking):
        questions.answer(lambda: next(numbers))
    assert len(answers) == 3
    questions.close()


def test_a_loop_that_does_not_come_to_answer() -> None:
    questions: RequestQueue[int] = RequestQueue(patience=0.01)
    with pytest.raises(CannotDo, match="busy"):
        questions.ask()
    questions.close()
