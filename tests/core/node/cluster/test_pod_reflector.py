"""The pods of a node by list and watch: whatever happens, in any order, the set is one that the
server had, and in the end the one that it has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from qoslet.core.node.cluster.messages import status_of
from qoslet.core.node.cluster.pod_reflector import PAGE_SIZE, PodReflector, Request
from tests.core.node.cluster.api_model import OTHER, OWN, ApiModel, line, status
from tests.paths import DATA

SAMPLES = DATA / "cluster"


def names(reflector: PodReflector) -> dict[str, str]:
    """The pods that it holds, as ``ApiModel.of_node`` has them."""
    items = json.loads(reflector.pod_list())["items"]
    return {
        one["metadata"]["name"]: f"{one['metadata']['uid']}@{one['metadata']['resourceVersion']}"
        for one in items
    }


def perform(model: ApiModel, reflector: PodReflector, request: Request) -> None:
    """One request without faults; a watch ends in time."""
    if not request.is_watch:
        code, body = model.list_page(request.query)
        if code == 200:
            reflector.page(body)
        else:
            reflector.refused(status_of(code, body))
        return
    reflector.opened()
    if all(reflector.line(one) for one in model.watch(request.query)):
        reflector.ended(in_time=True)


def settle(model: ApiModel, reflector: PodReflector) -> int:
    """Ask until a watch went well; how many requests that took."""
    for count in range(1, 40):
        request = reflector.next_request(0.0)
        perform(model, reflector, request)
        if request.is_watch and not reflector.fault:
            return count
    raise AssertionError(f"it does not settle: {reflector.fault}")


def test_a_list_in_pages_and_then_a_watch() -> None:
    model = ApiModel(page=2)
    for number in range(5):
        model.put(f"p{number}")
    model.put("elsewhere", OTHER)
    reflector = PodReflector(OWN)
    first = reflector.next_request(0.5)
    assert first.query == {
        "fieldSelector": "spec.nodeName=n1",
        "limit": str(PAGE_SIZE),
        "resourceVersion": "0",
        "resourceVersionMatch": "NotOlderThan",
    }
    perform(model, reflector, first)
    assert not reflector.is_complete, "two of five pods are no set"
    perform(model, reflector, reflector.next_request(0.5))
    perform(model, reflector, reflector.next_request(0.5))
    assert names(reflector) == model.of_node()
    model.remove("p0")
    model.put("p9")
    watch = reflector.next_request(0.5)
    assert watch.query["allowWatchBookmarks"] == watch.query["watch"] == "true"
    assert 300 <= int(watch.query["timeoutSeconds"]) <= 600
    perform(model, reflector, watch)
    assert names(reflector) == model.of_node()
    assert reflector.next_request(0.5).query["resourceVersion"] == str(model.version)


def test_a_watch_that_is_silent_is_no_fault_and_what_it_missed_is_listed() -> None:
    model = ApiModel()
    model.put("a")
    reflector = PodReflector(OWN)
    settle(model, reflector)
    before = names(reflector)
    reflector.opened()
    model.put("b")
    reflector.silent()
    assert (reflector.fault, names(reflector), reflector.is_complete) == ("", before, True)
    again = reflector.next_request(0.5)
    assert (again.is_watch, again.wait) == (False, 0.0)
    perform(model, reflector, again)
    assert names(reflector) == model.of_node()


def test_a_watch_that_is_gone_lists_again_without_going_back_in_time() -> None:
    model = ApiModel()
    model.put("a")
    reflector = PodReflector(OWN)
    settle(model, reflector)
    seen = model.version
    model.put("b", OTHER)
    model.put("c")
    model.compact()
    model.put("d")
    perform(model, reflector, reflector.next_request(0.0))
    request = reflector.next_request(0.5)
    assert request.query["resourceVersion"] == str(seen)
    assert request.query["resourceVersionMatch"] == "NotOlderThan"
    assert names(reflector).keys() == {"a"}, "the last set holds until the whole list is there"
    settle(model, reflector)
    assert names(reflector) == model.of_node()


def test_a_page_that_is_gone_begins_the_list_anew_and_shrinks_nothing() -> None:
    model = ApiModel(page=1)
    model.put("a")
    model.put("b")
    reflector = PodReflector(OWN)
    perform(model, reflector, reflector.next_request(0.0))
    model.put("c")
    model.compact()
    perform(model, reflector, reflector.next_request(0.0))
    assert not reflector.is_complete
    assert "resourceVersion" not in reflector.next_request(0.0).query, "as etcd has it"
    settle(model, reflector)
    assert names(reflector) == model.of_node()


def test_a_restored_server_is_believed_when_it_says_so() -> None:
    model = ApiModel()
    model.put("a")
    before = model.version
    model.put("b")
    reflector = PodReflector(OWN)
    settle(model, reflector)
    model.restore(before)
    settle(model, reflector)
    assert names(reflector).keys() == {"a"}


def test_waits_grow_and_a_server_is_given_the_time_that_it_asks_for() -> None:
    reflector = PodReflector(OWN)
    reflector.next_request(0.0)
    waits = []
    for _ in range(6):
        reflector.broken("connection refused")
        waits.append(reflector.next_request(1.0).wait)
    assert waits == [10, 20, 40, 80, 120, 120]
    assert reflector.next_request(0.25).wait == 30
    reflector.refused(status_of(429, status(429, "TooManyRequests", retry=45)))
    assert 45 <= reflector.next_request(0.0).wait <= reflector.next_request(0.2).wait <= 67.5
    reflector.refused(status_of(429, status(429, "TooManyRequests", retry=86400)))
    assert reflector.next_request(0.0).wait == 600, "not a day"
    reflector.opened()
    assert reflector.fault == ""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not a PodList"),
        (b'{"kind": "Status", "metadata": {}}', "not a PodList"),
        (b'{"kind": "PodList", "metadata": {}, "items": []}', "no resourceVersion"),
        (b'{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [{}]}', "PodList"),
        (
            b'{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [{"metadata": {}}]}',
            "no name or no UID",
        ),
        (b"<html>proxy</html>", "not a PodList"),
    ],
)
def test_what_is_no_list_changes_nothing(body: bytes, said: str) -> None:
    reflector = PodReflector(OWN)
    model = ApiModel()
    model.put("a")
    settle(model, reflector)
    reflector.line(line("ERROR", json.loads(status(410, "Expired"))))
    reflector.page(body)
    assert said in reflector.fault
    assert names(reflector) == model.of_node()


def test_the_end_of_an_earlier_pod_does_not_remove_the_one_that_has_its_name() -> None:
    model = ApiModel()
    model.put("a", uid="old")
    reflector = PodReflector(OWN)
    settle(model, reflector)
    model.put("a", uid="new")
    settle(model, reflector)
    old = {"name": "a", "namespace": "default", "uid": "old", "resourceVersion": "900"}
    assert reflector.line(line("DELETED", {"metadata": old, "spec": {}}))
    assert names(reflector).keys() == {"a"}


def test_recorded_answers_of_a_server() -> None:
    reflector = PodReflector("n1")
    first, second = (json.loads((SAMPLES / f"page{number}.json").read_bytes()) for number in (1, 2))
    reflector.page((SAMPLES / "page1.json").read_bytes())
    assert reflector.next_request(0.0).query["continue"] == first["metadata"]["continue"]
    reflector.page((SAMPLES / "page2.json").read_bytes())
    assert not reflector.is_complete, "a page is missing still"
    third = {**second, "metadata": {"resourceVersion": "167"}, "items": None}
    reflector.page(json.dumps(third).encode())
    listed = {one["metadata"]["uid"] for part in (first, second) for one in part["items"]}
    assert reflector.uids() == listed
    expected = {one["metadata"]["uid"] for one in third["items"] or ()} | listed
    for text in (SAMPLES / "watch.jsonl").read_bytes().splitlines():
        event = json.loads(text)
        assert reflector.line(text)
        uid = event["object"]["metadata"].get("uid")
        (expected.discard if event["type"] == "DELETED" else expected.add)(uid)
        assert reflector.uids() == expected - {None}


def test_a_recorded_refusal() -> None:
    body = (SAMPLES / "unauthorized.http").read_bytes().partition(b"\n\n")[2]
    found = status_of(401, body)
    assert (found.code, found.reason) == (401, "Unauthorized")


FAULTS = ("429", "500", "401", "reset", "half", "garbage", "early", "none", "none", "none")


def faulty(
    model: ApiModel, reflector: PodReflector, fault: str, deliver: int, changed: Any
) -> None:
    """One request that goes wrong in a way; ``changed`` is called after each thing that is told."""
    request = reflector.next_request(0.5)
    if fault.isdecimal():
        reflector.refused(status_of(int(fault), status(int(fault), "no")))
    elif fault == "reset":
        reflector.broken("reset")
    elif not request.is_watch:
        code, body = model.list_page(request.query)
        if code != 200:
            reflector.refused(status_of(code, body))
        else:
            reflector.page(body[: len(body) // 2] if fault in ("half", "garbage") else body)
    else:
        reflector.opened()
        lines = model.watch(request.query)
        for one in lines[:deliver]:
            going = reflector.line(one)
            changed()
            if not going:
                return
        if fault == "garbage":
            reflector.line(b'{"type": "ADDED", "obj')
        elif fault == "half" or deliver < len(lines):
            reflector.broken("ends in the middle of an event")
        else:
            reflector.ended(in_time=fault == "none")
    changed()


step = some.one_of(
    some.tuples(some.just("put"), some.integers(0, 5), some.booleans()),
    some.tuples(some.just("renew"), some.integers(0, 5), some.booleans()),
    some.tuples(some.just("remove"), some.integers(0, 5), some.booleans()),
    some.tuples(some.just("compact"), some.just(0), some.booleans()),
    some.tuples(some.sampled_from(FAULTS), some.integers(0, 6), some.booleans()),
    some.tuples(some.sampled_from(FAULTS), some.integers(0, 6), some.booleans()),
)


@settings(max_examples=400, deadline=None)
@given(some.lists(step, max_size=40), some.integers(1, 3))
def test_any_order_of_events_and_faults(steps: list[tuple[str, int, bool]], page: int) -> None:
    model, reflector = ApiModel(page), PodReflector(OWN)
    published = 0

    def changed() -> None:
        nonlocal published
        if reflector.is_complete:
            published += 1
            found = names(reflector)
            assert any(found == model.of_node(version) for version in model.history)

    for kind, number, on_node in steps:
        if kind == "put":
            model.put(f"p{number}", OWN if on_node else OTHER)
        elif kind == "renew":
            model.put(f"p{number}", OWN, uid=f"u{model.version}")
        elif kind == "remove":
            model.remove(f"p{number}")
        elif kind == "compact":
            model.compact()
        else:
            faulty(model, reflector, kind, number, changed)
    settle(model, reflector)
    changed()
    assert published
    assert names(reflector) == model.of_node()
