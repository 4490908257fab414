"""The rows of ``top``: usage joined with the plan, sorted, folded and filtered."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml
from msgspec.structs import replace

from qoslet import schema
from qoslet.core.api.manifest import Options
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.status.node_top import TopRow, arranged, top_rows
from qoslet.host.files.manifests import load_text
from qoslet.render.documents import encode
from qoslet.render.documents.top import top_document
from qoslet.render.terminal import Terminal
from qoslet.render.text.live.top import LEAST_WIDTH, draw, summary
from tests.core.vectors.fixtures import node_of

PODS = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: web, uid: u1}
  spec:
    initContainers:
    - {name: first, image: x, resources: {requests: {cpu: "2", memory: 2Gi}}}
    containers:
    - {name: app, image: x, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 500m, memory: 128Mi}}}
    - {name: mesh, image: x, resources: {requests: {cpu: 50m}}}
  status: {containerStatuses: [{name: app, containerID: "containerd://aa"}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: batch, uid: u2}
  spec: {containers: [{name: main, image: x}]}
"""
MIB = 1 << 20


def made() -> Plan:
    node = node_of("1.36", capacity={"cpu": "4", "memory": "8Gi"}, host={"hierarchy": "v2"})
    return plan(load_text(PODS, Options()).pods, node)


def path_of(answer: Plan, name: str) -> str:
    (cgroup,) = [
        one for one in answer.cgroups if one.name.endswith(name) and one.level != "sandbox"
    ]
    assert cgroup.path is not None
    return cgroup.path


def seen(answer: Plan, at: float, name: str, **fields: object) -> Observed:
    path = path_of(answer, name)
    one = ObservedCgroup(path, 7, **fields)  # type: ignore[arg-type]
    return Observed(at, {path: one})


def by_title(rows: tuple[TopRow, ...]) -> dict[str, TopRow]:
    return {row.title: row for row in rows}


def test_usage_is_joined_with_requests_and_limits() -> None:
    answer = made()
    values = {
        "cpu.max": "50000 100000",
        "memory.max": str(128 * MIB),
        "memory.high": "max",
        "memory.pressure": "some avg10=12.50 avg60=0 avg300=0 total=1\nfull avg10=1.0 total=1",
        "memory.events": "low 0\nhigh 3\nmax 0\noom 1\noom_kill 1",
    }
    before = seen(answer, 10.0, "/app", usage_usec=1_000_000)
    now = seen(
        answer, 12.0, "/app", usage_usec=2_000_000, memory=100 * MIB, values=values, oom_kills=1
    )
    row = by_title(top_rows(answer, before, now))["app"]
    assert (row.exists, row.cpu, row.cpu_request, row.cpu_limit) == (True, 0.5, 0.1, 0.5)
    assert (row.memory, row.memory_request, row.memory_limit) == (100 * MIB, 64 * MIB, 128 * MIB)
    assert (row.memory_high, row.pressure, row.oom_kills) == (None, 12.5, 1)
    assert row.events["high"] == 3
    assert row.cpu_share == 1.0
    assert row.memory_share == 100 / 128


def test_above_containers_v1_counts_no_oom_kills() -> None:
    answer = made()
    v1 = {"memory.limit_in_bytes": str(128 * MIB)}
    v2 = {"memory.events": "oom_kill 3"}
    for values, above in ((v1, None), (v2, 3)):
        found = {
            cgroup.path: ObservedCgroup(cgroup.path, 1, values, oom_kills=3)
            for cgroup in answer.cgroups
            if cgroup.path
        }
        rows = by_title(top_rows(answer, None, Observed(0.0, found)))
        assert rows["app"].oom_kills == 3
        assert [rows[one].oom_kills for one in ("default/web", "burstable")] == [above] * 2


def test_a_pod_has_the_requests_of_what_runs_in_it() -> None:
    row = by_title(top_rows(made(), None, Observed(0.0, {})))["default/web"]
    assert row.cpu_request == 0.15
    assert row.memory_request == 64 * MIB
    assert (row.exists, row.cpu, row.memory) == (False, None, None)


