"""The cgroups that runtimes and containers made in the pods of a tree: they are in no journal."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from qoslet.app.runtimes.cri_run import endpoint_of
from qoslet.core.cgroup.names import is_at_or_below, is_pod
from qoslet.host.containers.records import PodRecord, records_below
from qoslet.host.state.folder import KEEPER, folder_of

if TYPE_CHECKING:
    from qoslet.app.tree import OwnedTree

_ID = re.compile("[0-9a-f]{64}")
"""What container runtimes call sandboxes and containers, and have in their cgroups' names."""


def runtime_cgroups(tree: OwnedTree) -> list[str]:
    """Those that exist, and all below them, children first. The records of pods name the containers'; what is
    below these was made in them. Where the pods are in a container runtime, they are in a pod's cgroup and their names have an id."""
    folder = folder_of(tree.place.root)
    records = records_below(f"{folder}/{KEEPER}", PodRecord)
    named = {path for record in records for path in record.cgroups.values()}
    pods = set(filter(is_pod, tree.ledger.cgroups)) if endpoint_of(folder) else set()
    return made_by_runtimes(tree.driver.below(tree.place.root), tree.ledger.cgroups, named, pods)


def made_by_runtimes(
    paths: Sequence[str], ours: Collection[str], named: Collection[str], pods: Collection[str]
) -> list[str]:
    """The cgroups among ``paths`` that runtimes and containers made, in the same order: not ``ours`` and ``named``
    or in one that is, or with an id in one of ``pods``. What others make beside pods is not among them."""
    tops = [
        path
        for path in paths
        if path not in ours
        and (
            path in named
            or path.rpartition("/")[0] in named
            or (path.rpartition("/")[0] in pods and _ID.search(path.rpartition("/")[2]))
        )
    ]
    return [path for path in paths if any(is_at_or_below(path, top) for top in tops)]
