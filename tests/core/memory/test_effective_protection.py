"""Protection handed down a tree is the kernel's; a plan's values are told their worth."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.api.pod import Container, Pod
from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.cgroup.names import parents
from qoslet.core.memory.effective_protection import (
    EffectiveMemory,
    Overcommit,
    Protection,
    ProtectionTree,
    effective_memory,
    effective_protection,
    protection_of,
    tightest_limit,
)
from qoslet.core.memory.sample import MemorySample
from qoslet.core.node.node import Node
from qoslet.core.plan.effective_memory import FullNodeCgroup, recursive, standings
from qoslet.core.plan.plan import plan
from qoslet.core.versions import kubernetes
from tests.core.resources.test_memory_qos import BATCH, DB, WEB, pod, under

MI = 1 << 20


def tree(**groups: tuple[int, int] | tuple[int, int, int]) -> list[Protection]:
    """Groups named by their path with _ for /: usage, memory.min and memory.low in Mi."""
    return [
        Protection(f"/{name.replace('_', '/')}", *(amount * MI for amount in amounts))
        for name, amounts in groups.items()
    ]


def hard(found: Mapping[str, EffectiveMemory]) -> dict[str, float]:
    return {path: round(worth.hard / MI, 1) for path, worth in found.items()}


# The numbers of tools/testing/selftests/cgroup/test_memcontrol.c, test_memcg_min


def kernel_case(*usage: int) -> list[Protection]:
    """A without protection is left out: it is the group that reclaims; B holds 50 Mi."""
    held = dict(zip("CDEF", (75, 25, 0, 500), strict=True))
    below = {f"A_B_{name}": (used, held[name]) for name, used in zip("CDEF", usage, strict=True)}
    return tree(A_B=(sum(usage), 50), **below)


def test_overcommitted_siblings_share_by_what_they_use_of_their_claim() -> None:
    """33 and 17 Mi: the expectation of the selftest up to Linux 5.18."""
    found = hard(effective_memory(kernel_case(50, 50, 50, 0), recursive=False, root="/A"))
    assert found == {"/A/B": 50.0, "/A/B/C": 33.3, "/A/B/D": 16.7, "/A/B/E": 0.0, "/A/B/F": 0.0}


@pytest.mark.parametrize("handed_down", [True, False])
def test_reclaim_ends_where_the_kernel_s_own_model_ends(handed_down: bool) -> None:
    """29 and 21 Mi: the selftest since 5.19, by the model of memcg_protection.m: a tenth of each
    group's memory is scanned, what is protected is left out."""
    usage = [50.0 * MI, 50.0 * MI, 50.0 * MI, 0.0]
    names = [f"/A/B/{name}" for name in "CDEF"]
    limits = [75, 25, 0, 500]
    for _ in range(1000):
        claims = [Protection("/A/B", int(sum(usage)), 50 * MI)]
        claims += [
            Protection(name, int(used), limit * MI)
            for name, used, limit in zip(names, usage, limits, strict=True)
        ]
        kept = effective_memory(claims, recursive=handed_down, root="/A", page=1)
        for at, name in enumerate(names):
            protected = kept[name].hard
            share = 1 - (protected + 1) / (max(protected, usage[at]) + 1)
            taken = 0.1 * usage[at] * share
            usage[at] -= max(taken, 128 * 1024 if taken > 100 else 0)
            usage[at] = max(usage[at], 0)
    assert [round(used / MI) for used in usage] == [29, 21, 0, 0]


def test_what_children_do_not_claim_goes_to_those_above_their_claim() -> None:
    """memory_recursiveprot: the rest of B, by what each uses beyond its own claim."""
    claims = tree(A=(100, 80), A_a=(40, 30), A_b=(40, 0), A_c=(20, 20))
    assert hard(effective_memory(claims, recursive=False)) == {
        "/A": 80,
        "/A/a": 30,
        "/A/b": 0,
        "/A/c": 20,
    }
    assert hard(effective_memory(claims, recursive=True)) == {
        "/A": 80,
        "/A/a": 36,
        "/A/b": 24,
        "/A/c": 20,
    }


