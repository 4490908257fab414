"""Containers whose runtime does not use systemd though the kubelet does."""

from __future__ import annotations

import pytest

from qoslet.core.audit.audit import read_request
from tests.core.audit.trees import added, plan_of, tree_of, without
from tests.core.audit.verdicts.setups import first, sole
from tests.core.audit.verdicts.setups import folder as folder


@pytest.mark.parametrize(
    ("hierarchy", "above"),
    [
        ("v2", "/system.slice"),
        ("v2", ""),
        ("v1", "/system.slice/containerd.service"),
        ("v1", ""),
    ],
    ids=["v2-runc", "v2-crun", "v1-runc", "v1-crun"],
)
def test_a_runtime_that_does_not_use_systemd_is_named(
    folder: str, hierarchy: str, above: str
) -> None:
    """``SystemdCgroup = false`` below a kubelet with the systemd driver, as without a configuration."""
    plan = plan_of(folder, hierarchy, "systemd")
    cgroup = first(plan, "container")
    parent, _, leaf = (cgroup.path or "").rpartition("/")
    id = leaf.removeprefix("cri-containerd-").removesuffix(".scope")
    elsewhere = f"{above}/{parent.rpartition('/')[2]}:cri-containerd:{id}"
    assert elsewhere in read_request(plan).cgroups
    live = without(tree_of(plan), cgroup.path or "")
    found = sole(plan, added(live, elsewhere))
    assert (found.verdict, found.severity, found.path) == ("driver", "error", cgroup.path)
    assert elsewhere in found.message
    assert "SystemdCgroup = true" in found.hint
