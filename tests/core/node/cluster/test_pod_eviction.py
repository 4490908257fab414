"""The eviction of a pod, request by request: every answer, and lost requests."""

from __future__ import annotations

import pytest

from qoslet.core.node.cluster.eviction_messages import LEASE_SECONDS
from qoslet.core.node.cluster.eviction_rules import PodWorkload
from qoslet.core.node.cluster.pod_eviction import (
    DEADLINE_SECONDS,
    Call,
    EvictionOutcome,
    Reply,
)
from tests.core.node.cluster.api_model import status
from tests.core.node.cluster.eviction_driver import Driver, on, refused, web
from tests.core.node.cluster.eviction_model import request

NOT_FOUND = Reply(404, status(404, "NotFound"))


def test_a_pod_is_evicted_and_the_lease_stays() -> None:
    model = web()
    outcome = Driver(model, request("web-1")).run()
    assert outcome == EvictionOutcome("evicted", "", (), 30)
    assert model.evicted == ["uid-web-1"]
    assert model.grace == [30], "its own 60 s are too long for one that stands still"
    [lease] = model.leases.values()
    assert lease["spec"]["holderIdentity"] == "n1/uid-web-1"
    assert lease["metadata"]["annotations"]["qoslet.dev/workload"] == "Deployment d/web"
    [event] = model.events
    assert (event["reason"], event["regarding"]["uid"]) == ("MemoryStall", "uid-web-1")
    assert event["note"] == "evicted: container app stalled at memory.high"


def test_a_pod_that_another_deletes_is_not_called_evicted() -> None:
    model = web()
    model.pods["web-1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert Driver(model, request("web-1")).run().result == "evicted"
    assert (model.evicted, model.leases) == ([], {})
    [event] = model.events
    assert event["note"] == "the pod is being deleted: container app stalled at memory.high"


def test_a_budget_is_waited_for_to_the_deadline() -> None:
    model = web(budget=0)
    driver = Driver(model, request("web-1"))
    outcome = driver.run()
    assert outcome.result == "refused"
    assert "429" in outcome.why
    assert model.evicted == []
    assert 3 < driver.evictions < 10
    assert DEADLINE_SECONDS / 2 < driver.wall - driver.began <= DEADLINE_SECONDS + 1
    [lease] = model.leases.values()
    assert lease["spec"]["holderIdentity"] is None, "the next agent need not wait"
    assert model.events[0]["reason"] == "EvictionRefused"
    assert "as an OOM kill does" in model.events[0]["note"]


def test_a_budget_that_frees_up_is_used_after_retry_after() -> None:
    model = web()
    driver = Driver(model, request("web-1"), on("/eviction", refused(429, 10.0)))
    assert driver.run().result == "evicted"
    assert 10 <= driver.wall - driver.began < 12


def test_a_retry_after_beyond_the_deadline_is_not_waited_for() -> None:
    driver = Driver(web(), request("web-1"), on("/eviction", refused(429, 60.0)))
    assert driver.run().result == "refused"
    assert driver.wall - driver.began < 1


@pytest.mark.parametrize(
    ("end", "reply", "result", "why"),
    [
        ("/web-1", NOT_FOUND, "gone", "the pod is gone"),
        ("/web-1", Reply(404, b"<html>"), "refused", "as a proxy or another server does"),
        ("/web-1", refused(401), "evicted", ""),
        ("/web-1", refused(400), "refused", "400"),
        ("/web-1", Reply(200, b"<html>"), "refused", "not understood"),
        ("/pods", Reply(410), "evicted", ""),
        ("/leases", refused(409), "evicted", ""),
        ("/leases", Reply(201, b"<html>"), "refused", "not understood"),
        ("/leases", Reply(201, b'{"metadata":{},"spec":{"holderIdentity":"n9/x"}}'), "evicted", ""),
        ("/qoslet-evict-101", Reply(404), "refused", "answers 404"),
        ("/eviction", NOT_FOUND, "gone", "the pod is gone"),
        ("/eviction", Reply(404, b"<html>"), "evicted", ""),
        ("/eviction", Reply(200, b"<html>log in</html>"), "evicted", ""),
        ("/eviction", refused(409), "evicted", ""),
        ("/eviction", refused(500), "evicted", ""),
        ("/eviction", refused(503), "evicted", ""),
        ("/eviction", Reply(0, fault="broken off"), "evicted", ""),
    ],
)
def test_one_answer(end: str, reply: Reply, result: str, why: str) -> None:
    model = web()
    outcome = Driver(model, request("web-1"), on(end, reply)).run()
    assert outcome.result == result
    assert why in outcome.why
    assert model.evicted == (["uid-web-1"] if result == "evicted" else [])


@pytest.mark.parametrize(
    ("end", "right"),
    [
        ("/web-1", "get pods"),
        ("/pods", "list pods"),
        ("/leases", "create and update leases"),
        ("/eviction", "create pods/eviction"),
    ],
)
def test_a_right_is_waited_for_a_short_while(end: str, right: str) -> None:
    driver = Driver(web(), request("web-1"), on(end, *[refused(403)] * 3))
    outcome = driver.run()
    assert (outcome.result, f"grant {right}" in outcome.why) == ("refused", True)
    assert driver.wall - driver.began < 6
    model = web()
    assert Driver(model, request("web-1"), on(end, *[refused(403)] * 2)).run().result == "evicted"
    assert model.evicted == ["uid-web-1"], "a server that has just started knows no roles"


@pytest.mark.parametrize("reply", [refused(500), Reply(0, fault="no route"), refused(429)])
def test_a_server_that_is_away_changes_nothing(reply: Reply) -> None:
    model = web()
    outcome = Driver(model, request("web-1"), lambda call: reply).run()
    assert outcome.result == "refused"
    assert (model.evicted, model.leases) == ([], {})
    assert len(outcome.notes) == 1, "the Event, too"


def test_another_pod_of_the_name_is_left() -> None:
    model = web()
    assert Driver(model, request("web-1", "older")).run().result == "gone"
    assert (model.evicted, model.leases, model.events) == ([], {}, [])


def test_a_pod_that_is_replaced_in_the_last_moment_is_left() -> None:
    model = web()

    def fault(call: Call) -> Reply | None:
        if call.path.endswith("/eviction"):
            model.put("web-1", uid="newer")
        return None

    driver = Driver(model, request("web-1"), fault)
    outcome = driver.run()
    assert (outcome.result, outcome.why) == ("gone", "another pod has its name by now")
    assert (driver.evictions, model.evicted) == (1, [])


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        ("", "no controller replaces it"),
        ("Node/n1", "it is a static pod"),
        ("DaemonSet/web", "on this node again"),
        ("StatefulSet/alone", "it is the only pod of StatefulSet d/alone"),
    ],
)
def test_what_is_never_evicted(owner: str, why: str) -> None:
    model = web()
    model.put("other", owner)
    outcome = Driver(model, request("other")).run()
    assert outcome.result == "refused"
    assert why in outcome.why
    assert model.evicted == []


