"""What concerns only a kubelet, for commands that do a kubelet's work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


def ignored_root(
    document: tuple[Any, str] | None, flag: tuple[Any, str] | None
) -> Iterator[Problem]:
    """The row about a ``cgroupRoot`` that a document asks for and ``--cgroup-root`` overrides; each
    is a value and its place."""
    if document is None or flag is None or document[0] in ("", "/", flag[0]):
        return
    message = f"{document[0]} is the kubelet's and has no effect: the root is {flag[0]}"
    yield Problem("warning", document[1], message, "to change it, restart with --cgroup-root")
