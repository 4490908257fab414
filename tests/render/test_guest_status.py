"""The status of the agent beside a kubelet: its document, its metrics, its lines."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest

from qoslet import schema
from qoslet.app.agent.service import Log
from qoslet.app.guest.serve import RESET_SECONDS, GuestQuestions, GuestService
from qoslet.core.guest.monitoring import GUEST_METRICS
from qoslet.core.guest.status import GuestSync
from qoslet.core.status.monitoring import series_name
from qoslet.host.systemd.sd_notify import Notifier
from qoslet.render.documents import encode
from qoslet.render.documents.agent.guest import status_document
from qoslet.render.guest_metrics import guest_exposition
from qoslet.render.terminal import Terminal
from qoslet.render.text.guest.status import status_lines
from tests.agent.guest.beside import GUARD
from tests.agent.guest.test_pod_guard import APP, Stalled
from tests.paths import REPO

SCHEMA = json.loads(schema.text("agentstatus"))


@pytest.fixture
def node(tmp_path: Path) -> Stalled:
    made = Stalled(tmp_path, GUARD)
    made.time(4)
    made.world.kernel.write(APP, "memory.low", "4096")
    made.beside.auditor.woken = True
    made.time(18, held=100)
    return made


def test_the_document_has_its_schema(node: Stalled) -> None:
    document = json.loads(encode(status_document(node.beside.status)))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert SCHEMA["properties"].keys() == document.keys()
    assert document["guard"]["overrides"]
    assert document["contested"][0]["found"] == "4096"
    assert {one["writer"] for one in document["held"]} >= {"kubelet", "container runtime"}
    assert all(one["resetBy"] for one in document["held"])


def test_every_metric_is_there(node: Stalled) -> None:
    text = guest_exposition(node.beside.status).decode()
    for one in GUEST_METRICS.values():
        assert f"# HELP {one.name}" in text
    assert 'qoslet_agent_info{memory_qos="qoslet",mode="guard"} 1.0' in text
    assert "qoslet_agent_resets_total 1.0" in text
    assert 'qoslet_agent_guard_decisions_total{answer="limit",mode="act"} 1.0' in text


def test_the_page_lists_every_metric() -> None:
    page = (REPO / "docs/reference/agent.md").read_text(encoding="utf-8")
    names = [series_name(one) for one in GUEST_METRICS.values()]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_lines_say_what_matters(node: Stalled) -> None:
    document = json.loads(encode(status_document(node.beside.status)))
    lines = status_lines(document, Terminal(), verbose=False)
    assert lines[0].startswith("node n1, /q/kubepods, cgroup v2, cgroupfs driver: mode guard")
    assert any(
        "another process wrote 4096 (1 times, written again 1 times)" in one for one in lines
    )
    assert any("memory.high max instead of" in one for one in lines)


def told(node: Stalled, seconds: float = 0.0) -> list[str]:
    """What the log says of one sync."""
    out = io.StringIO()
    questions = GuestQuestions()
    try:
        service = GuestService(
            Log(out, "json", clock=lambda: 0.0),
            Notifier({}),
            questions,
            lambda: node.beside.status,
            tuple,
            verbose=True,
        )
        service.synced(node.beside.sync(seconds))
    finally:
        questions.close()
    return [json.loads(line)["message"] for line in out.getvalue().splitlines()]


def test_a_status_reads_no_memory(node: Stalled) -> None:
    before = node.beside.memory.samples
    node.world.clock.now += 60.0
    assert node.beside.status.guard.counts
    assert guest_exposition(node.beside.status)
    assert node.beside.memory.samples == before > 0


def test_the_log_tells_resets_and_values(node: Stalled) -> None:
    node.world.kernel.write(APP, "memory.low", "8192")
    node.beside.auditor.woken = True
    lines = told(node, 70.0)
    reset = f"another process resets {APP}/memory.low: it wrote '8192'; written again"
    assert any(line.startswith(reset) for line in lines)
    assert any("kept as planned, 1 of them written" in line for line in lines)
    assert any(line.startswith(f"wrote {APP}/memory.low = ") for line in lines)


def test_files_that_are_reset_again_and_again_are_one_line_in_a_while() -> None:
    out, now = io.StringIO(), [0.0]
    questions = GuestQuestions()
    service = GuestService(
        Log(out, "json", clock=lambda: 0.0),
        Notifier({}),
        questions,
        lambda: pytest.fail("nobody asks"),
        tuple,
        clock=lambda: now[0],
    )
    try:
        resets = {(f"/kubepods/pod{number}", "memory.low"): "0" for number in range(40)}
        for _ in range(int(2 * RESET_SECONDS)):
            service.synced(GuestSync("40 pods", resets=resets))
            now[0] += 1.0
    finally:
        questions.close()
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    told = [row for row in rows if row.get("event") == "Reset"]
    assert [(row["files"], row["file"]) for row in told] == [(40, "memory.low")] * 2
    assert "and 39 more" in told[0]["message"]
