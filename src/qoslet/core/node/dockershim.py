"""What Docker as the container runtime needs of a node, and what is assumed for nodes of its time.

Source: 1.24 changelog (dockershim is removed); Mirantis/cri-dockerd (its nodes report docker, too); KEP-2254 and KEP-2570: dockershim is not supported on
cgroup v2.
"""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.node.node import Node
from qoslet.core.problem import Problem

LAST_DOCKERSHIM = 23
"""The last minor with dockershim. Source: 1.24 changelog."""


def dockershim_problems(node: Node) -> Iterator[Problem]:
    """What Docker as the runtime needs, and what is assumed where no runtime is named."""
    runtime, release = node.profile.runtime, node.profile.kubernetes
    where = node.origin("runtime") if "runtime" in node.origins else "runtime (default)"
    old = node.profile.minor <= LAST_DOCKERSHIM
    if runtime.cri == "docker" and not old:
        message = (
            f"{release} has no dockershim, 1.{LAST_DOCKERSHIM} is the last with it: Docker is"
            " reached through cri-dockerd, which qoslet takes as dockershim"
        )
        yield Problem("info", where, message, "name another runtime with --runtime")
    if runtime.cri == "docker" and old and node.os == "linux" and node.hierarchy == "v2":
        message = "dockershim does not support cgroup v2 (KEP-2254, KEP-2570)"
        hint = "use containerd or CRI-O, or a host with cgroup v1"
        yield Problem("warning", where, message, hint)
    if old and node.os == "linux" and "runtime" not in node.origins:
        message = (
            f"no runtime is named: qoslet assumes {runtime.name}, which is newer than {release}"
        )
        hint = "name it with --runtime, such as docker-20.10 or containerd-1.5"
        yield Problem("info", where, message, hint)
