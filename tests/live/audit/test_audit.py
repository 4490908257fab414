"""Random changes behind the back of a kubelet's tree in this kernel: each is found and named right,
and an untouched tree has no finding."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from qoslet.core.node.node import Hierarchy
from tests.contract.drivers import real
from tests.live.audit.kubelet_tree import KubeletTree, changes

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

CHANGES = 200
AT_ONCE = 5


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_every_change_is_found_and_named_right(
    hierarchy: Hierarchy, tmp_path: Path, record_property
) -> None:
    chance = random.Random(f"audit {hierarchy}")
    with real(hierarchy) as bench:
        tree = KubeletTree(bench, tmp_path)
        try:
            clean = tree.look()
            assert [(one.verdict, one.path, one.message) for one in clean.findings] == []
            assert clean.unread == ()
            missed, done = [], 0
            made = changes(tree, chance)
            while done < CHANGES:
                change = next(made)
                report = tree.look()
                found = {(one.verdict, one.path, one.file) for one in report.findings}
                if (change.verdict, change.path, change.file) not in found:
                    missed.append((change[:4], found))
                change.undo()
                done += 1
                if done % AT_ONCE == 0:
                    rest = [(one.verdict, one.path, one.file) for one in tree.look().findings]
                    assert rest == [], change.what
            assert missed == []
            record_property("compared", clean.compared * done)
            record_property("driver", "cgroupfs")
        finally:
            tree.end()
