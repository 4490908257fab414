"""What surfaces make of memory events: the document, the table's remarks, the graph, the metrics."""

from __future__ import annotations

import json
import typing
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from qoslet import schema
from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.memory.counter_store import CounterStore
from qoslet.core.memory.counters import MAX_SPANS
from qoslet.core.memory.effective_protection import Binding, Overcommit, ProtectionLoss
from qoslet.core.memory.events import KINDS, ZONES, EventKind, Reclaimed, Zone
from qoslet.core.memory.rows import MemoryEvent, MemoryRow, TrackedCgroup
from qoslet.core.memory.sample import MemorySample, NodeMemory, Pressure
from qoslet.core.status.memory_view import MemoryView
from qoslet.core.status.snapshot import rows
from qoslet.render.documents import encode
from qoslet.render.documents.agent.memory import memory_document
from qoslet.render.documents.agent.pods import pods_document
from qoslet.render.metrics import exposition
from qoslet.render.terminal import Terminal
from qoslet.render.text import memory as memory_rendering
from qoslet.render.text.memory import screen_lines, spark
from qoslet.render.text.pods import table
from tests.cli.agent.test_ps import SNAPSHOT
from tests.cli.fixtures import made

PLAIN = Terminal(width=80, color=False, unicode=False)
NICE = Terminal(width=80, color=False, unicode=True)

KILL = MemoryEvent(
    1000.0, "oom_kill", 1, "/q/b/podu1/app", "container", "shop/web/app", "shop/web", "app", "hog", 31,
    "64 MiB, at its limit",
)  # fmt: skip
APP = MemoryRow(
    "/q/b/podu1/app", "container", "shop/web/app", "u1", "shop/web", "app", "Burstable", 64 << 20,
    current=65 << 20, high=80 << 20, max=UNLIMITED, low=60 << 20, given_low=64 << 20, given_min=0,
    binds=Binding("/q/b", "memory.max", 96 << 20, 6 << 20),
    losses=(
        ProtectionLoss("memory.low", 64 << 20, 64 << 20, 60 << 20,
             Overcommit("/q/b", "memory.low", 90 << 20, 96 << 20)),
    ), pressure=Pressure(3.0, 5, 1.5, 4),
    events={"oom_kill": 2, "high": 402, "below_low": 1},
    reclaimed={"below_request": Reclaimed(20, 10, 5), "above_high": Reclaimed(9000, 6000, 10)},
    stalled=1.25,
    waited=2.5,
    pressed=True,
    recent={
        "below_request": (0,) * (MAX_SPANS - 2) + (10, 0),
        "above_high": tuple(range(0, 20 * MAX_SPANS, 20)),
    },
    last=KILL,
)  # fmt: skip
TIER = MemoryRow("/q/b", "qos", "burstable", events={"oom_kill": 2}, recent=APP.recent)
GONE = MemoryRow(
    "/q/b/podu9/x", "container", "shop/old/x", "u9", "shop/old", "x", gone=True, events={"high": 1}
)
NODE = NodeMemory(1.0, 8 << 30, 4 << 30, 2 << 30, pressure=Pressure(1.0, 2_000_000, 0.5, 500_000))
VIEW = MemoryView((TIER, APP, GONE), (KILL,), NODE, how=("memory.events wakes",))
SEEN = replace(SNAPSHOT, memory_view=VIEW)


