"""The pods of a node from the best source that answers: an outage loses none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from qoslet.app.node.sources.preferred import PreferredPods
from qoslet.app.node.sources.reader import Seen
from qoslet.core.node.running_kubelet.listed_pods import uids_of
from qoslet.core.node.running_kubelet.pods_reading import PodSourceName, PodsReading
from qoslet.errors import CannotDo


def pod_list(uids: Iterable[str]) -> bytes:
    return json.dumps({"items": [{"metadata": {"uid": one}} for one in sorted(uids)]}).encode()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Values:
    """A reader of values; ``fault`` set: it does not answer."""

    def __init__(self, source: PodSourceName, clock: Clock, *, watches: bool = False) -> None:
        self.source: PodSourceName = source
        self.interval_seconds = 10.0
        self.stamp: float | None = None
        self.clock, self.watches = clock, watches
        self.uids: set[str] = set()
        self.complete, self.fault = True, ""
        self.note, self.usual, self.live = "", False, False
        self.running: frozenset[str] = frozenset()
        self.reads = self.rests = self.requests = 0

    def read(self, known: frozenset[str]) -> Seen:
        self.reads += 1
        if self.fault:
            raise CannotDo(self.fault)
        return Seen(
            pod_list(self.uids),
            self.source,
            self.clock.now if self.stamp is None else self.stamp,
            self.complete,
            self.watches,
            self.running,
            self.note,
            self.usual,
            self.live,
        )

    def descriptors(self) -> Sequence[int]:
        return (1,) if self.live else ()

    def rest(self) -> None:
        self.rests += 1


class Sources:
    """A kubelet, an API server and a runtime under one choice."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.kubelet = Values("kubelet", self.clock)
        self.api = Values("api", self.clock, watches=True)
        self.cri = Values("cri", self.clock)
        self.cri.complete = False
        self.pods = PreferredPods([self.kubelet, self.api, self.cri], self.clock, lambda: 0.5)

    def later(self, seconds: float = 11.0) -> PodsReading:
        self.clock.now += seconds
        return self.pods.poll()


@pytest.fixture
def sources() -> Sources:
    return Sources()


def test_the_first_choice_asks_nobody_else(sources: Sources) -> None:
    sources.kubelet.uids = {"a"}
    found = sources.later()
    assert (found.source, found.complete, found.reason) == ("kubelet", True, "")
    for _ in range(360):
        sources.later(10.0)
    assert (sources.api.reads, sources.cri.reads) == (0, 0), "no request in an hour"
    assert sources.kubelet.reads == 361
    assert sources.pods.next_at() == sources.clock.now + 10


def test_a_source_is_asked_again_at_once_where_that_is_needed(sources: Sources) -> None:
    sources.kubelet.uids = {"a"}
    sources.later()
    sources.kubelet.uids = {"a", "b"}
    assert uids_of(sources.later(1.0).pods) == {"a"}
    sources.pods.refresh()
    assert uids_of(sources.later(0.0).pods) == {"a", "b"}
    assert sources.kubelet.reads == 2
    assert sources.api.reads == 0


def test_nobody_is_asked_while_no_time_is_to_be_lost(sources: Sources) -> None:
    sources.kubelet.uids = sources.api.uids = {"a"}
    sources.later()
    sources.kubelet.uids = {"a", "b"}
    sources.clock.now += 100
    assert uids_of(sources.pods.poll(asks=False).pods) == {"a"}
    assert sources.kubelet.reads == 1
    assert uids_of(sources.pods.poll().pods) == {"a", "b"}
    sources.kubelet.fault, sources.api.live = "down", True
    sources.api.uids = {"a", "b"}
    assert sources.later().source == "api"
    sources.api.uids = {"c", "a", "b"}
    reads = sources.kubelet.reads
    assert uids_of(sources.pods.poll(asks=False).pods) == {"a", "b", "c"}, "a watch tells by itself"
    assert sources.kubelet.reads == reads


def test_a_source_that_fails_hands_over_with_the_reason_and_gets_back(sources: Sources) -> None:
    sources.kubelet.uids = sources.api.uids = {"a", "b"}
    sources.later()
    sources.kubelet.fault = "connection refused"
    found = sources.later()
    assert (found.source, found.complete) == ("api", True)
    assert found.reason == "kubelet: connection refused"
    reads = sources.kubelet.reads
    sources.later(1.0)
    assert sources.kubelet.reads == reads, "it is not asked at once"
    sources.kubelet.fault = ""
    found = sources.later(130.0)
    assert (found.source, found.reason) == ("kubelet", "")
    sources.later()
    assert sources.api.rests >= 1, "its watch ends"


