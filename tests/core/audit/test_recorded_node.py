"""A node that a real kubelet 1.36 and containerd ran: its recorded cgroups are as planned."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Options
from qoslet.core.audit.audit import audit
from qoslet.core.audit.live import LiveCgroup, LiveTree
from qoslet.core.node.flags import NO_FLAGS
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from tests.paths import SAMPLES


def recorded() -> LiveTree:
    """The tree of ``samples/cgroups-v1.txt``."""
    found: dict[str, LiveCgroup] = {}
    for number, line in enumerate((SAMPLES / "cgroups-v1.txt").read_text().splitlines(), 1):
        head, _, processes = line.partition(" PROCS=")
        path, *words = head.split(" ")
        values: dict[str, str] = {}
        last = ""
        for word in words:
            name, equals, value = word.partition("=")
            if equals:
                values[name], last = value, name
            else:
                values[last] += f" {word}"
        oom = int(processes.rpartition("[oom ")[2].rstrip("]")) if processes else None
        found[path] = LiveCgroup(
            path,
            number,
            values,
            processes=int(bool(processes)),
            pids=(number,) if processes else (),
            oom_score_adj=None if oom is None else (oom,),
        )
    return LiveTree(found)


def planned(pods: str) -> Plan:
    """The plan of its pods, from its own documents."""
    documents = [str(SAMPLES / "kubelet-config.yaml"), str(SAMPLES / "nodes.json")]
    node, problems = node_files.load_node(documents, NO_FLAGS)
    loaded = manifests.load([str(SAMPLES / pods)], Options(node_name=node.name))
    return plan(loaded.pods, node, problems)


@pytest.mark.parametrize("pods", ["pods.json", "kubelet-pods.json", "nodes-pods.json"])
def test_the_recorded_tree_is_as_planned(pods: str) -> None:
    # its containerd might not lower oom_score_adj: restrict_oom_score_adj, without CAP_SYS_RESOURCE
    live = replace(recorded(), least_oom_score_adj=0)
    report = audit(planned(pods), live, {}, {})
    rows = [(one.verdict, one.path, one.file, one.expected, one.found) for one in report.findings]
    assert rows == []
    assert report.compared > 100
    assert report.notes == ()


def test_oom_score_adj_that_nobody_lowered_is_found_elsewhere() -> None:
    report = audit(planned("pods.json"), recorded(), {}, {})
    assert {(one.file, one.found) for one in report.findings} == {("oom_score_adj", "0")}
