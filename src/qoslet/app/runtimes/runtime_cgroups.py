"""The cgroups that runtimes made for the pods of a tree: they are in no journal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qoslet.app.runtimes.cri_run import endpoint_of
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.host.containers.records import PodRecord, records_below
from qoslet.host.state.folder import KEEPER, folder_of

if TYPE_CHECKING:
    from qoslet.app.tree import OwnedTree

_ID = re.compile("[0-9a-f]{64}")
"""What container runtimes call sandboxes and containers, and have in their cgroups' names."""


def runtime_cgroups(tree: OwnedTree) -> list[str]:
    """Those that exist, and all below them, children first. The records of an OCI runtime's pods name
    them; where the pods are in a container runtime, their names have an id."""
    folder = folder_of(tree.place.root)
    records = records_below(f"{folder}/{KEEPER}", PodRecord)
    named = {path for record in records for path in record.cgroups.values()}
    has_ids = bool(endpoint_of(folder))
    paths = [path for path in tree.driver.below(tree.place.root) if path not in tree.ledger.cgroups]
    tops = [
        path for path in paths if path in named or (has_ids and _ID.search(path.rpartition("/")[2]))
    ]
    return [path for path in paths if any(is_at_or_below(path, top) for top in tops)]