def test_an_outage_of_all_keeps_what_was_known(sources: Sources) -> None:
    for one in (sources.kubelet, sources.api, sources.cri):
        one.fault = "down"
    with pytest.raises(CannotDo, match="cannot be read"):
        sources.later()
    sources.kubelet.fault = ""
    sources.kubelet.uids = {"a", "b"}
    before = sources.later()
    sources.kubelet.fault = "down"
    after = sources.later(300.0)
    assert (after.pods, after.version) == (before.pods, before.version)
    assert not after.complete
    assert after.reason == "kubelet, api, cri: down"


def test_another_source_with_fewer_pods_is_believed_the_second_time(sources: Sources) -> None:
    sources.kubelet.uids, sources.api.uids = {"a", "b"}, {"a"}
    sources.later()
    sources.kubelet.fault = "down"
    found = sources.later()
    assert uids_of(found.pods) == {"a", "b"}
    assert found.complete is False
    assert "api lacks 1 of the known pods" in found.reason
    sources.pods.poll()
    assert not sources.pods.poll().complete, "the same answer is not a second one"
    found = sources.later()
    assert uids_of(found.pods) == {"a"}
    assert (found.complete, found.source) == (True, "api")


def test_a_watch_that_opens_right_after_its_list_is_no_second_answer(sources: Sources) -> None:
    sources.kubelet.uids, sources.api.uids = {"a", "b"}, {"a"}
    sources.later()
    sources.kubelet.fault = "down"
    assert not sources.later().complete
    sources.api.live = True
    assert not sources.later(0.1).complete
    sources.api.stamp = sources.clock.now
    found = sources.later(3.0)
    assert (found.complete, uids_of(found.pods)) == (True, frozenset("a")), (
        "nothing came for three seconds"
    )


def test_a_static_pod_is_the_same_in_the_eyes_of_an_api_server(sources: Sources) -> None:
    mirror = {
        "uid": "m1",
        "annotations": {"kubernetes.io/config.mirror": "a", "kubernetes.io/config.hash": "a"},
    }
    items = [{"metadata": mirror}, {"metadata": {"uid": "b", "annotations": None}}]
    assert uids_of(json.dumps({"items": items}).encode()) == {"a", "b"}


def test_what_an_open_watch_told_holds_until_now() -> None:
    clock = Clock()
    api = Values("api", clock, watches=True)
    api.uids, api.stamp, api.live = {"a"}, clock.now, True
    pods = PreferredPods([api], clock, lambda: 0.5)
    first = pods.poll()
    clock.now += 170
    later = pods.poll()
    assert (later.at, later.version) == (clock.now, first.version), "nothing came, nothing changed"
    api.live = False
    clock.now += 10
    assert pods.poll().at == api.stamp


def test_a_removal_on_the_watch_counts_at_once(sources: Sources) -> None:
    sources.kubelet.fault = "down"
    sources.api.uids = {"a", "b"}
    sources.later()
    sources.api.uids = {"a"}
    found = sources.later()
    assert uids_of(found.pods) == {"a"}
    assert found.complete is True


def test_a_pod_that_the_runtime_has_is_not_gone(sources: Sources) -> None:
    sources.kubelet.uids = {"static", "b"}
    sources.later()
    # a kubelet that started without its API server knows its static pods only
    sources.kubelet.uids = {"static"}
    sources.kubelet.running = frozenset({"static", "b"})
    for _ in range(5):
        found = sources.later()
        assert uids_of(found.pods) == {"static", "b"}
        assert not found.complete
    sources.kubelet.running = frozenset({"static"})
    sources.later()
    assert uids_of(sources.later().pods) == {"static"}


def test_the_other_pods_are_up_to_date_while_some_are_removed(sources: Sources) -> None:
    """In churn each answer lacked another pod, and what had been read before it stayed for good."""
    sources.kubelet.uids = {f"old{number}" for number in range(9)}
    sources.later()
    for number in range(6):
        sources.kubelet.uids -= {f"old{number}"}
        sources.kubelet.uids |= {f"new{number}"}
        found = sources.later()
        assert not found.complete
        assert found.at == sources.clock.now
        doubted = {f"old{number}"}
        assert uids_of(found.pods) == sources.kubelet.uids | doubted
        assert uids_of(sources.pods.poll().pods) == sources.kubelet.uids | doubted
    assert found.reason == "kubelet lacks 1 of the known pods: asked again"
    sources.kubelet.running = frozenset({"old5"})
    sources.kubelet.uids |= {"newest"}
    assert uids_of(sources.later().pods) == sources.kubelet.uids | {"old5"}
    sources.kubelet.running = frozenset()
    sources.later()
    assert sources.later().complete