def test_a_pod_that_is_not_ready_holds_the_others() -> None:
    model = web()
    model.put("web-new", "ReplicaSet/web-777", ready=False)
    outcome = Driver(model, request("web-1")).run()
    assert outcome.why == "1 of 3 other pods of Deployment d/web not Ready"
    assert model.evicted == []


def test_pods_that_have_ended_and_those_of_others_do_not_count() -> None:
    model = web()
    model.put("web-old", ready=False)
    model.pods["web-old"]["status"]["phase"] = "Failed"
    model.put("web-other", "StatefulSet/web-db", ready=False)
    assert Driver(model, request("web-1")).run().result == "evicted"


def test_more_pods_than_a_page() -> None:
    model = web(250)
    model.set_ready("web-249", False)
    assert "1 of 249" in Driver(model, request("web-1")).run().why
    model.set_ready("web-249")
    assert Driver(model, request("web-1")).run().result == "evicted"
    more = web(2001)
    assert "too many pods" in Driver(more, request("web-1")).run().why


def test_the_lease_of_another_agent_is_waited_for_until_it_ends() -> None:
    model = web()
    assert Driver(model, request("web-0", node="n0")).run().result == "evicted"
    model.end("web-0")
    model.set_ready("new-1")
    outcome = Driver(model, request("web-1"), wall=1050.0).run()
    assert "the agent of n0 has the Lease qoslet-evict-101 of Deployment d/web" in outcome.why
    late = Driver(model, request("web-1"), wall=1001.0 + LEASE_SECONDS)
    assert late.run().result == "evicted"


def test_the_lease_stays_while_an_eviction_may_be_taken_yet() -> None:
    model = web()
    sent: list[Call] = []

    def fault(call: Call) -> Reply | None:
        """Of pods nothing is heard any more from the eviction on."""
        sent.extend([call] if call.path.endswith("/eviction") else [])
        return Reply(0, fault="no route") if sent and "/pods/" in call.path else None

    assert Driver(model, request("web-1"), fault).run().result == "refused"
    [lease] = model.leases.values()
    assert lease["spec"]["holderIdentity"] == "n1/uid-web-1", "no other agent comes in between"
    assert model.evicted == []
    model.answer(sent[0].method, sent[0].path, {}, sent[0].body)
    assert model.evicted == ["uid-web-1"]


def test_a_lease_that_tells_no_time_is_free() -> None:
    model = web()
    name = PodWorkload("d", "Deployment", "web").lease
    spec = {"holderIdentity": "n0/x", "renewTime": "soon"}
    model.leases[name] = {"metadata": {"name": name, "resourceVersion": "7"}, "spec": spec}
    assert Driver(model, request("web-1")).run().result == "evicted"
