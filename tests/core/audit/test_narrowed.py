"""What a finding in a tree of qoslet itself says, and how findings are narrowed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.audit.target import narrowed
from qoslet.core.versions.runtime import runtime_of
from qoslet.errors import BadInput
from tests.core.audit.trees import added, changed, look, plan_of, tree_of, without, written
from tests.core.audit.verdicts.setups import first
from tests.core.audit.verdicts.setups import folder as folder


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_tree_of_qoslet_names_no_kubelet(folder: str, hierarchy: str) -> None:
    plan = plan_of(folder, hierarchy)
    node = plan.node
    profile = replace(node.profile, runtime=runtime_of("process"))
    plan = replace(plan, node=replace(node, profile=profile))
    live = tree_of(plan)
    pod, container = first(plan, "pod"), first(plan, "container")
    file = "cpu.shares" if hierarchy == "v1" else "cpu.weight"
    limit = "memory.limit_in_bytes" if hierarchy == "v1" else "memory.high"
    besteffort = next(one for one in plan.cgroups if one.path and "besteffort" in one.path)
    live = written(live, pod.path or "", file, "77")
    live = written(live, besteffort.path or "", limit, "4096000")
    live = without(live, container.path or "")
    live = changed(live, besteffort.path or "", processes=1, pids=(7,))
    live = added(live, f"{besteffort.path}/podffff-1")
    report = look(plan, live)
    said = [
        text
        for one in report.findings
        for text in (one.message, one.hint, one.reset_by, one.writer, *one.may_have)
        if text
    ]
    assert {"drift", "missing", "foreign", "orphan"} <= {one.verdict for one in report.findings}
    assert [text for text in said if "kubelet" in text] == []
    assert any("qoslet" in text for text in said)
    assert {one.writer for one in report.findings if one.file} == {"qoslet"}


def test_findings_are_narrowed_by_verdict_and_place(folder: str) -> None:
    plan = plan_of(folder)
    pods = [one for one in plan.cgroups if one.level == "pod"][:2]
    live = tree_of(plan)
    for pod in pods:
        live = written(live, pod.path or "", "cpu.weight", "77")
    live = added(live, f"{pods[0].path}/x", processes=1)
    report = look(plan, live)
    assert len(report.findings) == 3

    def kept(*wanted: str) -> list[tuple[str, str]]:
        found = narrowed(report, plan, wanted, None).findings
        return [(one.verdict, one.path) for one in found]

    first_path, second_path = (pod.path or "" for pod in pods)
    target = f"pod/{pods[0].pod.name}" if pods[0].pod else ""
    assert kept("drift") == [("drift", first_path), ("drift", second_path)]
    assert kept("drift", "foreign", second_path) == [("drift", second_path)]
    assert kept(first_path) == [("drift", first_path), ("foreign", f"{first_path}/x")]
    assert kept(first_path, second_path) == kept()
    assert kept("drift", target) == [("drift", first_path)]
    with pytest.raises(BadInput):
        kept("nosuch")
