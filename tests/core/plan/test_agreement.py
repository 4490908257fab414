"""``plan``, ``explain`` and ``convert`` say the same of what charts print, in every profile."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.api.manifest import Options
from qoslet.core.api.pod import Pod
from qoslet.core.convert.convert import conversion_request
from qoslet.core.convert.pods import convert_pods
from qoslet.core.explain.explain import explain
from qoslet.core.plan.plan import plan
from qoslet.host.files import manifests
from tests.core.vectors.fixtures import node_of
from tests.paths import DATA

CHARTS = sorted((DATA / "charts").iterdir())
HOSTS: dict[str, dict[str, Any]] = {
    "whole": {},
    "few": {"controllers": frozenset({"cpu", "pids"})},
    "old": {"kernel": "4.18"},
}


def pods() -> list[Pod]:
    loaded = manifests.load([str(path) for path in CHARTS], Options())
    assert loaded.pods
    return list(loaded.pods)


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@pytest.mark.parametrize("release", ["1.6", "1.21", "1.27", "1.36", "1.37", "design"])
@pytest.mark.parametrize("host", HOSTS)
def test_one_value_in_every_answer(host: str, release: str, hierarchy: str) -> None:
    runtime = "kep-2254" if release == "design" else "runc-1.4.0"
    node = node_of(
        release,
        capacity={"cpu": "8", "memory": "16Gi", "pid": "1000"},
        host={"hierarchy": hierarchy, "hugepage_sizes": (2 << 20,), **HOSTS[host]},
        gates={"MemoryQoS": True},
        runtime=runtime,
    )
    found = pods()
    made = plan(found, node)
    assert [row for row in made.problems if row.severity == "error"] == []
    explained = {
        group.cgroup.name: {v.file: v.value for v in group.values if v.value is not None}
        for pod in made.pods[:3]
        for group in explain(made, pod.pod.name, namespace=pod.pod.namespace).groups
    }
    request = conversion_request(hierarchy, runtime)
    converted = convert_pods(found, node, request).parts
    groups = [cgroup for cgroup in made.cgroups if cgroup.pod is not None]
    assert len(converted) == len(groups)
    for cgroup, part in zip(groups, converted, strict=True):
        planned = {row.file: row.value for row in cgroup.settings}
        assert {row.file: row.value for row in part.rows} == planned
        said = explained.get(cgroup.name)
        if said is not None:
            said.pop("oom_score_adj", None)
            assert said == planned
