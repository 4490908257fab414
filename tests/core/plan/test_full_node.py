"""What groups use when the node is full stays within the limits above them, as the kernel shares it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.pod import Pod
from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.names import parents
from qoslet.core.explain.effective_memory import loss
from qoslet.core.memory.effective_protection import Protection
from qoslet.core.plan.effective_memory import FullNodeCgroup, standings
from qoslet.core.plan.full_node import Filled, Limit, fill
from qoslet.core.plan.plan import plan
from qoslet.core.problem import Problem
from tests.core.resources.test_memory_qos import pod, under
from tests.core.vectors.fixtures import quantities

MI = 1 << 20
TIGHT: dict[str, Any] = {
    "capacity": {"cpu": "4", "memory": "8Gi"},
    "kube_reserved": quantities({"memory": "512Mi"}),
    "memory_reservation_policy": "TieredReservation",
}
BIG = pod("a", ("4100Mi", "5Gi")), pod("b", ("4100Mi", "5Gi"))


def standing(form: str, *pods: Pod, **more: Any) -> dict[str, FullNodeCgroup]:
    made = plan(list(pods), under(form, **{**TIGHT, **more}))
    return {key.partition("\0")[0]: one for key, one in standings(made).items()}


def groups(**amounts: tuple[int, ...]) -> tuple[dict[str, Protection], dict[str, int]]:
    """Groups named by their path with _ for /: what is asked, memory.min, memory.low and
    memory.max in Mi."""
    claims, asked = {}, {}
    for name, (want, *values) in amounts.items():
        path = f"/{name.replace('_', '/')}"
        least, low, most = (*(value * MI for value in values), *(0, 0, UNLIMITED)[len(values) :])
        claims[path], asked[path] = Protection(path, 0, least, low, UNLIMITED, most), want * MI
    return claims, asked


def used(found: dict[str, Filled]) -> dict[str, int]:
    return {path: one.usage // MI for path, one in found.items()}


def test_what_is_too_much_is_taken_from_the_least_protected_first() -> None:
    claims, asked = groups(p=(0, 0, 0, 100), p_a=(60, 60), p_b=(60, 0, 40), p_c=(60,), p_d=(20,))
    found = used(fill(claims, asked, {}, 0))
    assert found == {"/p": 100, "/p/a": 60, "/p/b": 40, "/p/c": 0, "/p/d": 0}
    claims["/p"] = Protection("/p", 0, max=140 * MI)
    found = used(fill(claims, asked, {}, 0))
    assert found == {"/p": 140, "/p/a": 60, "/p/b": 48, "/p/c": 24, "/p/d": 8}
    claims["/p"] = Protection("/p", 0, max=30 * MI)
    assert used(fill(claims, asked, {}, 0))["/p/a"] == 30


def test_the_limit_that_holds_a_group_back_is_named() -> None:
    claims, asked = groups(p=(0, 0, 0, 100), p_q=(0, 0, 0, 90), p_q_a=(80,), p_q_b=(80,), z=(5,))
    found = fill(claims, asked, {}, 0)
    assert found["/p/q/a"] == Filled(80 * MI, 45 * MI, Limit("/p/q", 90 * MI))
    assert found["/p"] == Filled(160 * MI, 90 * MI, Limit("/p/q", 90 * MI))
    assert found["/z"] == Filled(5 * MI, 5 * MI)
    found = fill(claims, asked, {}, 50 * MI)
    assert found["/p"].limit == Limit("", 50 * MI)


def test_a_group_needs_at_times_more_than_those_below_it_now() -> None:
    claims, asked = groups(p=(0, 0, 0, 80), p_a=(10,))
    assert used(fill(claims, asked, {"/p": 100 * MI}, 0)) == {"/p": 80, "/p/a": 10}


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, Protection], dict[str, int]]:
    amount = st.integers(0, 64)
    paths = ["/a", "/b", *(f"/a/{at}" for at in range(draw(st.integers(0, 3))))]
    paths += [f"{one}/x{at}" for one in paths for at in range(draw(st.integers(0, 3)))]
    claims = {
        path: Protection(path, 0, draw(amount), draw(amount), UNLIMITED, draw(amount))
        for path in paths
    }
    return claims, {path: draw(amount) for path in paths}


@given(trees(), st.integers(1, 300))
def test_nobody_uses_more_than_limits_leave(
    made: tuple[dict[str, Protection], dict[str, int]], capacity: int
) -> None:
    claims, asked = made
    found = fill(claims, asked, {}, capacity)
    for path, one in found.items():
        below = [found[at].usage for at in claims if next(parents(at), "") == path]
        assert sum(below) <= one.usage <= min(one.asked, claims[path].max)
        assert (one.limit is None) == (one.usage == one.asked)
    assert sum(found[path].usage for path in ("/a", "/b")) <= capacity


@pytest.mark.parametrize(("form", "file"), [("qoslet", "memory.low"), ("1.22", "memory.min")])
def test_requests_beyond_the_limit_of_kubepods(form: str, file: str) -> None:
    found = standing(form, *BIG)
    top, one = found["/kubepods"], found["/kubepods/burstable/poda/c0"]
    assert (top.claimed(file), top.kept(file)) == (8200 * MI, 7680 * MI)
    assert (one.claimed(file), one.kept(file)) == (4100 * MI, 3840 * MI)
    why = f"memory.max of /kubepods is {7680 * MI}"
    assert loss(top, file) == f"effective {7680 * MI}: {why}"
    assert loss(one, file) == f"effective {3840 * MI}: {why}"
    alone = standing(form, BIG[0])
    assert not any(one.lost(file) for one in alone.values())


def test_requests_beyond_the_machine() -> None:
    found = standings(plan([*BIG], under("1.37", **TIGHT, cgroups_per_qos=False)))
    assert len(found) == 2
    for one in found.values():
        assert (one.limit, one.kept("memory.low")) == (Limit("", 8192 * MI), 4096 * MI)
        assert loss(one, "memory.low") == f"effective {4096 * MI}: the machine has {8192 * MI}"


@settings(deadline=None)
@given(st.sampled_from(["1.22", "1.36", "1.37", "qoslet"]), st.integers(1, 9000), st.booleans())
def test_no_value_is_worth_more_than_a_limit_above_it(form: str, asked: int, hand: bool) -> None:
    mounts = {"memory_recursiveprot": ""} if hand else {"rw": ""}
    found = standing(form, pod("a", (f"{asked}Mi", "")), *BIG, host={"mounts": mounts})
    for path, one in found.items():
        for above in (path, *parents(path)):
            assert one.worth.protected <= found[above].claim.max, path


def rows(form: str, *pods: Pod, **more: Any) -> list[Problem]:
    found = plan(list(pods), under(form, **{**TIGHT, **more})).problems
    return [one for one in found if "is not below memory.max" in one.message]


@pytest.mark.parametrize("form", ["1.22", "1.36", "1.37"])
def test_memory_min_above_memory_max_of_kubepods_is_a_trap(form: str) -> None:
    [row] = rows(form, *BIG)
    assert (row.severity, row.where) == ("warning", "/kubepods: memory.min")
    assert row.message.startswith("8200Mi is not below memory.max 7680Mi: what its children claim")
    [row] = rows(form, *BIG, host={"mounts": {"memory_recursiveprot": ""}})
    assert "memory_recursiveprot gives it to all" in row.message
    assert rows(form, BIG[0]) == rows("qoslet", *BIG) == []
