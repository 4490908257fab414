"""Rows about the host that concern only a kubelet, for commands that do a kubelet's work."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.node.node import Node
from qoslet.core.node.validation.kubelet import host_refusals
from qoslet.core.problem import Problem


def unasked_refusals(node: Node) -> list[Problem]:
    """What only a kubelet would refuse of the host: of options that neither a flag nor a document
    sets, on a node without a KubeletConfiguration."""
    if node.kubelet_given:
        return []
    kubelet = node.kubelet
    if "failSwapOn" in node.origins:
        kubelet = replace(kubelet, fail_swap_on=False)
    if "failCgroupV1" in node.origins:
        kubelet = replace(kubelet, fail_cgroup_v1=False)
    return list(host_refusals(replace(node, kubelet=kubelet)))