def test_the_document_conforms_and_says_everything() -> None:
    document = json.loads(encode(pods_document(SEEN, "/q", "cgroupfs")))
    jsonschema.validate(document, json.loads(schema.text("podstates")))
    memory = document["memory"]
    assert [row["gone"] for row in memory["groups"]] == [False, False, True]
    app = memory["groups"][1]
    assert app["events"] == {"oom_kill": 2, "high": 402, "below_low": 1}
    assert app["reclaim"]["above_high"] == {"scanned": 9000, "taken": 6000, "refaulted": 10}
    assert (app["lowBytes"], app["minBytes"], app["protectedLowBytes"]) == (64 << 20, 0, 60 << 20)
    assert (app["highBytes"], app["maxBytes"]) == (80 << 20, None)
    assert app["binds"] == {
        "cgroup": "/q/b", "file": "memory.max", "bytes": 96 << 20, "room": 6 << 20
    }  # fmt: skip
    [loss] = app["worthLess"]
    assert (loss["file"], loss["bytes"], loss["worthBytes"]) == ("memory.low", 64 << 20, 60 << 20)
    assert memory["groups"][0]["binds"] is None
    assert (app["stalledSeconds"], app["waitingSeconds"]) == (1.25, 2.5)
    assert (app["fullPressure10"], app["somePressure10"]) == (1.5, 3.0)
    assert [row["underPressure"] for row in memory["groups"]] == [False, True, False]
    [event] = memory["events"]
    assert (event["process"], event["pid"], event["time"]) == (
        "hog",
        31,
        "1970-01-01T00:16:40.000Z",
    )


def test_enumerations_are_the_program_s() -> None:
    definitions = json.loads(schema.text("podstates"))["$defs"]
    assert definitions["memoryEvent"]["enum"] == list(typing.get_args(EventKind)) == list(KINDS)
    assert definitions["memoryZone"]["enum"] == list(typing.get_args(Zone)) == list(ZONES)
    assert list(memory_rendering.ZONES) == list(ZONES)


@pytest.mark.parametrize(
    ("values", "nice", "plain"),
    [
        ((), "", ""),
        ((0, 0), "  ", "  "),
        ((1, 0, 1), "█ █", "# #"),
        ((0, 1, 2, 3, 4, 5, 6, 7, 8), " ▁▂▃▄▅▆▇█", " _.-=+*%#"),
        ((1, 1000), "▁█", "_#"),
        ((1000, 501, 500), "█▅▄", "#+="),
    ],
)
def test_a_graph_of_one_line(values: tuple[int, ...], nice: str, plain: str) -> None:
    assert (spark(values, NICE), spark(values, PLAIN)) == (nice, plain)


def test_the_screen_draws_who_was_taken_from_and_what_happened_last() -> None:
    lines = screen_lines(VIEW, PLAIN, 80)
    assert lines == [
        "",
        "memory reclaimed, last 60 s",
        "shop/web/app             above high     ___....---====++++***%%%%####      33Mi",
        "shop/web/app             below request                             #       40Ki",
        "",
        "shop/web/app: the kernel OOM-killed process 31 (hog): 64 MiB, at its limit",
    ]
    assert screen_lines(MemoryView(), PLAIN, 80) == []
    only = MemoryView((TIER,), (), NODE)
    assert any("burstable" in line for line in screen_lines(only, PLAIN, 80))


LESS = (
    "app: memory.low 64Mi protects only 60Mi of 64Mi used: /q/b holds 90Mi of 96Mi that its children"
    " claim and use"
)


def test_the_table_says_it_below_the_pod() -> None:
    document = json.loads(encode(pods_document(SEEN, "/q", "cgroupfs")))
    lines = table(document["items"], 2000.0, PLAIN, False, True, document["memory"])
    said = [line for line in lines if line.startswith("  app:")]
    assert said == [
        "  app: restarted 16m ago: OOMKilled, exit code 137",
        "  app: 2 OOM kills, throttled 402x at memory.high, 1 breach of its protection",
        "  app: memory reclaimed below request 40Ki #, above high 23Mi "
        + spark(APP.recent["above_high"], PLAIN).strip(),
        f"  {LESS}",
    ]
    row = document["memory"]["groups"][1]
    row["worthLess"][0] |= {"worthBytes": 0}
    row["worthLess"][0]["because"]["heldBytes"] = 0
    assert [*memory_rendering.remarks([row], 4096, PLAIN)][-1] == (
        "app: memory.low 64Mi protects only 0 of 64Mi used: /q/b has no memory.low"
    )
    assert table(document["items"], 2000.0, PLAIN, False, True)


