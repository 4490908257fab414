"""Paths as a shell has them."""

from __future__ import annotations

import pytest

from qoslet.core.cgroup.mount_path import cgroup_of, is_mounted_path


@pytest.mark.parametrize(
    ("text", "hierarchy", "wanted"),
    [
        ("/sys/fs/cgroup/kubepods/burstable", "v2", ("/kubepods/burstable", "")),
        ("/sys/fs/cgroup/kubepods/cpu.weight", "v2", ("/kubepods", "cpu.weight")),
        ("/sys/fs/cgroup/cpu,cpuacct/kubepods/", "v1", ("/kubepods", "")),
        ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "v1", ("/a", "memory.limit_in_bytes")),
        ("/sys/fs/cgroup/hugetlb/a/hugetlb.2MB.max", "v1", ("/a", "hugetlb.2MB.max")),
        ("/sys/fs/cgroup/a/cgroup.subtree_control", "v2", ("/a", "cgroup.subtree_control")),
        ("/sys/fs/cgroup/kubepods.slice/x.scope", "v2", ("/kubepods.slice/x.scope", "")),
        ("/sys/fs/cgroup/cpu.slice", "v2", ("/cpu.slice", "")),
        ("/sys/fs/cgroup", "v2", ("/", "")),
        ("/sys/fs/cgroup/memory", "v1", ("/", "")),
        ("/kubepods/cpu.weight", "v2", ("/kubepods/cpu.weight", "")),
        ("/sys/fs/cgroups/a", "v2", ("/sys/fs/cgroups/a", "")),
    ],
)
def test_the_cgroup_and_file_of_a_path(text: str, hierarchy: str, wanted: tuple[str, str]) -> None:
    assert cgroup_of(text, hierarchy) == wanted
    assert is_mounted_path(text) == (wanted[0] != text)
