"""What an agent and a keeper of an earlier version said, understood by this one."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest

from qoslet.core.workload.life import Backoff
from qoslet.host.keeper import protocol
from qoslet.host.keeper.protocol import (
    Hello,
    LogMessage,
    PodRemoved,
    RequestsDone,
    RestartContainer,
    StartPod,
    UpdatePod,
    Welcome,
)
from tests.old_state import DATA, Tell, same_again


@pytest.mark.parametrize(
    ("runtime", "requests"),
    [
        ("process", {"hello": 3, "start": 6, "update": 2, "restart": 1, "stop": 2, "forget": 2}),
        ("runc", {"hello": 1, "start": 1, "update": 1, "restart": 1}),
    ],
)
def test_what_an_agent_and_a_keeper_said_is_understood(
    runtime: str, requests: dict[str, int], record_property: Tell
) -> None:
    asked = (DATA / runtime / "agent.jsonl").read_bytes().splitlines()
    told = (DATA / runtime / "keeper.jsonl").read_bytes().splitlines()
    count = Counter(json.loads(line)["do"] for line in asked)
    compared = sum(same_again(line, protocol.requests.decode(line)) for line in asked)
    compared += sum(same_again(line, protocol.news.decode(line)) for line in told)
    assert dict(count) == requests
    assert compared > 300
    record_property("compared", compared)


def test_messages_say_what_they_said() -> None:
    asked = [
        protocol.requests.decode(line)
        for line in (DATA / "process/agent.jsonl").read_bytes().splitlines()
    ]
    root = "/qoslet-test-state-process"
    assert asked[0] == Hello(1, root)
    begun = next(one for one in asked if isinstance(one, StartPod) and one.spec.uid == "own-uid")
    assert begun.cgroups == {"app": f"{root}/kubepods/podown-uid/app"}
    assert begun.digest == "1d8383152d1b65bf057518ffc71ccd38"
    assert begun.spec.launches[0].oom_score_adj == -997
    assert RestartContainer(9, "web-uid", "app") in asked
    assert protocol.StopPod(10, "slow-uid", 300.0) in asked
    assert protocol.RemovePod(12, "gone-uid") in asked
    assert [one.id for one in asked if isinstance(one, UpdatePod)] == [7, 8]
    told = [
        protocol.news.decode(line)
        for line in (DATA / "process/keeper.jsonl").read_bytes().splitlines()
    ]
    assert told[:2] == [Welcome(1, 24287), RequestsDone()]
    assert PodRemoved("gone-uid", 12) in told
    assert told[-1] == Welcome(1, 24287, "version 1 is spoken here, not 2")
    assert (
        LogMessage("a request was refused: Pod shop/own: containers are still running", 1) in told
    )
    kept = [one for one in told if isinstance(one, protocol.PodChanged)]
    assert {one.held.uid for one in kept if one.held.terminating} == {"slow-uid", "gone-uid"}
    assert any(one.oom_killed for news in kept for one in news.states)


def test_the_setting_of_a_keeper_is_read() -> None:
    text = (DATA / "process/setting.json").read_bytes()
    setting = msgspec.json.decode(text, type=protocol.KeeperSettings)
    assert same_again(text, setting) == 17
    assert setting.folder == "/run/qoslet/qoslet-test-state-process"
    assert (setting.size, setting.files, setting.rate) == (10 << 20, 5, 32 << 20)
    assert setting.backoff == Backoff(10.0, 300.0, 600.0)
