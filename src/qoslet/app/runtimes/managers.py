"""The CPUs and the memory that an earlier agent assigned, taken up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qoslet.errors import CannotDo
from qoslet.host.state.manager_checkpoint import ManagerFiles

if TYPE_CHECKING:
    from qoslet.agent.desired_state import ManifestSource
    from qoslet.app.tree import OwnedTree
    from qoslet.core.workload.pod_status import RuntimePod


def take_up_managers(
    source: ManifestSource, tree: OwnedTree, folder: str, pods: Mapping[str, RuntimePod]
) -> None:
    """Go on with what ``pods``, which run (by UID), were assigned. Raises ``CannotDo`` where that does not fit
    the node or cannot be read; where nothing runs, it counts no more."""
    try:
        source.take_up(ManagerFiles(folder), folder, pods)
        return
    except CannotDo as error:
        refused = error
    if not pods and not any(tree.driver.members(path) for path in tree.ledger.cgroups):
        tree.notes.append(f"{refused.where}: {refused.message}; removed, since no pod runs")
        ManagerFiles(folder).remove()
        source.take_up(ManagerFiles(folder), folder, pods)
        return
    try:
        source.take_up(ManagerFiles(folder, copies=True), folder, pods)
    except CannotDo:
        if os.path.lexists(refused.where):
            raise refused from None
        # it was removed by hand, which is to say that it counts no more
        ManagerFiles(folder).remove()
        source.take_up(ManagerFiles(folder), folder, pods)
        return
    tree.notes.append(f"{refused.where}: {refused.message}; its copy counts")
