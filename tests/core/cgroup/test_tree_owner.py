"""Whose cgroups a tree looks like, and that nobody is told to remove a kubelet's."""

from __future__ import annotations

import pytest

from qoslet.core.cgroup.tree_owner import advice, tree_owner, unit_advice

ID = "0123456789abcdef" * 4
TREES = [
    ("/kubepods", [], "a kubelet"),
    ("/kubepods.slice", [], "a kubelet"),
    ("/kubepods.slice/kubepods-burstable.slice", [], "a kubelet"),
    ("/kubelet-kubepods.slice", [], "a kubelet"),
    ("/k8s", ["/k8s/kubepods"], "a kubelet"),
    ("/mine", [f"/mine/a/cri-containerd-{ID}.scope"], "containerd"),
    ("/mine", [f"/mine/crio-{ID}.scope"], "CRI-O"),
    ("/docker", [f"/docker/{ID}"], "Docker"),
    ("/mine", [f"/mine/docker-{ID}.scope"], "Docker"),
    ("/mine", [f"/mine/libpod-{ID}.scope"], "Podman"),
    ("/system.slice/ssh.service", [], "systemd"),
    ("/user.slice", [], "systemd"),
    ("/qoslet", ["/qoslet/kubepods", "/qoslet/kubepods/burstable"], ""),
    ("/qoslet.slice", ["/qoslet.slice/qoslet-kubepods.slice"], ""),
    ("/mine", ["/mine/web"], ""),
]


@pytest.mark.parametrize(("root", "below", "owner"), TREES)
def test_whose_a_tree_looks_like(root: str, below: list[str], owner: str) -> None:
    assert tree_owner(root, below) == owner
    text = advice(root, below)
    assert ("leave it alone" in text) == bool(owner)
    assert ("rmdir" in text) == (not owner and not root.endswith(".slice"))
    assert ("systemctl stop" in text) == (not owner and root.endswith(".slice"))
    assert "another --cgroup-root" in text


def test_a_unit_of_a_kubelet_is_left_alone() -> None:
    assert "looks like a kubelet's: leave it alone" in unit_advice(
        "/kubepods.slice/kubepods-burstable.slice"
    )
    assert "systemctl stop" in unit_advice("/q.slice")
