"""A node that is audited again has the pods that its options name, as at first."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.app.audit.node_audit import NodeAudit
from qoslet.cli.commands import parser_of
from qoslet.host.cgroupfs.mounted import mounted

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: %s}\nspec: {containers: [{name: a, image: a}]}\n"


@pytest.mark.skipif(mounted().hierarchy is None, reason="no cgroups are mounted here")
def test_a_page_of_one_namespace_stays_one(tmp_path: Path) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text("---\n".join(POD % namespace for namespace in ("shop", "other")))
    words = ["-f", str(pods), "-n", "shop", "--cgroup-root", "/qoslet-none"]
    audit = NodeAudit(parser_of("web").parse_args(words), again=True)
    for _ in range(2):
        found = audit.look(pause=lambda seconds: None)
        assert [one.pod.namespace for one in found.plan.pods] == ["shop"]
