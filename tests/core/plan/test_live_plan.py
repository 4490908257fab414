"""A plan that follows its pods says at every moment what a plan made at once would say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.api.pod import NO_RESOURCES, Container, Pod, Resources, Role
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import LivePlan, PodGroups
from qoslet.core.plan.plan import plan
from qoslet.core.plan.pod_planner import distinct
from qoslet.core.versions.kubernetes import NEWEST, OLDEST
from tests.core.vectors.fixtures import node_of, quantities, resources

RELEASES = ["design", *(f"1.{minor}" for minor in range(OLDEST, NEWEST + 1))]
CAPACITY = {"cpu": "8", "memory": "8Gi", "hugepages-2Mi": "64Mi"}
GATES = ("MemoryQoS", "PodLevelResources", "SidecarContainers", "CustomCPUCFSQuotaPeriod")

SIZES: list[Resources] = [
    NO_RESOURCES,
    *(
        resources({"requests": requests, "limits": limits})
        for requests, limits in (
            ({"cpu": "1", "memory": "64Mi"}, {"cpu": "1", "memory": "64Mi"}),
            ({"cpu": "3", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"}),
            ({"cpu": "500m", "memory": "1"}, {"cpu": "500m", "memory": "1"}),
            ({"cpu": "250m", "memory": "7Gi"}, {}),
            ({"memory": "100M"}, {"memory": "200M"}),
            ({"cpu": "1m"}, {"cpu": "5m"}),
            ({"hugepages-2Mi": "4Mi", "cpu": "2"}, {"hugepages-2Mi": "4Mi", "cpu": "2"}),
        )
    ),
]
LEVELS = [None, Resources(), resources({"requests": {"cpu": "2"}, "limits": {"memory": "2Gi"}})]
OVERHEADS = [quantities({}), quantities({"cpu": "10m", "memory": "16Mi"})]


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Nodes of every release, hierarchy, driver and policy."""
    os = draw(st.sampled_from(["linux"] * 5 + ["windows"]))
    kubelet: dict[str, Any] = {
        "cpu_manager_policy": draw(st.sampled_from(["none", "static", "static"])),
        "cgroups_per_qos": draw(st.sampled_from([True, True, True, False])),
        "cgroup_root": draw(st.sampled_from(["/", "/qoslet"])),
        "qos_reserved": draw(st.sampled_from([None, 0, 50, 100])),
        "reserved_system_cpus": draw(st.sampled_from(["", "0"])),
        "memory_reservation_policy": draw(st.sampled_from(["None", "TieredReservation"])),
        "max_pods": draw(st.sampled_from([2, 110])),
    }
    return node_of(
        draw(st.sampled_from(RELEASES)),
        capacity=CAPACITY,
        host={
            "hierarchy": draw(st.sampled_from(["v1", "v2"])),
            "cpus": "0-7",
            "hugepage_sizes": (2 << 20,),
        },
        gates={name: draw(st.booleans()) for name in GATES},
        runtime=draw(st.sampled_from(["process", "runc-1.4.0", "containerd-2.1+crun-1.20"])),
        driver=draw(st.sampled_from(["cgroupfs", "systemd"])),
        os=os,
        **kubelet,
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod of one of a few UIDs, so that many replace each other."""
    uid = draw(st.sampled_from("abcdef"))
    roles: list[Role] = sorted(
        draw(st.lists(st.sampled_from(["init", "regular", "sidecar"]), max_size=3)),
        key=lambda role: role == "regular",
    )
    return Pod(
        "default",
        draw(st.sampled_from([uid, "twin"])),
        uid,
        f"f{draw(st.integers(0, 3))}.yaml",
        tuple(
            Container(f"c{at}", role, f"spec.containers[{at}]", draw(st.sampled_from(SIZES)))
            for at, role in enumerate([*roles, "regular"])
        ),
        resources=draw(st.sampled_from([None, *LEVELS])),
        overhead=draw(st.sampled_from(OVERHEADS)),
        os=draw(st.sampled_from(["linux"] * 9 + ["windows"])),
        critical=draw(st.booleans()),
        status_qos=draw(st.sampled_from([None, "", "Burstable"])),
    )


MOVES = st.lists(st.one_of(pods(), pods(), st.sampled_from("abcdef")), min_size=1, max_size=12)


def groups_by_pod(live: LivePlan) -> dict[str, PodGroups]:
    return {uid: live.groups(uid) for uid in live.uids}


@settings(max_examples=300, deadline=None)
@given(nodes(), MOVES)
def test_it_is_the_plan_of_the_same_pods(node: Node, moves: list[Pod | str]) -> None:
    live = LivePlan(node)
    pods: dict[str, Pod] = {}
    for move in moves:
        before = groups_by_pod(live)
        if isinstance(move, str):
            pods.pop(move, None)
            others, own = live.remove(move), move
        else:
            pods[move.uid] = move
            answer = live.add(move)
            others, own = answer.others, move.uid
            assert answer.pod is move
        kept = None if live.managers is None else live.managers.kept()
        at_once = plan(list(pods.values()), node, kept=kept)
        assert live.plan() == at_once
        assert live.upper() == tuple(group for group in at_once.cgroups if group.pod is None)
        after = groups_by_pod(live)
        whole = [group for one in after.values() for group in one.groups]
        assert (whole if node.kubelet.cgroups_per_qos else distinct(whole)) == [
            group for group in at_once.cgroups if group.pod is not None
        ]
        moved = {uid for uid in before.keys() & after if before[uid].groups != after[uid].groups}
        assert moved - {own} <= others
        assert own not in others
        assert others <= after.keys()


@settings(max_examples=100, deadline=None)
@given(nodes(), st.lists(pods(), min_size=1, max_size=8))
def test_what_is_put_and_dropped_leaves_nothing(node: Node, given: list[Pod]) -> None:
    live, fresh = LivePlan(node), LivePlan(node)
    for pod in given:
        live.add(pod)
    for uid in live.uids:
        live.remove(uid)
    assert live.upper() == fresh.upper()
    assert live.plan() == fresh.plan()
    assert live.qos_totals == fresh.qos_totals


@settings(max_examples=60, deadline=None)
@given(nodes(), pods(), pods())
def test_rows_about_one_pod_are_the_plans(node: Node, first: Pod, second: Pod) -> None:
    live = LivePlan(node)
    alone = live.add(first).problems
    whole = Counter(plan([first], node).problems)
    assert not Counter(alone) - whole
    about = [row for row in whole.elements() if row.where.startswith(first.where)]
    assert sorted(alone, key=repr) == sorted(about, key=repr)
    live.add(replace(second, uid="z"))
    assert live.groups(first.uid).problems == alone


def pod(uid: str, cpu: str) -> Pod:
    size = resources({name: {"cpu": cpu, "memory": "1Mi"} for name in ("requests", "limits")})
    return Pod("default", uid, uid, f"{uid}.yaml", (Container("c", "regular", "spec", size),))


def static() -> LivePlan:
    return LivePlan(
        node_of("1.36", capacity=CAPACITY, host={"cpus": "0-7"}, cpu_manager_policy="static")
    )


def test_a_pod_that_takes_cpus_changes_those_that_share() -> None:
    live = static()
    assert live.add(pod("shares", "500m")).others == frozenset()
    assert live.add(pod("takes", "2")).others == {"shares"}
    assert live.add(pod("also", "500m")).others == frozenset()
    assert live.remove("takes") == {"shares", "also"}


def test_the_same_again_changes_nobody() -> None:
    live = static()
    live.add(pod("shares", "500m"))
    live.add(pod("takes", "2"))
    assert live.add(pod("takes", "2")).others == frozenset()


def test_an_unknown_pod_is_no_fault_to_drop_and_one_to_ask_for() -> None:
    live = static()
    assert live.remove("nobody") == frozenset()
    with pytest.raises(KeyError):
        live.groups("nobody")


def test_problems_of_reading_come_first() -> None:
    live = LivePlan(node_of("1.36", capacity=CAPACITY))
    row = plan([], node_of("1.36", runtime="containerd-2.1")).problems[0]
    assert live.plan((row,)).problems[0] == row
    assert live.plan().problems == ()


def test_memory_is_that_of_the_pods_put() -> None:
    live = LivePlan(node_of("1.36", capacity=CAPACITY))
    for number in range(200):
        live.add(pod("same", f"{number + 1}m"))
        live.add(pod(f"other{number}", f"{number + 1}m"))
        live.remove(f"other{number}")
    assert live.uids == ("same",)
    assert live.planner.templates.count == 1


def test_cpus_that_a_later_pod_gives_up_go_to_an_earlier_one() -> None:
    live = static()
    for uid, cpu in (("a", "1"), ("b", "6"), ("a", "4")):
        live.add(pod(uid, cpu))
    assert live.managers is not None
    assert list(live.managers.refused) == ["a"]
    assert live.add(pod("b", "1")).others == {"a"}
    assert not live.managers.refused
