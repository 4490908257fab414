"""Who competes for the CPU of a node's pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.diff.cpu_shares import cpu_shares
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
