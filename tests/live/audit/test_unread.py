"""What an audit may not read is told and is no finding; and the audit of the library."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import qoslet
from qoslet import schema
from qoslet.core.node.node import Hierarchy
from tests.contract.drivers import real
from tests.live.audit.kubelet_tree import KubeletTree
from tests.live.machine import hold_to_schema

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

NOBODY = 65534


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_without_root_what_cannot_be_read_is_no_finding(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    file = "cpu.shares" if hierarchy == "v1" else "cpu.weight"
    with real(hierarchy) as bench:
        tree = KubeletTree(bench, tmp_path)
        closed = list(tree.directories(tree.pod(1)))
        try:
            clean = tree.look()
            (tree.directory(tree.pod(0), "cpu") / file).chmod(0o600)
            for place in closed:
                place.chmod(0o700)
            # every module was loaded by the look before
            os.seteuid(NOBODY)
            try:
                report = tree.look()
            finally:
                os.seteuid(0)
            found = [(one.verdict, one.path, one.file, one.message) for one in report.findings]
            assert found == []
            unread = {(one.path, one.file) for one in report.unread}
            assert (tree.pod(0), file) in unread
            assert any(path == tree.pod(1) for path, _ in unread)
            assert 0 < report.compared < clean.compared
        finally:
            for place in closed:
                place.chmod(0o755)
            tree.end()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_the_library_audits_this_machine(hierarchy: Hierarchy, tmp_path: Path) -> None:
    with real(hierarchy) as bench:
        tree = KubeletTree(bench, tmp_path)
        try:
            assert qoslet.audit(tree.plan).report.findings == ()
            tree.write(tree.pod(0), "pids.max", "77")
            audited = qoslet.audit(tree.plan)
            (finding,) = audited.report.findings
            assert finding.path == tree.pod(0)
            document = qoslet.to_dict(audited)
            hold_to_schema(document, json.loads(schema.text("audit")))
            assert document.keys() <= qoslet.AuditDocument.__annotations__.keys()
            assert json.loads(qoslet.to_json(audited)) == document
            assert "77" in qoslet.to_text(audited)
        finally:
            tree.end()
