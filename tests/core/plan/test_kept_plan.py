"""A plan that is kept gives what planning anew gives, whatever pods come, change and go."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from qoslet.core.plan.kept_plan import KeptPlan
from qoslet.core.plan.plan import plan
from qoslet.core.problem import Problem
from tests.agent.guest.beside import kubelet_pod, planned

NODE = planned([], "qoslet").node
RESOURCES = [("memory=64Mi", "memory=256Mi"), ("cpu=3", "memory=7Gi"), ("", ""), ("memory=6Gi", "")]


def in_order(found: KeptPlan) -> list[str]:
    """The pods as they came."""
    assert found._live is not None
    return list(found._live.uids)


@settings(deadline=None, max_examples=60)
@given(
    some.lists(
        some.tuples(
            some.dictionaries(some.sampled_from("abcde"), some.sampled_from(RESOURCES)),
            some.sampled_from(["8Gi", "16Gi"]),
        ),
        max_size=6,
    )
)
def test_any_lists_one_after_another(
    lists: list[tuple[dict[str, tuple[str, str]], str]],
) -> None:
    kept = KeptPlan()
    nodes = {size: replace(NODE, name=size) for size in ("8Gi", "16Gi")}
    note = Problem("info", "here", "noted", "")
    for resources, size in lists:
        pods = {name: kubelet_pod(name, *both) for name, both in resources.items()}
        found = kept.plan(list(pods.values()), nodes[size], [note])
        again = [pods[uid] for uid in in_order(kept)]
        assert found == plan(again, nodes[size], [note])


def test_what_is_the_same_is_not_planned_again() -> None:
    kept = KeptPlan()
    first = kept.plan([kubelet_pod("a"), kubelet_pod("b")], NODE)
    assert kept.plan([kubelet_pod("b"), kubelet_pod("a")], NODE) is first
    changed = kept.plan([kubelet_pod("a", "memory=32Mi"), kubelet_pod("b")], NODE)
    old, new = (
        {one.path: one.settings for one in made.cgroups if one.pod and one.pod.name == "b"}
        for made in (first, changed)
    )
    assert all(new[path] is settings for path, settings in old.items())
    assert changed != first


def test_pods_with_cpus_of_their_own_are_placed_by_each_list() -> None:
    static = replace(NODE, kubelet=replace(NODE.kubelet, cpu_manager_policy="static"))
    kept = KeptPlan()
    a, b = (kubelet_pod(name, "cpu=1 memory=64Mi", "cpu=1 memory=64Mi") for name in "ab")
    for pods in ([a, b], [b, a], [b], [a, b]):
        assert kept.plan(pods, static) == plan(pods, static)
