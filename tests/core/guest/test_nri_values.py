"""What the plugin of a runtime sets: what the agent would write, and only where nothing is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.cgroup.names import cgroups_path, container_path
from qoslet.core.guest.nri_container import NriContainer
from qoslet.core.guest.nri_values import (
    ContainerValues,
    PlannedContainers,
    is_current,
    kubelet_sets,
    may_carry,
    values_at_creation,
    values_to_change,
    values_to_return,
)
from qoslet.core.guest.policy import GuestPolicy, governed
from tests.agent.guest.beside import KUBEPODS, MIB, kubelet_pod, planned

PROTECT = GuestPolicy("protect")
CONTAINER = NriContainer("c1", "a", "app", "d/a", f"{KUBEPODS}/burstable/poda/c1", "", 256 * MIB)
VALUES = {"memory.min": str(64 * MIB), "memory.high": str(200 * MIB)}
PLANNED = ContainerValues(VALUES, 256 * MIB)


def test_the_values_are_those_that_the_agent_writes() -> None:
    plan = planned([kubelet_pod("a"), kubelet_pod("b", "memory=8Mi", "")], "qoslet")
    found = PlannedContainers().of(plan, PROTECT)
    written = {
        (one.pod.uid, one.container.name): {row.file: row.value for row in one.settings}
        for one in governed(plan, PROTECT, KUBEPODS)
        if one.level == "container" and one.pod is not None and one.container is not None
    }
    assert {key: one.values for key, one in found.items()} == written
    assert len(written) == 2
    assert [one.memory_limit for one in found.values()] == [256 * MIB, None]
    only = PlannedContainers().of(
        plan, replace(PROTECT, files=frozenset({"memory.low", "cpu.weight"}))
    )
    assert all(set(one.values) <= {"memory.low"} for one in only.values())
    watched = PlannedContainers().of(plan, GuestPolicy())
    assert [one.values for one in watched.values()] == [{}, {}]


def test_a_pod_without_an_id_is_planned_for_all_the_same() -> None:
    pod = kubelet_pod("a")
    [app] = pod.containers
    new = replace(pod, containers=(replace(app, id=None, runs=False),))
    with_id = PlannedContainers().of(planned([pod], "qoslet"), PROTECT)
    assert PlannedContainers().of(planned([new], "qoslet"), PROTECT) == with_id


def test_a_key_that_somebody_has_set_is_left() -> None:
    assert values_at_creation(PLANNED, CONTAINER) == VALUES
    taken = replace(CONTAINER, unified={"memory.high": "1", "io.weight": "5"})
    assert values_at_creation(PLANNED, taken) == {"memory.min": VALUES["memory.min"]}


@pytest.mark.parametrize("handler", ["kata", "gvisor", "RUNC"])
def test_other_runtimes_and_cgroups_elsewhere_are_left(handler: str) -> None:
    assert may_carry(CONTAINER)
    assert may_carry(replace(CONTAINER, handler="runc"))
    assert not may_carry(replace(CONTAINER, handler=handler))
    assert not may_carry(replace(CONTAINER, path=None))


def test_a_plan_that_was_made_with_another_limit_is_not_current() -> None:
    assert is_current(PLANNED, CONTAINER)
    assert not is_current(PLANNED, replace(CONTAINER, memory_limit=128 * MIB))
    assert not is_current(PLANNED, replace(CONTAINER, memory_limit=None))


def test_what_differs_is_changed() -> None:
    holds = {"memory.min": "7", "memory.high": VALUES["memory.high"]}
    assert values_to_change(PLANNED, holds, {}, 0) == {"memory.min": VALUES["memory.min"]}
    assert values_to_change(PLANNED, VALUES, {}, 0) == {}
    assert values_to_change(PLANNED, {}, {}, 0) == VALUES
    assert values_to_change(None, holds, {}, 0) == {}
    rounded = ContainerValues({"memory.low": "4097"}, None)
    assert values_to_change(rounded, {"memory.low": "4096"}, {}, 0) == {}


@pytest.mark.parametrize("usage", [None, 200 * MIB + 1])
def test_a_limit_below_usage_is_left_to_the_agent(usage: int | None) -> None:
    found = values_to_change(PLANNED, {}, {}, usage)
    assert found == {"memory.min": VALUES["memory.min"]}
    assert values_to_change(PLANNED, {}, {}, 200 * MIB) == VALUES
    assert values_to_change(None, {}, {"memory.high": "max"}, usage) == {"memory.high": "max"}
    assert values_to_change(None, {}, {"memory.high": "4096"}, usage) == {}


def test_what_the_policy_names_no_longer_is_given_back() -> None:
    ours: dict[str, str | None] = {"memory.min": None, "memory.high": "8192"}
    back = {"memory.min": "0", "memory.high": "8192"}
    assert values_to_return(None, GuestPolicy(), ours) == back
    only = replace(PROTECT, files=frozenset({"memory.min"}))
    assert values_to_return(PLANNED, only, ours) == {"memory.high": "8192"}
    assert values_to_return(None, PROTECT, ours) == {}, "a pod that lacks takes nothing back"
    bare = ContainerValues({}, 256 * MIB)
    assert values_to_return(bare, PROTECT, ours) == back, "Memory QoS is off now"


def test_the_kubelets_own_memory_qos_is_not_overwritten_at_creation() -> None:
    plan = planned([kubelet_pod("a")], "qoslet")
    assert not kubelet_sets(plan.node)
    kubelet = replace(plan.node.kubelet, feature_gates={"MemoryQoS": True})
    own = replace(plan, node=replace(plan.node, kubelet=kubelet))
    assert kubelet_sets(own.node)
    assert [one.values for one in PlannedContainers().of(own, PROTECT).values()] == [{}]


def test_a_cgroups_path_is_read_as_it_is_written() -> None:
    for parent in ("/kubepods/burstable/podu", "/kubepods.slice/kubepods-podu.slice"):
        text = cgroups_path("containerd", parent, "c1")
        leaf = "cri-containerd-c1.scope" if parent.endswith(".slice") else "c1"
        assert container_path(text) == f"{parent}/{leaf}"
    for wrong in ("", "a", "a:b:c", "a.slice:b/../c:d", "a.slice::", "/a/../b", "//a", "/"):
        with pytest.raises(ValueError, match=r"names no cgroup|slice|empty"):
            container_path(wrong)


def test_only_containers_of_another_cgroup_are_made_again() -> None:
    plan, containers = planned([kubelet_pod("a"), kubelet_pod("b")], "qoslet"), PlannedContainers()
    before = containers.of(plan, PROTECT)
    cgroups = tuple(
        replace(one, settings=()) if one.pod is not None and one.pod.uid == "b" else one
        for one in plan.cgroups
    )
    after = containers.of(replace(plan, cgroups=cgroups), PROTECT)
    [a, b] = before
    assert after[a] is before[a]
    assert (bool(before[b].values), after[b].values) == (True, {})
    watched = containers.of(plan, GuestPolicy())
    assert [one.values for one in watched.values()] == [{}, {}], "another policy"
