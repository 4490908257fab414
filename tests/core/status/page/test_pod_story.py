"""Why a pod was slow or killed: events from the difference of two looks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Options
from qoslet.core.api.pod import Pod
from qoslet.core.status.node_top import TopRow
from qoslet.core.status.page.agent_story import AgentStory
from qoslet.core.status.page.node_view import NodeView, freshness, marks, node_view
from qoslet.core.status.page.pod_story import EVENTS_OF_A_POD, GONE_PODS, PodStories, StoryEvent
from qoslet.core.status.page.row_history import RowHistory
from qoslet.host.files.manifests import load_text
from tests.web.demo import node_plan

PLAN = node_plan(1)
MIB = 1 << 20
POD = TopRow("/k/podu0", "/k/podu0", "pod", "shop/web-0", "/k", 1, exists=True, identity=1)
APP = TopRow(
    "/k/podu0/app", "/k/podu0/1", "container", "app", "/k/podu0", 2, exists=True, identity=2
)


def view(at: float, *rows: TopRow, seconds: float = 2.0) -> NodeView:
    return node_view(PLAN, rows, at=at, seconds=seconds, interval=2.0)


def told(*looks: NodeView) -> list[StoryEvent]:
    stories = PodStories()
    for one in looks:
        stories.look(one, 1000.0 + one.at)
    return list(stories.of("shop/web-0"))


def test_what_was_there_at_the_first_look_did_not_start() -> None:
    assert told(view(2, POD, APP), view(4, POD, APP)) == []


def test_what_ended_before_or_was_not_seen_is_not_told() -> None:
    seen = replace(PLAN.pods[0].pod, phase="Failed", reason="Evicted", message=" low \n")
    stories = PodStories()
    stories.end([replace(seen, uid="earlier")], 1, 1001.0)
    stories.look(view(2, POD, APP), 1002.0)
    for at in (3, 5):
        stories.end([replace(seen, uid="earlier"), seen, replace(seen, name="x")], at, 1000.0 + at)
    (event,) = stories.of(seen.key)
    assert (event.kind, event.at, event.severity) == ("ended", 3, "error")
    assert event.text == "failed: Evicted: low"
    assert stories.pods() == {seen.key}


def test_throttling_that_goes_on_is_one_event() -> None:
    slow = replace(APP, throttled=0.5, cpu_limit=0.2)
    (event,) = told(view(2, POD, APP), view(4, POD, slow), view(6, POD, slow), view(8, POD, APP))
    assert (event.kind, event.container, event.amount, event.limit) == (
        "throttled",
        "app",
        1.0,
        0.2,
    )
    assert (event.at, event.until, event.seconds, event.wall) == (2, 6, 4, 1002)


def test_throttling_after_a_pause_is_another_event() -> None:
    slow = replace(APP, throttled=0.5)
    quiet = [view(at, POD, APP) for at in range(6, 20, 2)]
    events = told(view(2, POD, APP), view(4, POD, slow), *quiet, view(20, POD, slow))
    assert [one.at for one in events] == [2, 18]


def test_memory_in_the_order_in_which_it_went_wrong() -> None:
    at_high = replace(
        APP, memory_high=48 * MIB, memory_limit=64 * MIB, pressure=40.0, events={"high": 30}
    )
    full = replace(at_high, events={"high": 60, "max": 4})
    killed = replace(full, pressure=0.0, events={"high": 60, "max": 5, "oom_kill": 1}, oom_kills=1)
    again = replace(APP, path="/k/podu0/2", identity=3)
    events = told(
        view(2, POD, APP),
        view(4, POD, at_high),
        view(6, POD, full),
        view(8, POD, killed),
        view(10, POD, again),
    )
    assert [one.kind for one in events] == ["slowed", "at-limit", "oom-kill", "restarted"]
    assert events[0].amount == 60
    assert events[2].limit == 64 * MIB
    assert events[2].severity == "error"


def test_waiting_below_memory_high_is_not_said_to_be_its_doing() -> None:
    (event,) = told(view(2, POD, APP), view(4, POD, replace(APP, pressure=30.0)))
    assert event.kind == "waited"


def test_a_kill_between_two_looks_is_told_before_the_restart() -> None:
    again = replace(APP, path="/k/podu0/2", identity=3)
    killed = replace(POD, events={"oom_kill": 1})
    events = told(view(2, replace(POD, events={"oom_kill": 0}), APP), view(4, killed, again))
    assert [(one.kind, one.container) for one in events] == [
        ("oom-kill", "app"),
        ("restarted", "app"),
    ]
    assert [one.kind for one in told(view(2, POD, APP), view(4, POD, again))] == ["restarted"]


def test_a_counter_that_goes_back_kills_nobody() -> None:
    before = replace(APP, events={"oom_kill": 7, "high": 5}, oom_kills=7)
    assert told(view(2, POD, before), view(4, POD, replace(APP, oom_kills=0))) == []


def test_a_pod_without_containers_tells_by_its_own_row() -> None:
    (event,) = told(view(2, POD), view(4, replace(POD, oom_kills=2, events={})))
    assert (event.kind, event.amount, event.container) == ("oom-kill", 2, "")


def test_a_removed_pod_keeps_its_story_for_a_while() -> None:
    stories = PodStories()
    names = [f"shop/p{at}" for at in range(GONE_PODS + 5)]
    for at, name in enumerate(names):
        stories.look(view(2.0 * at, replace(POD, title=name, name=name)), 0.0)
    assert [one.kind for one in stories.of(names[20])] == ["started", "removed"]
    assert stories.of(names[0]) == ()
    assert len(stories.pods()) <= GONE_PODS + 2


def test_a_story_is_bounded() -> None:
    stories = PodStories()
    for at in range(EVENTS_OF_A_POD + 50):
        stories.add("d/p", StoryEvent("restarted", at, at, at))
    assert len(stories.of("d/p")) == EVENTS_OF_A_POD


def test_a_wall_clock_set_back_neither_reorders_nor_ages() -> None:
    stories = PodStories()
    slow = replace(APP, throttled=0.5)
    stories.look(view(2, POD, APP), 5000.0)
    stories.look(view(4, POD, slow), 5002.0)
    stories.look(view(6, POD, replace(APP, identity=9)), 1000.0)
    assert [one.kind for one in stories.of("shop/web-0")] == ["throttled", "restarted"]
    assert not freshness(view(6, POD), 8.0).stale
    assert freshness(view(6, POD), 20.0).stale
    assert not freshness(replace(view(6, POD), interval=None), 9e9).stale


def agent_document(**memory: Any) -> dict[str, Any]:
    return {"memory": memory, "items": []}


def test_what_an_agent_repeats_is_told_once() -> None:
    story = AgentStory()
    row = {
        "time": "2026-11-23T10:00:00Z",
        "cgroup": "/q/podu0/app",
        "pod": "shop/web-0",
        "container": "app",
        "mode": "act",
        "answer": "limit",
        "because": "reclaim frees nothing",
    }
    kill = {**row, "event": "oom_kill", "process": "stress", "why": "", "count": 1}
    document = agent_document(guard={"decisions": [row]}, events=[kill])
    first = list(story.events(document, 50.0, 1_795_428_010.0))
    assert [(pod, one.kind, one.container) for pod, one in first] == [
        ("shop/web-0", "oom-kill", "app"),
        ("shop/web-0", "guard", "app"),
    ]
    assert first[1][1].text == "limit (act): reclaim frees nothing"
    assert list(story.events(document, 52.0, 1_795_428_012.0)) == []


def test_an_agent_says_why_a_pod_failed() -> None:
    item = {
        "namespace": "shop", "name": "web-0", "uid": "u0", "phase": "Failed", "since": "2026-11-23T10:00:00Z",
        "reason": "Evicted", "status": "Evicted", "message": "the node was short of memory",
    }  # fmt: skip
    ((pod, event),) = AgentStory().events({"items": [item]}, 1.0, 2.0)
    assert (pod, event.text) == ("shop/web-0", "Evicted: the node was short of memory")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"event": "max"}, "at its memory limit"),
        ({"event": "oom_kill", "process": "stress", "why": "64 MiB, at its limit"}, "stress 64 MiB, at its limit"),
        ({"event": "oom_kill"}, "a process"),
    ],
)  # fmt: skip
def test_memory_events_are_told_in_words(row: dict[str, object], text: str) -> None:
    found = agent_document(events=[{"time": "2026-11-23T10:00:00Z", "pod": "shop/web-0", **row}])
    ((_, event),) = AgentStory().events(found, 1.0, 2.0)
    assert event.text == text


def test_the_last_end_of_a_container_is_told_once() -> None:
    last = {
        "exitCode": 137, "reason": "Error", "finishedAt": "2026-11-23T10:00:00Z", "afterProbe": False,
    }  # fmt: skip
    one = {"name": "app", "cgroup": "/q/podu0/app", "lastExit": last}
    item = {"namespace": "shop", "name": "web-0", "uid": "u0", "phase": "Running"}
    story, found = (
        AgentStory(),
        {"items": [{**item, "containers": [one, {**one, "lastExit": None}]}]},
    )
    ((pod, event),) = story.events(found, 1.0, 2.0)
    assert (pod, event.container) == ("shop/web-0", "app")
    assert (event.severity, event.text) == ("warning", "exited: Error, exit code 137")
    assert list(story.events(found, 3.0, 4.0)) == []


def pod_with_status(*statuses: dict[str, Any]) -> Pod:
    """A pod of a kubelet, with what its status says of its containers."""
    names = [{"name": one["name"]} for one in statuses]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u0"},
        "spec": {"containers": names},
        "status": {"containerStatuses": list(statuses)},
    }
    (pod,) = load_text(json.dumps(document).encode(), Options(), name="p").pods
    return pod


def ended(reason: str, code: int, second: int) -> dict[str, Any]:
    finished = f"1970-01-01T00:16:{second:02}Z"
    return {"terminated": {"reason": reason, "exitCode": code, "finishedAt": finished}}


def test_how_containers_ended_by_the_status_is_told_once_each() -> None:
    """Of a kubelet on cgroup v1: the cgroup of what was OOM-killed is gone before a look sees the kill."""
    loop = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 2}
    first = pod_with_status({**loop, "lastState": ended("OOMKilled", 137, 30)}, {"name": "new"})
    story = AgentStory()
    ((pod, event),) = story.exits([first], 60.0, 1000.0)
    assert (pod, event.container, event.severity) == ("shop/web-0", "app", "warning")
    assert (event.text, event.at, event.wall) == ("exited: OOMKilled, exit code 137", 50.0, 990.0)
    assert list(story.exits([first], 62.0, 1002.0)) == []
    again = pod_with_status({**loop, "state": ended("", 0, 59), "lastState": ended("Error", 1, 30)})
    assert [(one.text, one.severity) for _, one in story.exits([again], 64.0, 1020.0)] == [
        ("exited with code 0", "info")
    ]
    assert marks(POD, (), 2.0, 0, first) == ("CrashLoopBackOff", "OOM-killed")
    assert marks(POD, (), 2.0, 0, again) == ()
    starting = pod_with_status(
        {"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}},
        {"name": "odd", "state": {"waiting": 7}, "lastState": {"terminated": {"exitCode": "x"}}},
    )
    assert marks(POD, (), 2.0, 0, starting) == ()


def test_marks_name_the_worst_first() -> None:
    row = replace(POD, memory=97, memory_limit=100, throttled=1.0, pressure=50.0, oom_kills=1)
    assert marks(row, (), 2.0, 2) == (
        "OOM-killed", "at memory limit", "waits for memory", "throttled", "2 audit findings",
    )  # fmt: skip
    assert marks(replace(POD, exists=False), (), 2.0, 0) == ("absent",)
    assert marks(POD, (APP,), 2.0, 0) == ()


def test_history_is_a_ring_that_forgets_what_is_gone() -> None:
    history = RowHistory(looks=3)
    for at in range(5):
        history.add([replace(POD, memory=at)] + ([APP] if at < 4 else []), float(at), 1.0)
    line = history.timeline(POD.name, "memory")
    assert (line.seconds, line.values) == ((-2, -1, 0), (2, 3, 4))
    assert history.timeline(APP.name, "memory").values == ()
    history.add([POD, replace(APP, throttled=0.25)], 5.0, 1.0)
    assert history.timeline(APP.name, "throttled").values == (None, None, 25.0)
    assert history.timeline(POD.name, "memory").values == (3, 4, None)