def test_a_pod_that_is_removed_is_usual_until_it_takes_long(sources: Sources) -> None:
    sources.kubelet.uids = {"a", "b"}
    sources.later()
    sources.kubelet.uids = {"a"}
    sources.kubelet.running = frozenset({"b"})
    found = sources.later()
    assert (found.complete, found.is_settling) == (False, True)
    # a pod without grace is gone from the page at once, and its processes a grace period later
    told = [sources.later().is_settling for _ in range(6)]
    assert told == [True] * 5 + [False]
    sources.kubelet.running = frozenset()
    sources.later()
    found = sources.later()
    assert (found.complete, found.is_settling, uids_of(found.pods)) == (True, False, frozenset("a"))
    sources.kubelet.uids = set()
    assert sources.later().is_settling, "the next removal is usual again"


def test_removals_that_follow_each_other_stay_usual(sources: Sources) -> None:
    """As in churn, where at any moment some pod is on its way."""
    sources.kubelet.uids = {str(one) for one in range(20)}
    sources.later()
    for one in range(20):
        sources.kubelet.uids -= {str(one)}
        assert (found := sources.later()).is_settling, found.reason
    assert sources.later().complete


def test_a_kubelet_that_has_just_started_is_usual_and_said_once(sources: Sources) -> None:
    sources.kubelet.uids = {"a", "b"}
    sources.later()
    kubelet = sources.kubelet
    kubelet.uids, kubelet.complete = {"a"}, False
    kubelet.note, kubelet.usual = "has just started", True
    sources.api.fault = "not configured"
    found = sources.later()
    assert (found.complete, found.is_settling) == (False, True)
    assert found.reason.count("has just started") == 1
    kubelet.complete, kubelet.note, kubelet.usual = True, "", False
    sources.later()
    found = sources.later()
    assert (found.complete, found.is_settling, uids_of(found.pods)) == (True, False, frozenset("a"))


def test_an_outage_is_never_usual(sources: Sources) -> None:
    sources.kubelet.uids = sources.api.uids = {"a", "b"}
    sources.later()
    sources.kubelet.fault = "down"
    sources.api.uids = {"a"}
    assert not sources.later().is_settling
    sources.api.fault = "down, too"
    assert not sources.later().is_settling


def test_a_part_is_better_than_nothing_and_worse_than_what_was_known(sources: Sources) -> None:
    sources.kubelet.fault = sources.api.fault = "down"
    sources.cri.uids = {"static"}
    found = sources.later()
    assert (found.source, found.complete) == ("cri", False)
    sources.kubelet.fault = ""
    sources.kubelet.uids = {"static", "a"}
    assert sources.later(200.0).complete
    sources.kubelet.fault = "down"
    found = sources.later()
    assert uids_of(found.pods) == {"static", "a"}
    assert not found.complete


def test_an_answer_after_an_outage_confirms_none_from_before_it(sources: Sources) -> None:
    """A kubelet that is restarted twice knows no pods in its first second, each time."""
    sources.kubelet.uids, sources.api.fault = {"a"}, "down"
    assert sources.later().complete
    sources.kubelet.uids = set()
    assert not sources.later().complete
    sources.kubelet.fault = "connection refused"
    assert not sources.later().complete
    sources.kubelet.fault = ""
    found = sources.later()
    assert not found.complete
    assert uids_of(found.pods) == {"a"}
    assert sources.later().complete, "the same, asked again"


acts = some.lists(
    some.tuples(
        some.sampled_from(["add", "remove", "kubelet", "api", "stale", "wait"]), some.integers(0, 3)
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@example(
    [
        *(("kubelet", 1), ("add", 0), ("add", 0), ("add", 0), ("add", 0), ("add", 2)),
        *(("api", 1), ("remove", 2), ("kubelet", 0), ("remove", 0)),
    ]
)
@given(acts)
def test_no_order_of_outages_loses_a_pod_that_is_there(steps: list[tuple[str, int]]) -> None:
    """Nor does one stale answer between right ones."""
    made, truth, before = Sources(), {"base"}, ""
    readers = {"kubelet": made.kubelet, "api": made.api}
    made.cri.uids = {"base"}
    made.kubelet.uids = set(truth)
    made.later()
    for kind, number in steps:
        if kind == "add":
            truth.add(f"p{number}")
        elif kind == "remove":
            truth.discard(f"p{number}")
        elif kind in readers:
            readers[kind].fault = "down" if number % 2 else ""
        is_stale = kind == "stale" != before
        made.kubelet.uids = set() if is_stale else set(truth)
        made.api.uids = set(truth)
        found = made.later()
        assert not found.complete or uids_of(found.pods) == truth
        before = kind
    made.kubelet.fault, made.kubelet.uids = "", set(truth)
    for _ in range(3):
        found = made.later(130.0)
    assert found.complete
    assert uids_of(found.pods) == truth
