"""Pods that a node rejects count in no sum, of any command; source: kubelet canAdmitPod and
qos_container_manager_linux.go, which sums active pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.api.pod import Pod
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import parse
from tests.agent.fixtures import Bench, pod_of, resources
from tests.core.vectors.fixtures import node_of

ASKED = resources("cpu=300m memory=64Mi")
LINUX = pod_of("linux", ASKED)
WINDOWS = replace(pod_of("windows", resources("cpu=1 memory=512Mi")), os="windows")


def node(**more: object) -> Node:
    return node_of(36, capacity={"cpu": "4", "memory": "8Gi"}, qos_reserved={"memory": 100}, **more)  # type: ignore[arg-type]


def sums(*pods: Pod) -> dict[str, str]:
    """The values of the QoS cgroups that depend on pods."""
    made = plan(pods, node())
    return {
        f"{group.name}/{row.file}": row.value
        for group in made.cgroups
        if group.level in ("qos", "node")
        for row in group.settings
    }


@pytest.mark.parametrize("first", [True, False])
def test_a_pod_of_another_system_changes_no_sum(first: bool) -> None:
    both = (WINDOWS, LINUX) if first else (LINUX, WINDOWS)
    assert sums(*both) == sums(LINUX)
    assert sums(WINDOWS) == sums()


def test_sums_follow_pods_that_come_change_and_go() -> None:
    live = LivePlan(node())
    empty = live.qos_totals
    live.add(LINUX)
    one = live.qos_totals
    live.add(WINDOWS)
    assert live.qos_totals == one
    live.add(replace(WINDOWS, os="linux"))
    assert live.qos_totals != one
    live.add(WINDOWS)
    assert live.qos_totals == one
    live.add(replace(WINDOWS, containers=pod_of("x", ASKED).containers))
    assert live.qos_totals == one
    live.remove(WINDOWS.uid)
    live.remove(LINUX.uid)
    assert live.qos_totals == empty


def test_a_pod_without_cpus_counts_once_there_is_room() -> None:
    whole = resources("cpu=2 memory=64Mi", "cpu=2 memory=64Mi")
    first, second = pod_of("a", whole), pod_of("b", whole)
    live = LivePlan(node(cpu_manager_policy="static", system_reserved={"cpu": parse("1")}))
    live.add(first)
    alone = live.qos_totals
    assert live.add(second).refused is not None
    assert live.qos_totals == alone
    together = plan((first, second), live.node)
    assert [row.settings for row in together.cgroups if row.level == "qos"] == [
        row.settings for row in live.upper() if row.level == "qos"
    ]
    live.remove(first.uid)
    assert live.groups(second.uid).refused is None
    assert live.qos_totals == alone


def test_a_rejected_pod_takes_no_room_from_a_resize() -> None:
    bench = Bench("v2")
    bench.put("a", "cpu=1")
    bench.turn()
    wrong = pod_of("big", resources("cpu=3"))
    spec = replace(bench.source.pods["a"].spec, uid="big", key="d/big", launches=())
    bench.source.put(wrong, spec)
    bench.turn(1.0)
    assert bench.rows["big"].phase == "Failed"
    bench.put("a", "cpu=3")
    bench.turn(1.0)
    assert bench.rows["a"].resize == "Done"