def test_metrics_keep_what_is_gone() -> None:
    families = text_string_to_metric_families(exposition(SEEN).decode())
    found = {
        (one.name, one.labels.get("container"), one.labels.get("event") or one.labels.get("zone"),
         one.labels.get("what") or one.labels.get("kind")): one.value
        for family in families
        for one in family.samples
        if one.name.startswith("qoslet_memory")
    }  # fmt: skip
    assert found["qoslet_memory_events_total", "app", "oom_kill", None] == 2
    assert found["qoslet_memory_events_total", "x", "high", None] == 1
    assert found["qoslet_memory_reclaim_pages_total", "app", "above_high", "taken"] == 6000
    assert found["qoslet_memory_stalled_seconds_total", "app", None, None] == 1.25
    assert found["qoslet_memory_waiting_seconds_total", "app", None, None] == 2.5
    assert found["qoslet_memory_protected_bytes", "app", None, "low"] == 60 << 20
    assert found["qoslet_memory_claimed_bytes", "app", None, "low"] == 64 << 20
    assert ("qoslet_memory_claimed_bytes", "app", None, "min") not in found
    assert found["qoslet_memory_room_bytes", "app", None, None] == 6 << 20
    assert ("qoslet_memory_protected_bytes", "x", None, "low") not in found
    assert found["qoslet_memory_pressure_seconds_total", None, None, "some"] == 2.0


def test_what_a_process_is_called_cannot_break_a_line() -> None:
    evil = replace(KILL, process="a\nb\x1b[31m")
    view = MemoryView((APP,), (evil,), NODE)
    assert all("\n" not in line and "\x1b" not in line for line in screen_lines(view, PLAIN, 80))
    assert memory_document(view)["events"]


def test_what_the_kernel_does_not_tell_is_absent() -> None:
    """cgroup v1 has no pressure and no protection of cgroups: 0 would say that there was none."""
    store = CounterStore()
    group = TrackedCgroup("/q/b/podu1/app", "container", "web/app", "u1", "shop/web", "app")
    old = MemorySample(group.path, 1.0, 7, 4096, max=1 << 20, local={"max": 1, "oom_kill": 2})
    store.add([group])
    store.record_sample(old, group, (), 1000.0)
    silent = (
        "stalledSeconds",
        "waitingSeconds",
        "underPressure",
        "protectedLowBytes",
        "protectedMinBytes",
    )
    metrics = ("qoslet_memory_stalled", "qoslet_memory_waiting", "qoslet_memory_protected")
    for sample, told in (
        (old, False),
        (replace(old, at=2.0, low=0, min=0, pressure=Pressure(0.0, 0, 0.0, 0)), True),
    ):
        store.record_sample(sample, group, (), 1000.0)
        view = MemoryView(tuple(store.rows(2.0)))
        row = json.loads(encode(memory_document(view)))["groups"][0]
        assert row["unknown"] == ([] if told else list(silent))
        assert row["events"]["oom_kill"] == 2
        jsonschema.validate(
            pods_document(replace(SNAPSHOT, memory_view=view), "/q", "cgroupfs"),
            json.loads(schema.text("podstates")),
        )
        text = exposition(replace(SNAPSHOT, memory_view=view)).decode()
        samples = [line for line in text.splitlines() if line.startswith(metrics)]
        assert bool(samples) == told
        assert 'qoslet_memory_events_total{cgroup="/q/b/podu1/app"' in text


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_local_kills_are_not_exported_as_those_of_all_below(hierarchy: str, tmp_path: Path) -> None:
    """Source: mm/memcontrol.c: memory.oom_control counts in the cgroup, memory.events below, too."""
    plan = made(tmp_path)
    node = replace(plan.node, host=replace(plan.node.host, hierarchy=hierarchy))
    paths = [replace(one, path=one.path or one.name) for one in plan.cgroups]
    plan = replace(plan, node=node, cgroups=tuple(paths))
    seen = {one.path: ObservedCgroup(one.path or "", 1, oom_kills=0) for one in paths}
    found = rows(plan, Observed(1.0, seen), {}, (), {})  # type: ignore[arg-type]
    assert {row.level for row in found} >= {"node", "qos", "pod", "container"}
    for row in found:
        assert (row.oom_kills is None) == (hierarchy == "v1" and row.level != "container")
