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
from prometheus_client.parser import text_string_to_metric_families

from qoslet import schema
from qoslet.core.status.meter import Meter
from qoslet.core.status.snapshot import GroupRow, Snapshot
from qoslet.core.workload.lifecycle import ContainerState
from qoslet.core.workload.pod_status import PodRow
from qoslet.errors import CannotDo
from qoslet.host.state.folder import escaped
from qoslet.host.state.http_server import Page, private
from qoslet.host.state.requests import RequestQueue
from qoslet.render.documents.plan import encode
from qoslet.render.documents.pods import pods_document
from qoslet.render.metrics import exposition
from qoslet.render.text.pods import age
from tests.cli.fixtures import run

STATE = ContainerState("u1", "app", "/qoslet/a", True, pid=7, restarts=2, started_at=1000.5)
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
    assert samples["qoslet_pods", ("phase", "Running")] == 1
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
    head, web, bad, why, resize = out.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "QOS"]
    assert web.split()[:5] == ["shop", "web", "1/1", "Running", "2"]
    assert "\x1b" not in out
    assert "Pending (CreateError)" in bad
    assert why.strip() == "/qoslet/x: EPERM; retry in 4s"
    assert resize.strip() == "resize Deferred: memory is in use"
    code, out, _ = ps("-n", "shop", "-o", "json")
    assert [item["name"] for item in json.loads(out)["items"]] == ["web"]
    code, out, err = ps("nobody")
    assert (code, out) == (3, "")
    assert "pod nobody does not exist" in err
    assert ps("-n", "empty")[1].startswith("no pods")
    assert ps("--schema") == (0, schema.text("podstates"), "")
    assert ps("--schema", "-o", "stats") == (0, schema.text("podstats"), "")


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
