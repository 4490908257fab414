"""The CPUs and memory that the kubelet of this machine has handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.resources.node_policy import node_policy, places
from qoslet.host.kubelet.manager_states import manager_states

if TYPE_CHECKING:
    from qoslet.app.node.found_node import FoundNode
    from qoslet.core.managers.container_manager import Assignments
    from qoslet.core.node.node import Node


def kubelet_assignments(found: FoundNode, node: Node) -> Assignments | None:
    """What its managers have handed out as of now; None where no policy hands any out, or it does not
    tell."""
    if not places(node_policy(node)):
        return None
    from qoslet.core.managers.told import fitting, told_assignments

    return fitting(node, told_assignments(manager_states(found.folder, found.root)))
