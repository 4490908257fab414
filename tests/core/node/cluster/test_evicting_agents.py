"""Agents that end anywhere, and several at once, before a server that loses answers and lies."""

from __future__ import annotations

import random

import pytest

from qoslet.core.node.cluster.pod_eviction import Call, Reply
from tests.core.node.cluster.eviction_driver import Driver, refused, web
from tests.core.node.cluster.eviction_model import EvictionModel, request


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
