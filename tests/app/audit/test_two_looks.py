"""What an audit makes of a node that changes between its two looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.app.audit.machine import AGAIN_SECONDS, CLEANUP_SECONDS, audit_source
from qoslet.app.audit.node_audit import with_known_runtime
from qoslet.app.inputs import Inputs
from qoslet.core.audit.live import LiveTree, ReadRequest, Units
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.versions.runtime import runtime_of
from tests.core.audit.trees import added, plan_of, tree_of, without, written

ENDED = "/kubepods/burstable/pod0000dead-1111-2222-3333-444444444444"


class Looks:
    """Trees that are read one after the other."""

    def __init__(self, *trees: LiveTree) -> None:
        self._trees = list(trees)

    def read(self, request: ReadRequest) -> LiveTree:
        return self._trees.pop(0)

    def units(self, names: Sequence[str], properties: Iterable[str]) -> Mapping[str, Units]:
        return {}


@pytest.mark.parametrize("is_there_again", [True, False])
def test_a_pod_that_goes_between_them_was_counted(tmp_path: Path, is_there_again: bool) -> None:
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    after = written(tree_of(plan), "/kubepods/burstable", "cpu.weight", "77")
    before = added(after, ENDED)
    source = Looks(before, before if is_there_again else after)
    found = audit_source(
        plan, source, {}, lambda: plan, None, KubeletWork, pause=lambda seconds: None
    )
    [weight] = [one for one in found.report.findings if one.file == "cpu.weight"]
    assert weight.found == "77"
    assert weight.verdict == ("drift" if is_there_again else "pending")


@pytest.mark.parametrize(("is_live", "waits"), [(True, CLEANUP_SECONDS), (False, AGAIN_SECONDS)])
@pytest.mark.parametrize("stays", [True, False])
def test_a_kubelet_has_time_to_remove_what_a_pod_left(
    tmp_path: Path, is_live: bool, waits: float, stays: bool
) -> None:
    # of a kubelet 1.36.2: a static pod went while its sandbox was made
    plan, waited = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36"), list[float]()
    before = added(tree_of(plan), ENDED)
    source = Looks(before, before if stays else tree_of(plan))
    work = KubeletWork if is_live else None
    found = audit_source(plan, source, {}, lambda: plan, None, work, pause=waited.append)
    assert waited == [waits]
    assert [one.verdict for one in found.report.findings] == ["orphan"] * stays


@pytest.mark.parametrize(("ready", "is_kept"), [(None, True), (frozenset[str](), False)])
def test_a_runtime_that_does_not_answer_again_is_the_one_that_it_was(
    tmp_path: Path, ready: frozenset[str] | None, is_kept: bool
) -> None:
    node = plan_of(str(tmp_path), "v2", "systemd", "1.36").node
    other = replace(node, profile=replace(node.profile, runtime=runtime_of("runc-1.1.5")))
    before = Inputs((), node, (), work=KubeletWork(ready=frozenset(["a"])))
    found = with_known_runtime(Inputs((), other, (), work=KubeletWork(ready=ready)), before)
    assert found.node == (node if is_kept else other)


@pytest.mark.parametrize("backwards", [False, True])
def test_findings_come_in_an_order_of_their_own(tmp_path: Path, backwards: bool) -> None:
    # a kubelet names its pods in another order each time
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    pods = [one.path or "" for one in plan.cgroups if one.level == "pod"]
    tree = without(tree_of(plan), pods[1])
    for path in (pods[0], pods[2], "/kubepods"):
        for file in ("memory.swap.high", "cpu.weight"):
            tree = written(tree, path, file, "4096")
    if backwards:
        turn = {one.pod.uid: -at for at, one in enumerate(plan.pods)}
        rows = sorted(plan.cgroups, key=lambda one: turn[one.pod.uid] if one.pod else -len(turn))
        plan = replace(plan, cgroups=tuple(rows))
    found = audit_source(plan, Looks(tree, tree), {}, lambda: plan, pause=lambda seconds: None)
    told = [(one.severity, one.path, one.file) for one in found.report.findings]
    changed = [
        ("warning", path, file)
        for path in ("/kubepods", *sorted((pods[0], pods[2])))
        for file in ("cpu.weight", "memory.swap.high")
        if (path, file) != ("/kubepods", "memory.swap.high")
    ]
    assert told == [("error", pods[1], None), *changed]
