"""A kubelet with Memory QoS of its own resizes a container: its status follows what it wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.agent.guest.policy_files import SETTLE_SECONDS
from qoslet.core.api.pod import Pod
from tests.agent.guest.beside import KUBEPODS, Beside, Kubelet, Source, kubelet_pod, planned
from tests.agent.world import World

BEFORE = kubelet_pod("a", "memory=64Mi", "memory=128Mi")
AFTER = kubelet_pod("a", "memory=64Mi", "memory=256Mi")
KEY = (f"{KUBEPODS}/burstable/poda/aapp", "memory.high")


def high(pod: Pod) -> str:
    """What the plan of this pod has."""
    (value,) = (
        row.value
        for one in planned((pod,), "qoslet").cgroups
        if one.path == KEY[0]
        for row in one.settings
        if row.file == KEY[1]
    )
    return value


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    world = World("v2")
    Kubelet(world).run(BEFORE)
    made = Beside(world, tmp_path, Source((BEFORE,)))
    made.settle()
    assert made.world.kernel.read(*KEY) == high(BEFORE) != high(AFTER)
    return made


def age(beside: Beside, seconds: float) -> None:
    beside.source.status = replace(beside.source.status, age_seconds=seconds)


def test_what_the_kubelet_wrote_stays_until_its_status_says_so(beside: Beside) -> None:
    read = beside.world.kernel.read
    beside.world.kernel.write(*KEY, high(AFTER))
    age(beside, 9.0)
    beside.sync(70.0)
    assert read(*KEY) == high(AFTER), "the pods may be those of before"
    beside.source.latest = [AFTER]
    beside.source.allocated = planned((BEFORE,), beside.source.variant)
    age(beside, 0.0)
    for _ in range(5):
        beside.sync(SETTLE_SECONDS)
        assert read(*KEY) == high(AFTER), "it is being resized"
    beside.source.allocated = None
    beside.settle()
    assert read(*KEY) == high(AFTER)
    assert beside.files.rewrites.resets == 0
    assert beside.agent.release() == []
    assert read(*KEY) == high(AFTER), "it is the kubelet's"


def test_another_value_is_written_again_once_newer_pods_plan_the_same(beside: Beside) -> None:
    beside.world.kernel.write(*KEY, "50331648")
    age(beside, 9.0)
    beside.sync(70.0)
    assert beside.world.kernel.read(*KEY) == "50331648"
    assert beside.source.refreshes == 0
    age(beside, 0.0)
    beside.sync(1.0)
    assert beside.source.refreshes == 1, "the pods are asked for at once"
    assert beside.world.kernel.read(*KEY) == high(BEFORE)
    assert beside.files.rewrites.resets == 1


def test_nobody_waits_for_a_kubelet_that_does_not_answer(beside: Beside) -> None:
    beside.world.kernel.write(*KEY, "50331648")
    age(beside, 60.0)
    beside.sync(70.0)
    assert beside.world.kernel.read(*KEY) == "50331648"
    age(beside, 60.0 + SETTLE_SECONDS)
    beside.sync(SETTLE_SECONDS)
    assert beside.world.kernel.read(*KEY) == high(BEFORE)


def test_no_pods_are_asked_for_while_a_contested_file_waits_for_its_turn(beside: Beside) -> None:
    for _ in range(40):
        beside.world.kernel.write(*KEY, "50331648")
        beside.auditor.woken = True
        beside.sync(1.0)
    before, written = beside.source.refreshes, beside.files.writes
    for _ in range(3):
        beside.auditor.woken = True
        beside.sync(SETTLE_SECONDS)
    assert beside.status.contested[0].contest.is_reset
    assert (beside.source.refreshes, beside.files.writes) == (before, written)