def test_a_cgroup_made_again_has_no_rate() -> None:
    answer = made()
    before = seen(answer, 10.0, "/app", usage_usec=9_000_000)
    now = seen(answer, 12.0, "/app", usage_usec=1_000)
    path = path_of(answer, "/app")
    other = Observed(12.0, {path: replace(now.cgroups[path], identity=8)})
    assert by_title(top_rows(answer, before, other))["app"].cpu is None
    assert by_title(top_rows(answer, before, now))["app"].cpu is None, "it went back"


def test_rows_stand_below_their_parents() -> None:
    rows = top_rows(made(), None, Observed(0.0, {}))
    names = {row.name: row for row in rows}
    for row in rows:
        assert row.depth == (names[row.parent].depth + 1 if row.parent else 0)
    assert not any(row.level == "sandbox" for row in rows)


def row(name: str, parent: str = "", **fields: object) -> TopRow:
    return TopRow(name, name, "pod", name.rpartition("/")[2], parent, 0, **fields)  # type: ignore[arg-type]


ROWS = (
    row("/k"),
    row("/k/b", "/k", memory=5),
    row("/k/b/x", "/k/b", memory=1, cpu=2.0),
    row("/k/b/y", "/k/b", memory=4, cpu=None),
    row("/k/a", "/k", memory=9),
)


def titles(shown: list[TopRow]) -> str:
    return " ".join(one.title for one in shown)


def test_siblings_are_sorted_and_trees_kept() -> None:
    assert titles(arranged(ROWS)) == "k b x y a"
    assert titles(arranged(ROWS, "memory")) == "k a b y x"
    assert titles(arranged(ROWS, "cpu")) == "k b x y a"
    assert titles(arranged(ROWS, "name")) == "k a b x y"


def test_what_is_folded_has_no_rows_below() -> None:
    assert titles(arranged(ROWS, folded={"/k/b"})) == "k b a"
    assert titles(arranged(ROWS, folded={"/k"})) == "k"


def test_a_filter_keeps_what_stands_above_and_below() -> None:
    assert titles(arranged(ROWS, wanted="y")) == "k b y"
    assert titles(arranged(ROWS, wanted="B")) == "k b x y"
    assert titles(arranged(ROWS, wanted="nothing")) == ""


def test_500_pods_are_arranged_at_once() -> None:
    many = [row("/k")] + [row(f"/k/{at}", "/k", cpu=float(at)) for at in range(1500)]
    assert arranged(many, "cpu", wanted="149")[1].title == "1499"


def test_the_document_conforms_to_its_schema() -> None:
    answer = made()
    now = seen(answer, 12.0, "/app", memory=100 * MIB, values={"memory.events": "high 3"})
    document = json.loads(encode(top_document(answer, top_rows(answer, None, now), 1.0)))
    jsonschema.Draft202012Validator(json.loads(schema.text("top"))).validate(document)
    assert [one["memoryBytes"] for one in document["cgroups"] if one["exists"]] == [100 * MIB]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            "Completed, exit code 0",
        ),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            },
            "OOMKilled, exit code 137; CrashLoopBackOff",
        ),
        ({"state": {"terminated": {"exitCode": 2}}}, "exit code 2"),
        ({"state": {"waiting": {}}}, ""),
    ],
)
def test_a_container_that_has_ended_is_absent_as_it_should_be(
    status: dict[str, Any], told: str
) -> None:
    ended = {"containerID": "containerd://ff", **status}
    document = yaml.safe_load(PODS)
    document["items"][0]["status"]["initContainerStatuses"] = [{"name": "first", **ended}]
    answer = plan(load_text(json.dumps(document), Options()).pods, made().node)
    rows = top_rows(answer, None, Observed(1.0, {}))
    assert [row.title for row in rows if row.has_ended] == ["first"]
    drawn = list(draw(rows, Terminal(width=100)))
    (line,) = (line for line in drawn if line.split()[0] == "first")
    assert line.split(maxsplit=2)[1:] == ["ended", told][: 2 if told else 1]
    assert f"{len(rows) - 1} absent" in summary(rows, "n1")


def test_the_narrowest_terminal_shows_what_a_cgroup_uses() -> None:
    answer = made()
    rows = top_rows(answer, None, seen(answer, 1.0, "/app"))
    lines = list(draw(rows, Terminal(unicode=True, width=LEAST_WIDTH)))
    assert max(len(one) for one in lines) <= LEAST_WIDTH
    assert lines[0].split() == ["NAME", "CPU", "memory"]
