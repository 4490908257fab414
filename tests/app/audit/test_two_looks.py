"""What an audit makes of a node that changes between its two looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from qoslet.app.audit.machine import audit_source
from qoslet.core.audit.kubelet_work import KubeletWork
from qoslet.core.audit.live import LiveTree, ReadRequest, Units
from tests.core.audit.trees import added, plan_of, tree_of, written

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
