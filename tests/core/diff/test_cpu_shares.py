"""Who competes for the CPU of a node's pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.diff.cpu_shares import cpu_shares
from qoslet.core.diff.diff import Share
from qoslet.core.plan.plan import plan
from tests.core.fleet.test_change import pod_of
from tests.core.plan.test_live_plan import CAPACITY
from tests.core.vectors.fixtures import node_of, resources


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_windows_pod_takes_nothing_on_a_linux_node(hierarchy: str) -> None:
    """Charts carry one workload for Linux and one for Windows: their plan on a Linux node has
    both."""
    size = resources({"requests": {"cpu": "100m", "memory": "64Mi"}})
    linux, windows = pod_of("agent", size), replace(pod_of("agent-win", size), os="windows")
    node = node_of("1.36", capacity=CAPACITY, host={"hierarchy": hierarchy})
    assert cpu_shares(plan([linux, windows], node)) == cpu_shares(plan([linux], node))


def test_a_hundredth_is_the_same_however_it_was_multiplied() -> None:
    """Weights 10 of 99 against shares 256 of 2560: fleet multiplies the same parts in another order."""
    (cgroup, *_) = plan([], node_of("1.37", capacity=CAPACITY)).cgroups
    once, again = (10 / 99, 256 / 2560), (98 / 99 * (10 / 98), 2560 / 2560 * (256 / 2560))
    found = {
        Share("", cgroup, *parts).direction for parts in (once, again, (1.0, 0.99), (1.0, 1.01))
    }
    assert found == {"same"}
    assert Share("", cgroup, 1.0, 0.9899).direction == "worse"
    assert Share("", cgroup, 1.0, 1.0101).direction == "better"
