"""The cgroups below the root that a container runtime made where it chose, as far as values of ours are in
them: the guard's. All else in them is the runtime's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qoslet.core.cgroup.names import is_below
from qoslet.core.reconcile.journal import Removed, record_done

if TYPE_CHECKING:
    from qoslet.agent.ports import Journal
    from qoslet.core.cgroup.observed import Observed, ObservedCgroup
    from qoslet.core.reconcile.drift import Difference
    from qoslet.core.resources.cgroup_tree import Cgroup


class RuntimeCgroups:
    """Those of a root, by the journal, which has their inodes."""

    def __init__(self, root: str, journal: Journal) -> None:
        self._root = root
        self._journal = journal

    def among(self, groups: Sequence[Cgroup]) -> Sequence[Cgroup]:
        """Those of the cgroups that hold values of ours."""
        adopted = self._journal.ledger.adopted
        return [one for one in groups if one.path in adopted] if adopted else ()

    def is_ours(self, row: Difference, seen: Mapping[str, ObservedCgroup]) -> bool:
        """Whether a difference is ours to end: in such a cgroup only that of a file which we have written."""
        ledger, path = self._journal.ledger, row.path
        if path not in ledger.adopted or not is_below(path, self._root):
            return True
        held = row.verdict == "differs" and row.file in ledger.names.get(path, ())
        return held and ledger.adopted[path] == seen[path].identity

    def forget_gone(self, seen: Observed) -> None:
        """Write down which are gone, or have others in their place."""
        inodes = {path: one.identity for path, one in seen.cgroups.items()}
        gone = [
            Removed(path, done=True)
            for path, inode in self._journal.ledger.adopted.items()
            if is_below(path, self._root) and inodes.get(path) != inode
        ]
        if gone:
            record_done(self._journal, gone)
