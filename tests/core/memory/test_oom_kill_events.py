"""OOM kills as the log and the counters tell them."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.memory.counter_store import MAX_EVENTS, MAX_REMOVED_CGROUPS, CounterStore
from qoslet.core.memory.counters import MAX_SPANS, SPAN_SECONDS, ReclaimHistory, event
from qoslet.core.memory.event_log import MAX_LINES, WINDOW_SECONDS, MemoryEventLog
from qoslet.core.memory.events import (
    NOTHING_RECLAIMED,
    UNPROTECTED,
    OomKill,
    change_between,
)
from qoslet.core.memory.oom_kills import LOG_DELAY_SECONDS, OomKillTracker, inside
from qoslet.core.memory.rows import MemoryEvent, TrackedCgroup
from qoslet.core.memory.stat_parser import kill_of
from tests.core.memory.test_events import GROUP, GROUPS, MIB, POD, pages, sample


def kill_event(count: int = 1) -> MemoryEvent:
    return event(GROUP, "oom_kill", count, 5.0)


def test_a_counted_kill_waits_a_moment_for_its_name() -> None:
    kills = OomKillTracker()
    kills.add_count(kill_event(), GROUP.key, 10.0, True)
    assert kills.resolve(10.0, {}) == []
    assert kills.next_at() == 10.0 + LOG_DELAY_SECONDS
    kills.add_records(
        [OomKill(31, "hog", "/q/p/app", "/q/p"), OomKill(31, "hog", resident=3 * MIB)], 10.1
    )
    [(found, key, group)] = kills.resolve(10.1, {})
    assert group == "/q/p/app"
    assert (found.process, found.pid, found.count, key) == ("hog", 31, 1, GROUP.key)
    assert found.why == "3 MiB, at the limit of /q/p"
    assert kills.next_at() is None


def test_nobody_is_named_who_is_not_known() -> None:
    kills = OomKillTracker()
    kills.add_count(kill_event(3), GROUP.key, 10.0, True)
    kills.add_records(
        [OomKill(31, "hog", "/q/p/app", "/q/p/app"), OomKill(9, "other", "/q/x")], 10.0
    )
    found = kills.resolve(10.0 + LOG_DELAY_SECONDS, {})
    assert [(one.event.process, one.event.count) for one in found] == [("hog", 1), ("", 2)]
    assert found[0].event.why == "at its limit"


def test_of_a_group_that_was_killed_whole_the_log_decides_how_many() -> None:
    kills = OomKillTracker()
    kills.add_count(kill_event(3), GROUP.key, 10.0, True, whole=True)
    whole = kill_of("6,1,2,-;Tasks in /q/p/app are going to be killed due to memory.oom.group set")
    assert whole == OomKill(0, "", "/q/p/app")
    kills.add_records(
        [OomKill(31, "a", "/q/p/app", "/q/p/app"), OomKill(31, "a", resident=5)], 10.0
    )
    assert [one.event.process for one in kills.resolve(10.0, {})] == ["a"]
    kills.add_records(
        [whole, OomKill(31, "a"), OomKill(32, "b"), OomKill(7, "other", "/q/x")], 10.1
    )
    assert [one.event.process for one in kills.resolve(10.1, {})] == ["b"]
    assert kills.resolve(10.0 + LOG_DELAY_SECONDS, {}) == [], "its first victim was counted twice"
    kills.add_count(kill_event(2), POD.key, 20.0, True, whole=True)
    [one] = kills.resolve(20.0 + LOG_DELAY_SECONDS, {})
    assert (one.event.process, one.event.count) == ("", 2), "the log says nothing of them"


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("/q/p/app", "at its limit"),
        ("/q/p", "at the limit of /q/p"),
        ("", "the machine had no memory left"),
    ],
)
def test_of_a_group_that_was_killed_whole_all_died_for_the_same_limit(limit: str, why: str) -> None:
    kills = OomKillTracker()
    kills.add_count(kill_event(3), GROUP.key, 10.0, True, whole=True)
    records = [OomKill(31, "a", "/q/p/app", limit), OomKill(31, "a"), OomKill(0, "", "/q/p/app")]
    kills.add_records([*records, OomKill(31, "a"), OomKill(32, "b"), OomKill(33, "c")], 10.0)
    found = [one.event for one in kills.resolve(10.0, {})]
    assert [(one.process, one.why) for one in found] == [("a", why), ("b", why), ("c", why)]


def test_without_a_log_the_runtime_knows_the_first_process() -> None:
    kills = OomKillTracker()
    kills.add_count(kill_event(), GROUP.key, 10.0, False)
    [(found, _, _)] = kills.resolve(10.0, {GROUP.key: 77})
    assert (found.process, found.pid) == ("its first process", 77)


def test_the_kernel_s_paths_may_begin_further_up() -> None:
    assert inside("/q/p/app/deep", "/q/p/app")
    assert inside("/docker/7/q/p/app", "/q/p/app")
    assert not inside("/q/p/app2", "/q/p/app")
    assert not inside("/q/p", "/q/p/app")


def seen(tallies: CounterStore, path: str, wall: float = 5.0, **more: Any) -> list[MemoryEvent]:
    above = [GROUPS[at] for at in ("/q", "/q/p") if path.startswith(f"{at}/")]
    return tallies.record_sample(sample(path, **more), GROUPS[path], above, wall)


def counted(tallies: CounterStore) -> dict[str, dict[str, int]]:
    return {
        row.title: {str(kind): count for kind, count in row.events.items()}
        for row in tallies.rows(0.0)
    }


def test_on_v2_each_group_is_told_where_it_happened_and_counted_above() -> None:
    tallies = CounterStore()
    tallies.add(GROUPS.values())
    for path in GROUPS:
        seen(tallies, path, events={"oom_kill": 0}, local={"oom_kill": 0})
    told = []
    for path in GROUPS:
        mine = {"oom_kill": 1} if path == "/q/p/app" else {"oom": 1} if path == "/q/p" else {}
        every = {"oom_kill": 1} if path == "/q/p/app" else {"oom_kill": 1, "oom": 1}
        told += seen(tallies, path, events=every, local=mine)
    assert [(one.title, one.kind) for one in told] == [
        ("d/p", "oom"),
        ("d/p/app", "oom_kill"),
    ]
    assert {title: found["oom_kill"] for title, found in counted(tallies).items()} == {
        "q": 1,
        "d/p": 1,
        "d/p/app": 1,
    }


def test_on_v1_what_happens_to_one_counts_above() -> None:
    tallies = CounterStore()
    tallies.add(GROUPS.values())
    for path in GROUPS:
        seen(tallies, path, local={"oom_kill": 0, "max": 0})
    told = seen(tallies, "/q/p/app", local={"oom_kill": 2, "max": 0})
    told += seen(tallies, "/q/p", local={"oom_kill": 0, "max": 5})
    assert [(one.title, one.kind, one.count) for one in told] == [
        ("d/p/app", "oom_kill", 2),
        ("d/p", "max", 5),
    ]
    assert counted(tallies) == {
        "q": {"oom_kill": 2, "max": 5},
        "d/p": {"oom_kill": 2, "max": 5},
        "d/p/app": {"oom_kill": 2},
    }


def test_what_happened_before_anybody_looked_at_a_group_of_others_is_no_news() -> None:
    tallies = CounterStore()
    tallies.add(GROUPS.values())
    assert seen(tallies, "/q", events={"oom_kill": 4}, local={"oom_kill": 4}) == []
    assert counted(tallies)["q"] == {"oom_kill": 4}
    [one] = seen(tallies, "/q/p/app", events={"oom_kill": 1}, local={"oom_kill": 1})
    assert one.kind == "oom_kill", "a container's group is ours from its start"


def test_counters_outlive_restarts_their_group_and_the_agent() -> None:
    tallies = CounterStore()
    tallies.add(GROUPS.values())
    seen(tallies, "/q/p/app", events={"oom_kill": 1}, stat=pages(7))
    seen(tallies, "/q/p/app", events={"oom_kill": 2}, stat=pages(5), identity=9)
    tallies.record_event(kill_event(), GROUP.key)
    assert counted(tallies)["d/p/app"] == {"oom_kill": 3}
    again = CounterStore()
    assert again.load(tallies.dump())
    again.add(GROUPS.values())
    seen(again, "/q/p/app", events={"oom_kill": 2}, stat=pages(6), identity=9)
    [row] = [row for row in again.rows(0.0) if row.title == "d/p/app"]
    assert (row.events, row.gone) == ({"oom_kill": 3}, False)
    assert sum(one.taken for one in row.reclaimed.values()) == 13
    assert row.last == kill_event()
    again.remove([POD, GROUP], 9.0)
    [row] = [row for row in again.rows(0.0) if row.title == "d/p/app"]
    assert (row.events, row.gone) == ({"oom_kill": 3}, True)


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'{"tallies": [{}], "events": []}', b"\xff"])
def test_what_is_no_dump_changes_nothing(text: bytes) -> None:
    tallies = CounterStore()
    tallies.add(GROUPS.values())
    assert not tallies.load(text)
    assert len(tallies.rows(0.0)) == 3


def test_history_is_bounded() -> None:
    tallies = CounterStore()
    for at in range(MAX_REMOVED_CGROUPS + 50):
        one = TrackedCgroup(f"/q/{at}", "pod", f"d/{at}", str(at), f"d/{at}")
        tallies.add([one])
        for _ in range(3):
            tallies.record_event(event(one, "high", 1, 1.0), one.key)
        tallies.remove([one], 1.0)
    assert len(tallies.rows(0.0)) == MAX_REMOVED_CGROUPS
    assert len(tallies.events) == MAX_EVENTS


def test_a_graph_of_the_last_minute() -> None:
    recent = ReclaimHistory()
    recent.add("above_high", 100, 0.0, 0.5)
    recent.add("below_request", 90, 1.0, 5.0)
    spans = recent.spans(5.0)
    assert spans["above_high"][-3:] == (100, 0, 0)
    assert spans["below_request"][-3:] == (30, 30, 30)
    assert len(spans["above_high"]) == MAX_SPANS
    recent.add("above_high", 1000, 5.0, 5.0 + 10 * SPAN_SECONDS * MAX_SPANS)
    later = recent.spans(5.0 + 10 * SPAN_SECONDS * MAX_SPANS)
    assert set(later) == {"above_high"}
    assert sum(later["above_high"]) <= 110, "what was taken earlier is not drawn now"


def test_lines_are_few_and_nobody_who_died_is_left_out() -> None:
    lines = MemoryEventLog()
    high = event(GROUP, "high", 7, 1.0)
    assert lines.lines([high], 0.0) == ["d/p/app: throttled 7 times at memory.high"]
    assert lines.lines([high] * 100, 5.0) == []
    assert lines.lines([high], 700.0) == ["d/p/app: throttled 707 times at memory.high"]
    assert lines.lines([event(GROUP, "max", 7, 1.0), event(GROUP, "oom", 1, 1.0)], 700.0) == []
    others = [
        event(TrackedCgroup(f"/q/{at}", "pod", f"d/{at}", str(at)), "low", 1, 1.0)
        for at in range(50)
    ]
    assert len(lines.lines(others, 701.0)) == MAX_LINES - 1
    after = lines.lines([], 701.0 + WINDOW_SECONDS)
    assert after == [f"{51 - MAX_LINES} more memory events suppressed; see qoslet ps"]


def test_nothing_taken_is_nothing() -> None:
    assert change_between(sample(), sample(), 0, UNPROTECTED).reclaimed == NOTHING_RECLAIMED