def test_an_ancestor_that_holds_nothing_makes_it_all_worth_nothing() -> None:
    claims = tree(pods=(100, 0), pods_tier=(60, 0, 60), pods_tier_web=(60, 0, 60))
    found = effective_memory(claims, recursive=True)
    assert {worth.soft for worth in found.values()} == {0}
    inside = effective_memory(claims, recursive=True, root="/pods")
    assert {path: worth.soft // MI for path, worth in inside.items()} == {
        "/pods/tier": 60,
        "/pods/tier/web": 60,
    }
    assert [
        (one.path, one.file, one.held, one.claimed // MI)
        for one in ProtectionTree(claims).overcommits()
    ] == [("/pods", "memory.low", 0, 60)]


def test_groups_between_that_nobody_named_hold_nothing() -> None:
    found = effective_memory(tree(own_pods=(10, 10), own_pods_web=(10, 10)), recursive=False)
    assert hard(found) == {"/own/pods": 0, "/own/pods/web": 0}
    [one] = ProtectionTree(tree(own_pods=(10, 10))).overcommits()
    assert (one.path, one.file) == ("/own", "memory.min")


def test_the_limit_with_the_least_room_binds_first() -> None:
    web = Protection("/p/web", 30 * MI, high=90 * MI, max=100 * MI)
    pods = Protection("/p", 150 * MI, max=200 * MI)
    found = effective_memory([pods, web], recursive=False)["/p/web"].binds
    assert found is not None
    assert (found.path, found.file, found.room) == ("/p", "memory.max", 50 * MI)
    alone = tightest_limit(replace(web, usage=0), tightest_limit(replace(pods, usage=0), None))
    assert alone is not None
    assert (alone.path, alone.file, alone.limit) == ("/p/web", "memory.high", 90 * MI)
    assert effective_memory([Protection("/x", 1)], recursive=False)["/x"].binds is None


def test_a_look_at_a_group_is_a_claim() -> None:
    looked = MemorySample("/a", 1.0, 7, 5 * MI, high=UNLIMITED, max=9 * MI, low=2 * MI, min=MI)
    assert protection_of(looked) == Protection("/a", 5 * MI, MI, 2 * MI, UNLIMITED, 9 * MI)
    assert protection_of(MemorySample("/a", 1.0, 7, 5)) == Protection("/a", 5)


AMOUNT = st.integers(0, 64)


@st.composite
def trees(draw: st.DrawFn) -> list[Protection]:
    """A tree of four levels; what a group uses is at least what its children use."""
    paths = ["/a", "/b"]
    for parent in list(paths):
        paths += [f"{parent}/{n}" for n in range(draw(st.integers(0, 3)))]
    for parent in [path for path in paths if path.count("/") == 2]:
        paths += [f"{parent}/{n}" for n in range(draw(st.integers(0, 3)))]
    used = {path: draw(AMOUNT) for path in paths}
    for path in sorted(paths, key=len, reverse=True):
        for above in list(parents(path))[:1]:
            used[above] += used[path]
    return [
        Protection(path, used[path] * MI, draw(AMOUNT) * MI, draw(AMOUNT) * MI) for path in paths
    ]


def children(claims: list[Protection], path: str) -> list[str]:
    return [claim.path for claim in claims if claim.path.rpartition("/")[0] == path]


@given(trees(), st.booleans())
def test_children_never_get_more_than_their_parent_has(
    claims: list[Protection], handed_down: bool
) -> None:
    found = effective_memory(claims, recursive=handed_down)
    assert found.keys() == {claim.path for claim in claims}
    for claim in claims:
        below = [found[path] for path in children(claims, claim.path)]
        assert sum(one.hard for one in below) <= found[claim.path].hard
        assert sum(one.soft for one in below) <= found[claim.path].soft
        assert found[claim.path].hard >= 0
        if claim.path.count("/") > 1 and not handed_down:
            assert found[claim.path].hard <= min(claim.min, claim.usage)


@given(st.lists(st.one_of(trees(), st.sampled_from(["/a", "/b", "/a/0", "/a/0/1"])), max_size=5))
def test_claims_that_come_and_go_are_worth_what_they_are_at_once(
    steps: list[list[Protection] | str],
) -> None:
    """Whatever came before, what is worth how much follows from the claims that are there."""
    tree, there = ProtectionTree(), dict[str, Protection]()
    for step in steps:
        if isinstance(step, str):
            tree.drop(step)
            there.pop(step, None)
        for claim in step if isinstance(step, list) else []:
            tree.put(claim)
            there[claim.path] = claim
    for handed_down in (False, True):
        found = {path: tree.effective(path, recursive=handed_down) for path in tree}
        assert found == effective_memory(there.values(), recursive=handed_down)
    assert set(tree.overcommits()) == set(ProtectionTree(there.values()).overcommits())
    for path in list(tree):
        tree.drop(path)
    assert not list(tree.overcommits())
    assert tree.effective("/a", recursive=True) is None


def test_a_loss_says_who_does_not_hold_the_claim() -> None:
    made = ProtectionTree(
        tree(q=(90, 0, 64), q_p=(80, 0, 32), q_p_a=(60, 0, 64), q_p_b=(20, 10, 10))
    )
    worth = made.effective("/q/p/a", recursive=False)
    assert worth is not None
    [loss] = made.losses("/q/p/a", worth)
    assert (loss.file, loss.value, loss.used) == ("memory.low", 64 * MI, 60 * MI)
    assert loss.kept == worth.soft < 60 * MI
    assert loss.cut == Overcommit("/q/p", "memory.low", 32 * MI, 70 * MI)
    hard, soft = made.losses("/q/p/b", EffectiveMemory(0, 0))
    assert hard.cut == Overcommit("/q/p", "memory.min", 0, 10 * MI)
    assert (soft.file, soft.kept) == ("memory.low", 0)
    assert made.losses("/q", EffectiveMemory(0, 64 * MI)) == ()


@given(trees(), st.integers(0, 30), st.integers(1, 64))
def test_a_larger_value_of_an_ancestor_takes_nothing_from_those_below(
    claims: list[Protection], at: int, more: int
) -> None:
    grown = claims[at % len(claims)]
    after = [replace(one, min=one.min + more * MI) if one is grown else one for one in claims]
    before, found = (
        effective_memory(claims, recursive=False),
        effective_memory(after, recursive=False),
    )
    for path in (grown.path, *(p for p in before if p.startswith(f"{grown.path}/"))):
        assert found[path].hard >= before[path].hard


@given(trees())
def test_handing_down_takes_nothing_away(claims: list[Protection]) -> None:
    without, found = (
        effective_memory(claims, recursive=False),
        effective_memory(claims, recursive=True),
    )
    assert all(found[path].hard >= without[path].hard for path in found)


@given(*[AMOUNT] * 5)
def test_one_group_is_the_formula_of_the_kernel(
    usage: int, setting: int, parent: int, others: int, spare: int
) -> None:
    """In pages, as mm/page_counter.c computes it."""
    siblings = min(usage, setting) + others
    parent_usage = usage + others + spare
    kept = effective_protection(usage, parent_usage, setting, parent, siblings, True)
    if siblings > parent:
        assert kept == min(usage, setting) * parent // siblings
    assert kept <= parent
    assert kept >= min(usage, setting) or siblings > parent


# Plans


def standing(node: Node, *pods: Pod) -> dict[str, FullNodeCgroup]:
    made = plan(list(pods), node)
    return {key.partition("\0")[0]: one for key, one in standings(made).items()}


TIERED = {"memory_reservation_policy": "TieredReservation"}


@settings(deadline=None)
@given(st.sampled_from(["/", "/own"]), st.booleans())
def test_under_form_qoslet_every_value_is_worth_what_it_says(root: str, handed_down: bool) -> None:
    mounts = {"memory_recursiveprot": ""} if handed_down else {"rw": ""}
    node = under("qoslet", cgroup_root=root, host={"mounts": mounts})
    assert recursive(node.host) == handed_down
    found = standing(node, DB, WEB, BATCH)
    assert not any(
        one.lost(file) for one in found.values() for file in ("memory.min", "memory.low")
    )
    base = "" if root == "/" else root
    web = found[f"{base}/kubepods/burstable/podweb/c0"]
    assert (web.worth.hard, web.worth.soft) == (0, 32 * MI)
    assert found[f"{base}/kubepods/poddb/c0"].worth.hard == 56 * MI
    assert found[f"{base}/kubepods/besteffort/podbatch/c0"].worth.protected == 0


@pytest.mark.parametrize(("form", "kept"), [("1.36", 0), ("1.37", 32), ("1.22", 32)])
def test_burstable_protection_of_1_36_is_worth_nothing(form: str, kept: int) -> None:
    found = standing(under(form, **TIERED), DB, WEB, BATCH)
    web = found["/kubepods/burstable/podweb/c0"]
    assert web.worth.protected == kept * MI
    assert web.lost("memory.low") == (kept == 0)
    if not kept:
        cut = web.cut["memory.low"]
        assert (cut.path, cut.held, cut.claimed) == ("/kubepods", 0, 48 * MI)


def test_a_surplus_of_kubepods_is_handed_to_all_where_the_mount_does_so() -> None:
    """kubepods of 1.36 holds memory.min for Burstable pods that claim none: best effort, which
    uses most, gets most of it."""
    node = under("1.36", host={"mounts": {"memory_recursiveprot": ""}}, **TIERED)
    found = standing(node, DB, WEB, BATCH)
    best = found["/kubepods/besteffort/podbatch/c0"].worth.hard
    web = found["/kubepods/burstable/podweb/c0"].worth.hard
    assert best > 40 * MI > MI > web


def test_published_forms_below_a_cgroup_root_protect_nothing() -> None:
    node = under("1.37", cgroup_root="/own", **TIERED)
    found = standing(node, DB, WEB)
    assert {one.worth.protected for one in found.values()} == {0}
    assert found["/own/kubepods/poddb/c0"].cut["memory.min"].path == "/own"


def test_an_init_container_is_alone_in_its_pod() -> None:
    other = pod("q", ("8Mi", "8Mi"), ("100Mi", "128Mi"))
    first, second = other.containers
    init = Container(first.name, "init", "spec.initContainers[0]", second.resources)
    one = replace(other, containers=(init, replace(second, resources=first.resources)))
    found = standing(under("qoslet"), one, WEB)
    assert found["/kubepods/burstable/podq/c0"].worth.soft == 100 * MI
    assert found["/kubepods/burstable/podq/c1"].worth.soft == 8 * MI
    assert found["/kubepods/burstable/podq"].claim.usage == 100 * MI


def test_the_limit_that_binds_first_of_a_plan() -> None:
    node = under("qoslet", memory_throttling_factor=0.5)
    found = standing(node, DB, WEB, BATCH)
    where = {path: one.binds for path, one in found.items()}
    web, batch = where["/kubepods/burstable/podweb/c0"], where["/kubepods/poddb/c0"]
    assert web is not None
    assert (web.file, web.limit) == ("memory.high", 48 * MI)
    assert batch is not None
    assert (batch.file, batch.limit) == ("memory.max", 64 * MI)


def test_containers_of_many_pods_side_by_side_are_told_apart() -> None:
    node = under("qoslet", cgroups_per_qos=False)
    assert len(standings(plan([DB, pod("e", ("8Mi", ""))], node))) == 2
    windows = replace(node, os="windows", profile=kubernetes.resolve("1.36"))
    assert standings(plan([DB], windows)) == {}
