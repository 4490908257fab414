"""What decides about the changes of a pair of cgroups, without what only their texts need."""

from __future__ import annotations

from hypothesis import given, settings

from qoslet.core.api.pod import Pod
from qoslet.core.diff.diff import changes_of, deciding
from qoslet.core.diff.pairs import Pair, pairs
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from tests.core.diff.test_properties import POD_LISTS, distinct
from tests.core.fleet.test_change import pod_of
from tests.core.plan.test_live_plan import CAPACITY, nodes
from tests.core.vectors.fixtures import node_of, resources


def told(pair: Pair) -> list[tuple[str | None, str, str, str]]:
    """The changes of a pair, but for their texts."""
    return [(one.file, one.severity, one.direction, one.aspect) for one in changes_of(pair, None)]


@settings(max_examples=150, deadline=None)
@given(nodes(), nodes(), POD_LISTS)
def test_it_decides_about_the_same_changes(node: Node, other: Node, found: list[Pod]) -> None:
    some = distinct(found)
    for pair in pairs(plan(some, node), plan(some, other)):
        assert told(deciding(pair)) == told(pair)


def test_it_is_equal_for_containers_of_other_sizes_that_change_alike() -> None:
    some = [
        pod_of(f"p{size}", resources({"requests": {"cpu": f"{size}m", "memory": f"{size}Mi"}}))
        for size in (100, 200)
    ]
    before, after = (plan(some, node_of(one, capacity=CAPACITY)) for one in ("1.36", "1.37"))
    found = [
        one for one in pairs(before, after) if one.cgroup.level == "container" and not one.is_same
    ]
    assert len(found) == 2
    assert found[0] != found[1]
    assert deciding(found[0]) == deciding(found[1])
    assert hash(deciding(found[0])) == hash(deciding(found[1]))


def test_it_keeps_what_a_value_is_measured_with() -> None:
    """memory.memsw counts memory, too, whose limit is the same on both sides."""
    limit = Setting("memory.limit_in_bytes", str(1 << 30), "", (), "runtime")
    file = "memory.memsw.limit_in_bytes"
    before, after = (
        Cgroup("/a", "pod", (limit, Setting(file, str(size << 30), "", (), "runtime")))
        for size in (3, 2)
    )
    pair = Pair(before, after, "/a")
    assert told(pair) == [(file, "warning", "worse", "swap")]
    assert told(deciding(pair)) == told(pair)


def test_a_limit_of_swap_takes_nothing_where_no_node_has_swap() -> None:
    some = [pod_of("web", resources({"requests": {"memory": "64Mi"}}))]
    file = "memory.swap.max"
    for refused, swap, lost in ((True, 0, False), (False, 0, True), (False, 1 << 30, True)):
        before, after = (
            plan(
                some,
                node_of(
                    "1.36",
                    capacity=CAPACITY,
                    host={"hierarchy": one, "swap_controller": True},
                    swap=swap,
                    fail_swap_on=refused,
                ),
            )
            for one in ("v1", "v2")
        )
        rows = [
            row
            for pair in pairs(before, after)
            if pair.cgroup.level == "container"
            for row in told(pair)
            if row[0] == file
        ]
        how = ("warning", "worse") if lost else ("info", "same")
        assert rows == [(file, *how, "swap")]
