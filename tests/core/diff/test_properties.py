"""A difference names exactly the values in which two plans differ."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.pod import Pod
from qoslet.core.diff.aspects import OOM_SCORE
from qoslet.core.diff.diff import diff
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from tests.core.plan.test_live_plan import nodes, pods

POD_LISTS = st.lists(pods(), max_size=4, unique_by=lambda pod: pod.uid)
Key = tuple[str, str, str, str]


def distinct(found: list[Pod]) -> list[Pod]:
    """One pod of each namespace and name."""
    return list({pod.key: pod for pod in found}.values())


def values(made: Plan) -> dict[Key, dict[str, str]]:
    """The values of each cgroup, by what it stands for."""
    root = made.node.kubelet.cgroup_root.rstrip("/")
    return {key_of(cgroup, root): files(cgroup) for cgroup in made.cgroups}


def key_of(cgroup: Cgroup, root: str) -> Key:
    if cgroup.pod is None:
        name = cgroup.name
        return ("", name.removeprefix(root) if name.startswith(f"{root}/") else name, "", "")
    container = cgroup.container.name if cgroup.container is not None else ""
    return (cgroup.pod.key, "", cgroup.level, container)


def files(cgroup: Cgroup) -> dict[str, str]:
    found = {one.file: f"{one.value} {one.applied}" for one in cgroup.settings}
    if cgroup.oom_score_adj is not None:
        found[OOM_SCORE] = str(cgroup.oom_score_adj)
    return found


@settings(max_examples=150, deadline=None)
@given(nodes(), POD_LISTS)
def test_a_plan_does_not_differ_from_itself(node: Node, found: list[Pod]) -> None:
    made = plan(found, node)
    same = diff(made, plan(found, node))
    assert (same.changes, same.shares, same.hints, same.warnings) == ((), (), (), ())
    assert not same.above("none")


@settings(max_examples=300, deadline=None)
@given(nodes(), nodes(), POD_LISTS, POD_LISTS)
def test_every_value_that_differs_is_named_and_no_other(
    node: Node, other: Node, found: list[Pod], others: list[Pod]
) -> None:
    before, after = plan(distinct(found), node), plan(distinct(others), other)
    left, right = values(before), values(after)
    wanted: set[tuple[Key, str | None]] = {(key, None) for key in left.keys() ^ right.keys()}
    for key in left.keys() & right.keys():
        for file in left[key].keys() | right[key].keys():
            if left[key].get(file) != right[key].get(file):
                wanted.add((key, file))
    answer = diff(before, after)
    roots = [one.node.kubelet.cgroup_root.rstrip("/") for one in (before, after)]
    told = []
    for change in answer.changes:
        if change.aspect == "stands" or (change.file is None and change.before is not None):
            continue
        assert change.cgroup is not None
        root = roots[0] if any(change.cgroup is one for one in before.cgroups) else roots[1]
        told.append((key_of(change.cgroup, root), change.file))
    assert len(told) == len(set(told))
    assert set(told) == wanted
    known = {(row.where, row.message) for row in before.problems}
    new = [row for row in after.problems if (row.where, row.message) not in known]
    assert [row for row in new if row.severity == "warning"] == list(answer.warnings)
    errors = [row for row in answer.changes if row.aspect == "stands"]
    assert len([row for row in new if row.severity == "error"]) == len(errors)


@settings(max_examples=100, deadline=None)
@given(nodes(), nodes(), POD_LISTS)
def test_the_way_back_takes_what_the_way_there_gives(
    node: Node, other: Node, found: list[Pod]
) -> None:
    before, after = plan(distinct(found), node), plan(distinct(found), other)
    there, back = diff(before, after), diff(after, before)
    turned = {"worse": "better", "better": "worse", "same": "same"}
    forth = {
        (one.name, one.file): one.direction
        for one in there.changes
        if one.before is not None and one.after is not None and one.aspect != "cpu-share"
    }
    for one in back.changes:
        if (one.name, one.file) in forth:
            assert one.direction == turned[forth[one.name, one.file]], one
