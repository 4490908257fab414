"""The CPUs and the memory that an earlier agent assigned, taken up."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from qoslet.errors import CannotDo
from qoslet.host.state.manager_checkpoint import ManagerFiles

if TYPE_CHECKING:
    from qoslet.agent.desired_state import ManifestSource
    from qoslet.app.tree import OwnedTree


def take_up_managers(
    source: ManifestSource, tree: OwnedTree, folder: str, pods: Collection[str]
) -> None:
    """Go on with what ``pods``, which run, were assigned. Raises ``CannotDo`` where that does not fit
    the node or cannot be read; where nothing runs, it counts no more."""
    store = ManagerFiles(folder)
    try:
        source.take_up(store, folder, pods)
    except CannotDo as error:
        if pods or any(tree.driver.members(path) for path in tree.ledger.cgroups):
            raise
        tree.notes.append(f"{error.where}: {error.message}; no pod runs, so it is removed")
        store.remove()
        source.take_up(store, folder, pods)
