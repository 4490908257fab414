"""The cgroups that runtimes made for the pods of a tree: they are in no journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.host.containers.records import PodRecord, records_below
from qoslet.host.cri.pod_record import CriPodRecord
from qoslet.host.state.folder import CRI, KEEPER, folder_of

if TYPE_CHECKING:
    from qoslet.app.tree import OwnedTree


def runtime_cgroups(tree: OwnedTree) -> set[str]:
    """Those of the pods that have records, with all below them. An OCI runtime's are named in the records; the
    names of a container runtime's, such as those of sandboxes, hold an id."""
    folder = folder_of(tree.place.root)
    made: set[str] = set()
    ids: set[str] = set()
    for record in records_below(f"{folder}/{KEEPER}", PodRecord):
        made.update(record.cgroups.values())
    for kept in records_below(f"{folder}/{CRI}", CriPodRecord):
        made.update(kept.cgroups.values())
        ids.update(filter(None, (kept.sandbox, *kept.ids.values())))
    paths = [path for path in tree.driver.below(tree.place.root) if path not in tree.ledger.cgroups]
    tops = [path for path in paths if path in made or _holds(path.rpartition("/")[2], ids)]
    return {path for path in paths if any(is_at_or_below(path, top) for top in tops)}


def _holds(name: str, ids: set[str]) -> bool:
    return any(one in name for one in ids)
