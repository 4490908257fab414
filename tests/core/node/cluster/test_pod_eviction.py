"""The eviction of a pod, request by request: every answer, lost requests, a crash anywhere, and
several agents at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator

import pytest
from msgspec.structs import replace

from qoslet.core.node.cluster.eviction_messages import LEASE_SECONDS, EvictionRequest
from qoslet.core.node.cluster.eviction_rules import PodWorkload
from qoslet.core.node.cluster.pod_eviction import (
    DEADLINE_SECONDS,
    Call,
    EvictionOutcome,
    Pause,
    PodEviction,
    Reply,
)
from tests.core.node.cluster.api_model import status
from tests.core.node.cluster.eviction_model import EvictionModel, request

Course = Generator[Call | Pause, Reply, EvictionOutcome]
Fault = Callable[[Call], Reply | None]
"""What comes instead of the server's answer."""


def no_fault(call: Call) -> Reply | None:
    return None


class Driver:
    """Drives one eviction with a clock of its own. ``lost`` says of which calls the server's answer is
    lost after it has acted; ``instead`` comes in its place."""

    def __init__(
        self,
        model: EvictionModel,
        ask: EvictionRequest,
        fault: Fault = no_fault,
        lost: Callable[[Call], bool] = lambda call: False,
        wall: float = 1000.0,
    ) -> None:
        self.model, self.fault, self.lost = model, fault, lost
        self.course = PodEviction(ask, "qoslet").course()
        self.began = self.wall = wall
        self.calls: list[Call] = []
        self.instead = Reply(0, fault="lost")
        self.outcome: EvictionOutcome | None = None
        self.step: Call | Pause = next(self.course)

    def once(self) -> None:
        """One request, or one wait."""
        if isinstance(self.step, Pause):
            self.wall += self.step.seconds
            reply = Reply(0)
        else:
            self.wall += 0.01
            reply = self._reply(self.step)
        left = DEADLINE_SECONDS - (self.wall - self.began)
        try:
            self.step = self.course.send(replace(reply, left=left, wall=self.wall))
        except StopIteration as end:
            self.outcome = end.value

    def _reply(self, call: Call) -> Reply:
        self.calls.append(call)
        found = self.fault(call)
        if found is not None:
            return found
        code, body = self.model.answer(call.method, call.path, dict(call.query), call.body)
        return self.instead if self.lost(call) else Reply(code, body)

    def run(self) -> EvictionOutcome:
        while self.outcome is None:
            self.once()
        return self.outcome

    @property
    def evictions(self) -> int:
        return sum(one.path.endswith("/eviction") for one in self.calls)


def web(count: int = 3, **fields: int) -> EvictionModel:
    """A Deployment of Ready pods."""
    model = EvictionModel(**fields)  # type: ignore[arg-type]
    for number in range(count):
        model.put(f"web-{number}")
    return model


def on(end: str, *replies: Reply) -> Fault:
    """These answers to the calls whose path ends so, one after the other; then the server's."""
    left = list(replies)

    def fault(call: Call) -> Reply | None:
        return left.pop(0) if left and call.path.endswith(end) else None

    return fault


def refused(code: int, retry: float = 0.0) -> Reply:
    return Reply(code, status(code, "no"), retry)


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


def crashed(at: int, lost: int) -> EvictionModel:
    """An agent that ends after ``at`` steps, and the next one, which evicts the same pod; of the calls
    of both the answer to the one of number ``lost`` is lost."""
    model, count = web(4), 0

    def is_lost(call: Call) -> bool:
        nonlocal count
        count += 1
        return count == lost

    first = Driver(model, request("web-1"), lost=is_lost)
    for _ in range(at):
        if first.outcome is None:
            first.once()
    if "web-1" in model.pods and model.evicted and at % 2:
        model.end("web-1")
    second = Driver(model, request("web-1"), lost=is_lost, wall=first.wall + 1)
    outcome = second.run()
    assert outcome.result in ("evicted", "gone"), outcome
    return model


def test_a_crash_anywhere_evicts_once() -> None:
    seen = set()
    for at in range(12):
        for lost in range(14):
            model = crashed(at, lost)
            assert model.evicted == ["uid-web-1"], (at, lost)
            seen.add(len(model.events))
    assert seen >= {1, 2}, "with and without an Event of the first one"


def test_after_a_crash_no_other_pod_of_the_workload_goes() -> None:
    model = web(4)
    first = Driver(model, request("web-1"))
    while not model.evicted:
        first.once()
    model.end("web-1")
    model.set_ready("new-1")
    other = Driver(model, request("web-2"), wall=first.wall + 1)
    assert "the agent of n1 has the Lease" in other.run().why


LIES = (
    *(Reply(code, b"<html>") for code in (200, 302, 404)),
    *(refused(code) for code in (404, 409, 429, 500)),
    Reply(0, fault="no answer in time"),
)
"""What proxies and broken servers say, whether the server has acted or not."""


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_after_the_eviction_is_no_second_eviction(lie: Reply) -> None:
    model = web()
    driver = Driver(model, request("web-1"), lost=lambda call: call.path.endswith("/eviction"))
    driver.instead = lie
    assert driver.run().result == "evicted"
    assert (model.evicted, driver.evictions) == (["uid-web-1"], 1)


@pytest.mark.parametrize("lies", [False, True])
@pytest.mark.parametrize("replaces", [True, False])
def test_agents_together_never_leave_a_workload_without_a_ready_pod(
    replaces: bool, lies: bool
) -> None:
    evicted = 0
    for seed in range(60):
        chance = random.Random(seed)
        model = EvictionModel(replaces=replaces)
        for number in range(4):
            model.put(f"web-{number}")
        drivers: list[Driver] = []
        walls = 1000.0
        for _ in range(6):
            walls += chance.choice((0.0, 40.0, 150.0))
            for name in list(model.pods):
                if "deletionTimestamp" in model.pods[name]["metadata"]:
                    model.end(name)
                elif chance.random() < 0.5:
                    model.set_ready(name)
            drivers = [
                Driver(
                    model,
                    request(name, node=f"of-{name}"),
                    lost=lambda call, chance=chance: chance.random() < 0.1,  # type: ignore[misc]
                    wall=walls,
                )
                for name in model.pods
            ]
            for one in drivers if lies else ():
                one.instead = chance.choice(LIES)
                one.fault = lambda call, chance=chance: (  # type: ignore[misc]
                    chance.choice(LIES) if chance.random() < 0.1 else None
                )
            while live := [one for one in drivers if one.outcome is None]:
                # those whose clock is behind come first, as in time
                first = min(one.wall for one in live)
                chance.choice([one for one in live if one.wall <= first + 0.5]).once()
                assert model.ready() >= 1, seed
            walls = max(one.wall for one in drivers)
        evicted += len(model.evicted)
        assert len(set(model.evicted)) == len(model.evicted)
    assert evicted > 60, "or nothing was tried"


def test_without_the_lease_they_would() -> None:
    """The check of the others alone is not enough: two agents that look at the same time."""
    model = web(2)
    drivers = [Driver(model, request(f"web-{number}")) for number in range(2)]

    def own_lease(call: Call) -> Reply | None:
        is_taken = "/leases" in call.path and call.method != "GET"
        return Reply(201, call.body) if is_taken else None

    for one in drivers:
        one.fault = own_lease
    while any(one.outcome is None for one in drivers):
        for one in drivers:
            if one.outcome is None:
                one.once()
    assert model.ready() == 0
